"""Steps that train an adapter: the calibrator `quantile-lora` on PRMs with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.measuring import Options, Row, advice, no_more_than
from benchmarks.gpu.random_models import RandomPRM, prefixes, requests
from prmcal.registry.calibrators.lora.fitting import token_ids
from prmcal.registry.contracts.calibrator import ScoredPrefixes
from prmcal.registry.models.memory import free_reserved
from prmcal.registry.plugins import calibrators
from prmcal.registry.prms.token_tree import token_tree_size


def lora(options: Options) -> Iterator[Row]:
    """Fit `quantile-lora` for one epoch, with the paper's batches of 32 prefixes and with larger ones."""
    for shape, batch_size in (("Qwen2 1.5B", 32), ("Qwen2 7B", 32), ("Qwen2 7B", 256)):
        yield _fit(options, shape, batch_size, 4096)


def lora_memory(options: Options) -> Iterator[Row]:
    """Fit on a GPU with 24 GiB, also with passes that do not fit at first."""
    with no_more_than(24):
        yield _fit(options, "Qwen2 7B", 32, 4096)
        yield _fit(options, "Qwen2 7B", 512, 65_536)


def _fit(options: Options, shape: str, batch_size: int, batch_tokens: int) -> Row:
    plugin = RandomPRM(shape, options.tiny, batch_tokens)
    examples = requests(2, 2, 3) if options.tiny else requests(max(8, batch_size // 80), 8, 12)
    rows = prefixes(examples)
    count = np.random.default_rng(0).integers(0, 9, len(rows))
    parameters = plugin.parameters
    calibrator: Any = calibrators.create("quantile-lora", epochs=1, batch_size=batch_size)
    cuda = torch.cuda.is_available()
    logits = np.concatenate([rewards.logit for batch in plugin.score_batch(examples) for rewards in batch])
    features = ScoredPrefixes(plugin, tuple(rows), logits.astype(np.float64))
    tokens = token_tree_size(token_ids(plugin, rows))
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    begun = perf_counter()
    with advice() as lines:
        calibrator.fit(features, count, np.full(len(rows), 8))
    seconds = perf_counter() - begun
    gibibytes = torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")
    plugin.close()
    free_reserved()
    return {
        "shape": shape,
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "prefixes": len(rows),
        "seconds with a prediction of all": round(seconds, 1),
        "tokens/s": round(tokens / seconds),
        # Forward, forward again, and the gradients of the activations; then the prediction.
        "share of peak": options.share(8 * parameters * tokens, seconds),
        "planned / measured": options.planned(parameters, "train", tokens, seconds),
        "GiB": round(gibibytes, 1),
        "said": lines[-1] if lines else "",
    }
