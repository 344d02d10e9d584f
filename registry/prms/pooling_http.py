"""The PRM `pooling-http`: PRMs behind a server with vLLM's pooling interface."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.ranges import Count, Positive
from prmcal.registry.models.checkpoints import check_checkpoint
from prmcal.registry.network import DEFAULT_PATIENCE
from prmcal.registry.plugins import prms
from prmcal.registry.prms.packing import whole_sequences
from prmcal.registry.prms.pooled_rows import PooledRows, check_logits
from prmcal.registry.prms.tokens import TokenPRM
from prmcal.registry.servers import Address, ServerClient

if TYPE_CHECKING:
    import httpx2

    from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["PoolingHTTPPRM"]

_SET_HERE = ("checkpoint", "max_tokens", "markers", "dtype", "device", "batch_tokens", "tree_tokens")
"""Arguments of a format that are arguments of `pooling-http`, or that a server decides."""


class PoolingHTTPPRM(TokenPRM):
    """A PRM behind vLLM's ``/pooling``, with one sequence per request and many requests in parallel.

    The server gets token ids, in the format of one of the other PRMs, and returns logits. The scores equal those of
    that PRM with the same weights. Only the tokenizer is loaded here. Calibrators that read rewards or logits can be
    fitted. Those that read hidden states or fine-tune the PRM cannot, since a server has no such interface.

    Parameters
    ----------
    base_url : str
        The address, such as ``http://localhost:8000``. ``/pooling`` is appended.
    model : str
        The name of the model on the server.
    tokenizer : str
        A checkpoint with the server's tokenizer: a folder, a hub id with or without ``@REVISION``, or ``nano:NAME``. It
        also says which prefixes are too long, before anything is sent.
    format : str or dict, default="qwen"
        The PRM whose texts are sent and whose outputs are read: a registered name, or ``{"plugin": name, "arguments":
        {...}}``. It must derive from :class:`prmcal.TransformersPRM`.
    markers : {"every", "last"}, optional
        For a format that has both, such as ``qwen``: ``every`` is one marker behind each step, and one request for each
        trajectory. ``last`` is one marker behind the prefix, and one request for each prefix. By default ``every``,
        which costs less. The two give different scores.
    max_tokens : int, default=4096
        Maximum length of a prefix in tokens, marker included. A longer prefix is flagged, never cut. It must not exceed
        the context of the server.
    weights : str, default=""
        A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
        job keys.
    key_variable : str, optional
        The environment variable with the server's key. The key itself is not an argument and is never stored.
    concurrency, timeout, patience
        As in the LLM `openai`.

    Notes
    -----
    The request is ``{"model", "input": token ids, "task": "token_classify", "use_activation": false}``. The server may
    pool every marker (``STEP``, vLLM's default for Qwen2.5-Math-PRM) or every token (``ALL``). The number of rows tells
    which of the two it was.

    vLLM computes every sequence as a whole, also what it shares with another one. So ``last`` computes a trajectory of
    T steps T + 1 times.
    """

    def __init__(
        self,
        base_url: Address,
        model: str,
        tokenizer: str,
        format: str | dict[str, Any] = "qwen",
        markers: Literal["every", "last"] | None = None,
        max_tokens: Count = 4096,
        weights: str = "",
        key_variable: str | None = None,
        concurrency: Count = 64,
        timeout: Positive = 600.0,
        patience: Positive = DEFAULT_PATIENCE,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.tokenizer = tokenizer
        self.format = format
        self.markers = markers
        self.max_tokens = max_tokens
        self.weights = weights
        self.key_variable = key_variable
        self.concurrency = concurrency
        self.timeout = timeout
        self.patience = patience

    def check_arguments(self) -> None:
        """Raise an error if there is no such tokenizer, or if the format is no PRM that can be sent."""
        check_checkpoint(self.tokenizer)
        _ = self.form

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint of the tokenizer."""
        return (self.tokenizer,)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, and what it reads. The server is not part of it."""
        known = super().identity()
        known["arguments"] = {name: known["arguments"].get(name) for name in ("model", "weights")}
        form = self.form.identity()
        known["tokenizer"] = form.pop("checkpoint")
        form["arguments"] = {
            k: v for k, v in form["arguments"].items() if k not in _SET_HERE or k == "markers"
        }
        return {**known, "format": form}

    @cached_property
    def form(self) -> TransformersPRM:
        """The PRM whose format is used. Its model is never loaded."""
        from prmcal.registry.prms.transformers import TransformersPRM

        given: dict[str, Any] = {"plugin": self.format} if isinstance(self.format, str) else self.format
        name, own = given.get("plugin"), given.get("arguments", {})
        if set(given) - {"plugin", "arguments"} or not isinstance(name, str) or not isinstance(own, dict):
            raise ValueError('\'format\' must be the name of a PRM, or {"plugin": name, "arguments": {...}}.')
        form = prms.get(name)
        if not issubclass(form, TransformersPRM):
            raise ValueError(
                f"'format' must be a PRM that derives from prmcal.TransformersPRM, such as 'qwen'. Got '{name}'."
            )
        for argument in own:
            if argument in _SET_HERE:
                raise ValueError(
                    f"'{argument}' is no argument of 'format'. Set it beside 'format' if it is there, or else on the "
                    "server."
                )
        markers = {"markers": self.markers or "every"}
        if "markers" not in inspect.signature(form).parameters:
            if self.markers is not None:
                raise ValueError(f"The format '{name}' has no 'markers'. Remove the argument.")
            markers = {}
        built = prms.create(name, checkpoint=self.tokenizer, max_tokens=self.max_tokens, **markers, **own)
        assert isinstance(built, TransformersPRM)
        return built

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix in the format."""
        return self.form.tokenize_prefix(question, self.form.read_steps(steps))

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """The log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""
        read = [tuple(ids) for of_tree in sequences for ids in of_tree]
        if not read:
            return np.empty(0, dtype=np.float32)
        import torch

        whole = whole_sequences(read)
        asked = list(dict.fromkeys(whole.values()))
        requests = [
            {"model": self.model, "input": ids, "task": "token_classify", "use_activation": False}
            for ids in asked
        ]
        pooled = dict(zip(asked, self._client.ask(requests, self._rows), strict=True))
        ends = np.stack([pooled[whole[ids]].at(len(ids) - 1) for ids in read])
        check_logits(ends, self.base_url)
        return np.asarray(self.form.log_odds(torch.from_numpy(ends)).numpy(), dtype=np.float32)

    def _rows(self, response: httpx2.Response, request: Mapping[str, Any]) -> PooledRows:
        return PooledRows.of_reply(response, request["input"], self.form.outputs(), self.base_url)

    @property
    def _client(self) -> ServerClient:
        return ServerClient(
            self.base_url,
            "/pooling",
            self.key_variable,
            self.concurrency,
            self.timeout,
            self.patience,
            not_found="Check 'model', and 'base_url': vLLM's /pooling is at the root, without /v1.",
            refused="Check that the server was started with --runner pooling, that its model classifies tokens, and "
            "that 'max_tokens' fits its context.",
        )
