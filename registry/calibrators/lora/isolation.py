"""What a training run changes in its process, put back afterwards: random numbers, threads, messages, environment."""

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
    """Everything random depends on the seed alone, a CPU uses one thread, and the libraries keep silent.

    Sums of floating-point numbers depend on how many threads share them: with one, a fit gives the same bits on a busy
    machine and on an idle one.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    environment, threads, verbosity = dict(os.environ), torch.get_num_threads(), logging.get_verbosity()
    devices = range(torch.cuda.device_count()) if device.type == "cuda" else ()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers is half typed
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
