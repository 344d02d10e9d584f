"""PRMs that vLLM computes: `pooling-http` asks a server, and `qwen-vllm` runs an engine in this process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from prmcal.arrays import Floats32
from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.plugin import Count, ShareOrOne
from prmcal.registry.models.checkpoints import SPREAD, SpreadableDevice, check_checkpoint
from prmcal.registry.models.vllm import start_pooling_engine, stop_engine
from prmcal.registry.plugins import plugin_entry, prms
from prmcal.registry.prms.qwen import QwenPRM
from prmcal.registry.prms.tokens import TokenPRM
from prmcal.registry.served import Served

if TYPE_CHECKING:
    import httpx2
    import torch

    from prmcal.registry.prms.transformers import TransformersPRM

_SUM_TOLERANCE = 1e-5
"""The distance by which rounding in float32 moves the sum of a few probabilities from 1."""


_SET_HERE = {"checkpoint", "max_tokens", "markers", "dtype", "device", "batch_tokens", "tree_tokens"}
"""Arguments of a format that are arguments of `pooling-http`, or that a server decides."""


@dataclass(eq=False, kw_only=True)
class PoolingHTTPPRM(Served, TokenPRM):
    """A PRM behind vLLM's ``/pooling``, with one sequence per request and many requests in parallel.

    The server gets token ids, in the format of one of the other PRMs, and returns logits. The scores equal the scores
    of that PRM with the same weights. Only the tokenizer is loaded here. Calibrators that read rewards or logits can be
    fitted. Those that read hidden states or fine-tune the PRM cannot, since a server has no such interface.

    Notes
    -----
    The request is ``{"model", "input": token ids, "task": "token_classify", "use_activation": false}``. The server may
    pool every marker (``STEP``, vLLM's default for Qwen2.5-Math-PRM) or every token (``ALL``). The number of rows tells
    which of the two it was.

    vLLM computes every sequence as a whole, even tokens that it shares with another one. So ``last`` computes a
    trajectory of T steps T + 1 times.
    """

    whole_sequences = True
    path = "/pooling"
    not_found = "Check 'model', and 'base_url': vLLM's /pooling is at the root, without /v1."
    refused = (
        "Check that the server was started with --runner pooling, that its model classifies tokens, and that "
        "'max_tokens' fits its context."
    )

    tokenizer: str
    """A checkpoint with the server's tokenizer: a folder, a hub id with or without ``@REVISION``, or ``nano:NAME``.
    With it, prefixes that are too long are found before anything is sent."""
    format: str | dict[str, Any] = "qwen"
    """The PRM whose texts are sent and whose outputs are read: a registered name, or ``{"plugin": name, "arguments":
    {...}}``. It must derive from :class:`prmcal.TransformersPRM`."""
    markers: Literal["every", "last"] | None = None
    """For formats with both options, such as ``qwen``: ``every`` is one marker behind each step, and one request for
    each trajectory. ``last`` is one marker behind the prefix, and one request for each prefix. By default ``every``,
    which costs less. The two give different scores."""
    max_tokens: Count = 4096
    """Maximum length of a prefix in tokens, marker included. A longer prefix is flagged, never cut. It must not exceed
    the context of the server."""

    def check_arguments(self) -> None:
        """Raise an error if there is no such tokenizer, or if the format is no PRM that can be sent."""
        check_checkpoint(self.tokenizer)
        _ = self.form

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint of the tokenizer."""
        return (self.tokenizer,)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, its tokenizer and its format. The server is not part of it."""
        identity = super().identity()
        identity["arguments"] = {name: identity["arguments"].get(name) for name in ("model", "weights")}
        form = self.form.identity()
        identity["tokenizer"] = form.pop("checkpoint")
        left_out = _SET_HERE - {"markers"}
        form["arguments"] = {name: value for name, value in form["arguments"].items() if name not in left_out}
        return {**identity, "format": form}

    def probe(self, question: str) -> None:
        """Score a bare question; see :meth:`Served.probe`."""
        self.client.probe(self._request(self.tokenize_prefix(question, ())), self._rows)

    @cached_property
    def form(self) -> TransformersPRM:
        """The PRM whose format is used. Its model is never loaded."""
        from prmcal.registry.prms.transformers import TransformersPRM

        name, arguments = plugin_entry("format", self.format)
        form = prms.get(name)
        if not issubclass(form, TransformersPRM):
            raise ValueError(
                f"'format' must be a PRM that derives from prmcal.TransformersPRM, such as 'qwen'. Got '{name}'."
            )
        if twice := arguments.keys() & _SET_HERE:
            raise ValueError(f"'{min(twice)}' is no argument of 'format'. Set it beside 'format', or on the server.")
        markers = {"markers": self.markers or "every"}
        if "markers" not in inspect.signature(form).parameters:
            if self.markers is not None:
                raise ValueError(f"The format '{name}' has no 'markers'. Remove the argument.")
            markers = {}
        format_prm = prms.create(name, checkpoint=self.tokenizer, max_tokens=self.max_tokens, **markers, **arguments)
        assert isinstance(format_prm, TransformersPRM)
        return format_prm

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix in the format."""
        return self.form.tokenize_prefix(question, self.form.read_steps(steps))

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        return self._log_odds_of_whole(sequences, self._heads, self.form.log_odds)

    def _heads(self, sequences: Sequence[tuple[int, ...]]) -> list[Mapping[int, Floats32]]:
        return self.client.ask([self._request(ids) for ids in sequences], self._rows)

    def _request(self, ids: Sequence[int]) -> dict[str, Any]:
        return {"model": self.model, "input": ids, "task": "token_classify", "use_activation": False}

    def _rows(self, response: httpx2.Response, request: Mapping[str, Any]) -> Mapping[int, Floats32]:
        """Return the outputs of the head, of shape (outputs,), for each token by its place in the sequence.

        Raises a PluginFailedError for an unexpected number of rows or of outputs, or for numbers that are no logits.
        Other errors mean that the reply is not from a pooling server.
        """
        ids, server, outputs = request["input"], f"The server {self.base_url}", self.form.outputs()
        (data,) = response.json()["data"]
        rows = np.asarray(data["data"], dtype=np.float32)
        marked = [place for place, token in enumerate(ids) if token == ids[-1]]
        if rows.ndim != 2 or len(rows) not in (len(marked), len(ids)):
            step = f'{{"tok_pooling_type": "STEP", "step_tag_id": {ids[-1]}}}'
            raise PluginFailedError(
                f"{server} returned outputs of shape {rows.shape} for {len(ids)} tokens with {len(marked)} markers. "
                "There must be a row for each marker or for each token. Check 'tokenizer' and 'format', or start the "
                f"server with --pooler-config '{step}' (each marker) or '{{\"tok_pooling_type\": \"ALL\"}}' (each "
                "token)."
            )
        if outputs and rows.shape[1] != outputs:
            raise PluginFailedError(
                f"{server} returned {rows.shape[1]} numbers for each token or marker, but the format needs {outputs}. "
                "Check 'model' and 'format'."
            )
        if not np.isfinite(rows).all():
            raise PluginFailedError(
                f"{server} returned scores that are not finite numbers, such as NaN. Its model may overflow in "
                "float16: start the server with --dtype bfloat16 or float32."
            )
        sums, between = rows.sum(axis=1, dtype=np.float64), ((rows >= 0) & (rows <= 1)).all()
        # A server that does not know `use_activation` returns these. Their difference would be taken for log-odds.
        if rows.shape[1] > 1 and between and (np.abs(sums - 1) < _SUM_TOLERANCE).all():
            raise PluginFailedError(
                f"{server} returned probabilities, but the request asks for logits ('use_activation': false). Use a "
                "newer version of vLLM."
            )
        return dict(zip(marked if len(rows) == len(marked) else range(len(ids)), rows, strict=True))


@dataclass(eq=False)
class QwenVLLMPRM(QwenPRM):
    """The PRM `qwen` in a vLLM engine, for models that do not fit on one GPU.

    It reads the same texts as `qwen` and returns the same scores. The engine computes whole sequences. With ``markers:
    every`` each trajectory is a sequence. With ``markers: last`` each prefix is one, since the marker of a prefix is
    not part of the next prefix. On one GPU with ``markers: last``, `qwen` is faster, since it shares the tokens of all
    prefixes.

    Notes
    -----
    Calibrators that read hidden states or fine-tune the PRM load it with transformers, on the same GPUs. The engine
    stops before the model is loaded, and starts again for the next scores. So a GPU never holds both. `batch_tokens` is
    for these forward passes: the engine makes its own batches.
    """

    packages, whole_sequences = ("vllm",), True
    suits_machine = (*QwenPRM.suits_machine, "tensor_parallel", "gpu_memory")
    _batches = TokenPRM._batches  # The engine makes its own batches.

    device: SpreadableDevice = field(default="auto", init=False)
    tree_tokens: Count = field(default=512, init=False)
    tensor_parallel: Count = 1
    gpu_memory: ShareOrOne = 0.9
    """As in the LLM `vllm`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.device = SPREAD if self.tensor_parallel > 1 else "auto"

    def close(self) -> None:
        """Stop the engine. The next use starts another engine."""
        super().close()
        stop_engine(self)

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Stop the engine, and load the model with transformers."""
        stop_engine(self)
        return super().load_model()

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        return self._log_odds_of_whole(sequences, self._heads, self.log_odds)

    def _heads(self, sequences: Sequence[tuple[int, ...]]) -> list[Any]:
        engine = self._engine
        from vllm import PoolingParams

        longest, context = max(map(len, sequences)), int(engine.model_config.max_model_len)
        if longest > context:
            raise PluginFailedError(
                f"A prefix has {longest} tokens, but the context of {self.checkpoint} is {context} tokens. Set "
                f"'max_tokens' to {context} or less, so that longer prefixes are flagged."
            )
        outputs = engine.encode(
            [{"prompt_token_ids": list(ids)} for ids in sequences],
            pooling_task="token_classify",
            pooling_params=PoolingParams(use_activation=False),
            use_tqdm=False,
        )
        return [output.outputs.data.float().cpu().numpy() for output in outputs]

    @cached_property
    def _engine(self) -> Any:
        super().close()  # Releases the model on transformers.
        return start_pooling_engine(self.checkpoint, self.dtype, self.tensor_parallel, self.gpu_memory)
