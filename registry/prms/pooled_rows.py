"""Read a PRM's outputs from the reply of a pooling server, and check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.excerpts import excerpt
from prmcal.registry.network import IncompleteReplyError

if TYPE_CHECKING:
    import httpx2

__all__ = ["PooledRows", "check_logits"]

_SUM_TOLERANCE = 1e-5
"""How far rounding in float32 moves the sum of a few probabilities from 1."""


@dataclass(frozen=True)
class PooledRows:
    """The outputs of a PRM at some tokens of a sequence.

    Attributes
    ----------
    rows : ndarray of shape (places, outputs), float32
    places : mapping of int to int
        The row of each token that has one, by the token's position in the sequence.
    """

    rows: NDArray[np.float32]
    places: Mapping[int, int]

    @classmethod
    def of_reply(cls, response: httpx2.Response, ids: Sequence[int], outputs: int, server: str) -> Self:
        """Read the reply for one sequence.

        Parameters
        ----------
        response : Response
            The reply of vLLM's ``/pooling``.
        ids : sequence of int
            The token ids of the sequence. Its last one is the marker, if the format has markers.
        outputs : int
            The expected number of outputs, or 0 if it is not known.
        server : str
            The server in error messages.

        Raises
        ------
        IncompleteReplyError
            If it is no reply of a pooling server.
        PluginFailedError
            If it has another number of rows or of outputs than expected, or numbers that are not finite.
        """
        try:
            (data,) = response.json()["data"]
            rows = np.asarray(data["data"], dtype=np.float32)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IncompleteReplyError(
                f"its reply has no rows of numbers ({type(error).__name__}: {error}): {excerpt(response.text)}"
            ) from error
        marked = [place for place, token in enumerate(ids) if token == ids[-1]]
        if rows.ndim != 2 or len(rows) not in (len(marked), len(ids)):
            step = f'{{"tok_pooling_type": "STEP", "step_tag_id": {ids[-1]}}}'
            raise PluginFailedError(
                f"The server {server} returned outputs of shape {rows.shape} for {len(ids)} tokens with {len(marked)} "
                "markers. There must be a row for each marker or for each token. Check 'tokenizer' and 'format', or "
                f"start the server with --pooler-config '{step}' (each marker) or '{{\"tok_pooling_type\": \"ALL\"}}' "
                "(each token)."
            )
        if outputs and rows.shape[1] != outputs:
            raise PluginFailedError(
                f"The server {server} returned {rows.shape[1]} numbers for each place, and the format has {outputs} "
                "outputs. Check 'model' and 'format'."
            )
        if not np.isfinite(rows).all():
            raise PluginFailedError(
                f"The server {server} returned scores that are not finite numbers, such as NaN. Its model may overflow "
                "in float16: start the server with --dtype bfloat16 or float32."
            )
        places = marked if len(rows) == len(marked) else range(len(ids))
        return cls(rows, {place: row for row, place in enumerate(places)})

    def at(self, place: int) -> NDArray[np.float32]:
        """Return the outputs at a token, of shape (outputs,)."""
        row: NDArray[np.float32] = self.rows[self.places[place]]
        return row


def check_logits(rows: NDArray[np.float32], server: str) -> None:
    """Raise PluginFailedError if all rows, of shape (places, outputs), are probabilities that add up to 1.

    A server that does not know ``use_activation`` returns those. Their difference would be taken for log-odds.
    """
    sums = rows.sum(axis=1, dtype=np.float64)
    between = bool(((rows >= 0) & (rows <= 1)).all())
    if rows.shape[1] > 1 and between and bool((np.abs(sums - 1) < _SUM_TOLERANCE).all()):
        raise PluginFailedError(
            f"The server {server} returned probabilities, and logits were asked for ('use_activation': false). Use a "
            "newer version of vLLM."
        )
