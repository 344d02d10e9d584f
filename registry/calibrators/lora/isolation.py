"""Restore what a training run changes in its process: random states, threads, verbosity and environment."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from transformers.utils import logging

__all__ = ["isolated"]


@contextmanager
def isolated(seed: int, device: torch.device) -> Iterator[None]:
    """Seed all random numbers, use one CPU thread, and silence the libraries; restore all of it at the end.

    Sums of floating-point numbers depend on the number of threads. With one thread, a fit is reproducible to the bit.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    environment, threads, verbosity = dict(os.environ), torch.get_num_threads(), logging.get_verbosity()
    devices = range(torch.cuda.device_count()) if device.type == "cuda" else ()
    logging.set_verbosity_error()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=list(devices)):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
        logging.set_verbosity(verbosity)
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
