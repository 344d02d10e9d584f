"""Go on with smaller batches where the memory of a GPU is not enough."""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from prmcal.errors import PluginFailedError

T = TypeVar("T")
R = TypeVar("R")


def in_halves(
    run: Callable[[Sequence[T]], R],
    batch: Sequence[T],
    smaller: Callable[[Sequence[T]], object],
    divide: Callable[[T], Sequence[T]] = lambda input_: (),
) -> list[R]:
    """Return the result of a batch, or of its halves if the batch does not fit into the GPU's memory.

    `run` computes a batch. It may raise torch's OutOfMemoryError, and is then called again for each half. `smaller`
    makes later batches smaller than this one. `divide` returns the parts of a single item that does not fit, or
    nothing. Raises a PluginFailedError if a single item does not fit and cannot be divided.
    """
    try:
        return [run(batch)]
    except torch.OutOfMemoryError as error:
        middle = len(batch) // 2
        pieces = [batch[:middle], batch[middle:]] if middle else [[piece] for piece in divide(batch[0])]
        if not pieces:
            raise too_small(error) from error
    # Behind the `except`, since the error holds the frames that hold the tensors of the batch.
    free_reserved()
    smaller(batch)
    return [output for piece in pieces for output in in_halves(run, piece, smaller, divide)]


def shrink(plugin: Any, kind: str, tokens: int) -> None:
    """Halve the `batch_tokens` of a plugin after a batch that did not fit, and log a number that fits."""
    allowed = max(1, tokens // 2)
    if 2 * allowed <= plugin.batch_tokens:
        plugin.batch_tokens = allowed
        advise(f"Set 'batch_tokens' of the {kind} '{plugin.plugin_name}' to {allowed} or less to avoid this.")


def advise(advice: str) -> None:
    """Log that a batch did not fit, and a number that fits."""
    logging.getLogger(__name__).warning(
        "A batch did not fit into the memory of the GPU. It was computed in smaller parts. %s", advice
    )


def too_small(error: torch.OutOfMemoryError) -> PluginFailedError:
    """Return the error for a batch that cannot be divided further."""
    reason = str(error).split("\n", maxsplit=1)[0]
    return PluginFailedError(
        f"The smallest possible batch does not fit into the memory of the GPU. {reason} Use a GPU with more memory, "
        "free what other programs take of it, or let the model read shorter texts ('max_tokens')."
    )


def free_reserved() -> None:
    """Free the GPU memory that torch keeps for later tensors. Without a GPU, this does nothing."""
    gc.collect()
    torch.cuda.empty_cache()
