"""The PRM `judge`: a language model that is asked whether a solution will be right, on this machine or on a server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import scipy  # its parts are imported when they are used
from pydantic import Field

from prmcal.arrays import Floats
from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Count, FinitePositive, Own, Positive, ShareOrOne, errors_of, own
from prmcal.registry.llms.prompts import StopStrings, messages_of
from prmcal.registry.models.checkpoints import chat_text
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.network import DEFAULT_PATIENCE
from prmcal.registry.prms.answers import answer_head, answer_token, language_model
from prmcal.registry.prms.judge_server import JudgeServer
from prmcal.registry.prms.templates import NO, WILL_IT_BE_RIGHT, YES, check_template, check_words, filled
from prmcal.registry.prms.token_tree import TokenizedTrajectory
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.registry.served import ADDRESS, Address
from prmcal.steps import THOUGHT_ENDS, in_thought

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from prmcal.registry.llms.sampling import Row

_Prefix = tuple[str, tuple[str, ...]]
"""A question, and the steps so far."""
_Scores = Callable[[Sequence[_Prefix]], PrefixScores]

_LEAST = 1e-6
"""The mean of the probabilities of Yes is kept this far from 0 and 1, so that it has log-odds."""

_Thoughts = Annotated[int, Field(ge=0, le=1000)]
_Words = Annotated[list[str], Field(min_length=1)]


_DECISIVE = (
    *("model", "weights", "template", "right", "wrong", "chat", "system_prompt", "top_logprobs", "fields"),
    *("max_tokens", "read_thoughts"),
)
"""The arguments that decide the scores of a judge on a server."""


@dataclass(eq=False)
class JudgePRM(TransformersPRM):
    r"""A causal language model that is asked whether a solution will be right, and answers Yes or No.

    The log-odds are those of Yes against No as the next token, where several spellings of an answer are joined by
    logsumexp. The model is on this machine, given by its `checkpoint`, or on a server, given by `base_url` and `model`.

    **A checkpoint** is any causal language model of transformers. All prefixes of a trajectory are scored in one pass.
    With ``thoughts: m``, the model first writes m verifications of every prefix, and the reward is the mean of the m
    probabilities of Yes.

    **A server** is any of OpenAI's interface with log-probabilities. It names only the most likely tokens. An answer
    that is not among them has at most the probability of the last one, and at most what all of them leave over. It is
    taken to have the lower of the two. The server counts the tokens. A prefix that it refuses for its length, or that
    has more than `max_tokens`, is flagged. Some servers, such as Ollama, cut long texts silently. Set `max_tokens`
    below the context of these.

    A subclass sets the class attributes `checkpoint`, `template`, `right`, `wrong`, `cue`, `chat` or `max_tokens`, or
    overrides `prefix_text`.

    Notes
    -----
    The random numbers of a verification follow from the text that asks for it, so the score of a prefix does not depend
    on what else is scored. Rounding depends on the shape of a batch, which can change a verification if two tokens are
    almost equally likely.

    If the chat template begins a thought (``<think>``), the thought is ended before the answer is read: at once without
    `thoughts`, and otherwise behind the verification.

    Calibrators that read hidden states or fine-tune the PRM need a checkpoint and ``thoughts: 0``: with thoughts, there
    is not one text that the model reads.
    """

    citation = "Zhang et al. (2025), ICLR, arXiv:2408.15240"
    suits_machine = (
        *TransformersPRM.suits_machine,
        "sample_tokens",
        *("base_url", "model", "weights", "key_variable", "concurrency", "timeout", "top_logprobs", "fields"),
    )
    template: Own[str] = own(WILL_IT_BE_RIGHT)
    """The question about a prefix, as Jinja text with `question`, `steps` and `solution` (the steps with blank lines
    between them). By default, the model is asked whether the solution will reach the right answer."""
    right: Own[_Words] = own(list(YES))
    wrong: Own[_Words] = own(list(NO))
    """The spellings of the two answers. Those that are no single token of the model are ignored. A server's tokens are
    compared without spaces around them. In YAML they need quotation marks."""
    chat: Own[bool] = own(True)
    """True if the question is a user's message of a chat. Otherwise the model reads it as is."""
    system_prompt: str | None = None
    """The system message of the chat. By default there is none."""
    thoughts: _Thoughts = 0
    """The number of verifications of each prefix, m. Only with a checkpoint."""
    thought_tokens: Count = 1024
    """The maximum number of tokens of a verification. A prefix must leave space for them and the `cue`."""
    cue: Own[str] = own("\n\nWill the solution reach the right answer (Yes/No)?")
    """The text behind a verification, at the end of which the answer is read."""
    temperature: FinitePositive = 0.7
    top_p: ShareOrOne = 1.0
    """The sampling of verifications."""
    sample_tokens: Count = 131_072
    """Upper bound of the tokens in a batch of verifications: rows times (prompt + longest verification)."""

    base_url: Annotated[Address | None, ADDRESS] = None
    """The address of a server, such as ``http://localhost:8000/v1``. The path of the interface is appended."""
    model: str = ""
    """The name of the model on the server."""
    weights: str = ""
    key_variable: str | None = None
    concurrency: Count = 64
    timeout: Positive = 600.0
    patience: Positive = DEFAULT_PATIENCE
    """As in the LLM `openai`, for a server."""
    top_logprobs: Annotated[int, Field(ge=1, le=1000)] = 20
    """The number of tokens that the server names. Many servers name at most 20, and some at most 5."""
    fields: dict[str, Any] | None = None
    """Further fields of a request to the server, such as ``chat_template_kwargs: {enable_thinking: false}`` for a
    reasoning model. With null, a field is left out."""

    def check_arguments(self) -> None:
        """Raise an error also if there is not one model, the template leaves out a part, or Yes is No."""
        if self.base_url is None:
            super().check_arguments()
        elif self.checkpoint or not self.model or self.thoughts:
            raise ValueError(
                "A judge on a server needs 'base_url' and 'model', and neither 'checkpoint' nor 'thoughts', which are "
                "for a model on this machine."
            )
        check_template(self.template)
        check_words(self.right, self.wrong)
        if self.thoughts and self.thought_tokens >= self.max_tokens:
            raise ValueError(
                f"The 'thought_tokens' parameter must be below 'max_tokens', {self.max_tokens}. "
                f"Got {self.thought_tokens} instead."
            )

    def problems(self, asked: Mapping[str, int]) -> list[PrmcalError]:
        """Return why the checkpoint cannot be loaded, or the server does not answer about a bare question."""
        if self._server is None:
            return super().problems(asked)
        text = self._question(next(iter(asked), "What is 6 times 7?"), ())
        return PRM.problems(self, asked) or errors_of(partial(self._server.probe, text))

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, and what it is asked. The server is not part of it."""
        if self._server is not None:
            return {**PRM.identity(self), "arguments": {name: getattr(self, name) for name in _DECISIVE}}
        texts = {"template": self.template, "cue": self.cue, "chat": self.chat}
        return {**super().identity(), **texts, "right": list(self.right), "wrong": list(self.wrong)}

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the question about a prefix, in the chat.

        Without `thoughts`, a thought that the chat template begins is ended.
        """
        text = self._question(question, steps)
        if self.chat:
            if self.tokenizer.chat_template is None:
                raise PluginFailedError(
                    f"{self.checkpoint} has no chat template, which the PRM '{self.plugin_name}' needs. Use an "
                    "instruction-tuned model, or set 'chat' to false."
                )
            text = chat_text(self.tokenizer, messages_of(text, self.system_prompt))
        return text if self.thoughts else _out_of_thought(text)

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a text. A chat contains the special tokens."""
        return list(self.tokenizer(text, add_special_tokens=not self.chat, verbose=False)["input_ids"])

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the log-odds of Yes against No. The outputs are the logits of all spellings, those of Yes first."""
        import torch

        count = len(self._answers[0])
        return torch.logsumexp(head[..., :count], -1) - torch.logsumexp(head[..., count:], -1)

    def outputs(self) -> int:
        """Return the number of spellings of both answers that the model has tokens for."""
        return sum(map(len, self._answers))

    def head_weights(self) -> Head:
        """Return the weights of the language-model head."""
        return LANGUAGE_HEAD

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, and the rows of the answers in the language-model head."""
        if self._server is not None:
            raise PluginFailedError(
                "it runs on a server, which has no hidden states. Give it a 'checkpoint' in place of the server, or "
                "leave out calibrators that read hidden states or fine-tune the PRM."
            )
        model = self._language_model if self.thoughts else language_model(self)
        return model.base_model, answer_head(model, [token for each in self._answers for token in each], self)

    def close(self) -> None:
        """Release the model's memory. The model is loaded again at the next use."""
        super().close()
        if "_language_model" in vars(self):
            from prmcal.registry.models.pretrained import unload

            unload(self, "_language_model")

    def prefix_ids(self, question: str, steps: Sequence[str]) -> tuple[int, ...] | None:
        """Return the token ids of a prefix, or None if it is longer than `max_tokens`."""
        if self.thoughts:
            raise PluginFailedError(
                "it writes thoughts, so there is not one text about a prefix with hidden states. Set 'thoughts' to 0, "
                "or leave out calibrators that read hidden states or fine-tune the PRM."
            )
        return super().prefix_ids(question, steps)

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`.

        Raises the errors of :meth:`prmcal.registry.prms.judge_server.JudgeServer.answers` for a server.
        """
        if self._server is None and not self.thoughts:
            return super().score_batch(requests)
        prefixes = [
            [
                [(request.question, prefix) for prefix in request.prefixes(steps)]
                for steps in request.trajectories
            ]
            for request in requests
        ]
        distinct = sorted({prefix for each in prefixes for trajectory in each for prefix in trajectory})
        scores = self._verified(distinct) if self._server is None else self._answered(distinct)
        return [[scores(trajectory) for trajectory in each] for each in prefixes]

    @property
    def form(self) -> TransformersPRM | None:
        """The PRM on transformers with these texts and outputs; None for a server."""
        return self if self._server is None else None

    @cached_property
    def _server(self) -> JudgeServer | None:
        if self.base_url is None:
            return None
        return JudgeServer(
            judge=self,
            base_url=self.base_url,
            model=self.model,
            key_variable=self.key_variable,
            concurrency=self.concurrency,
            timeout=self.timeout,
            patience=self.patience,
        )

    def _question(self, question: str, steps: Sequence[str]) -> str:
        return filled(self.template, question, steps)

    @cached_property
    def _answers(self) -> tuple[list[int], list[int]]:
        """The tokens of Yes and of No, each once."""
        found = []
        for name, spellings in (("right", self.right), ("wrong", self.wrong)):
            tokens = [answer_token(self.tokenizer, each) for each in spellings]
            known = list(dict.fromkeys(token for token in tokens if token is not None))
            if not known:
                raise PluginFailedError(
                    f"None of {', '.join(map(repr, spellings))} is a token of {self.checkpoint}, which the PRM "
                    f"'{self.plugin_name}' needs to read its answer. Set '{name}' to texts that the model has tokens "
                    "for."
                )
            found.append(known)
        return found[0], found[1]

    @cached_property
    def _language_model(self) -> Any:
        return language_model(self)

    def _answered(self, prefixes: Sequence[_Prefix]) -> _Scores:
        """Ask the server about prefixes, each text once. Return what gives the scores of a trajectory."""
        assert self._server is not None
        texts = {
            (question, steps): self._question(question, self.read_steps(steps))
            for question, steps in prefixes
        }
        distinct = list(dict.fromkeys(texts.values()))
        answers = dict(zip(distinct, self._server.answers(distinct), strict=True))

        def scores(trajectory: Sequence[_Prefix]) -> PrefixScores:
            found = [answers[texts[prefix]] for prefix in trajectory]
            return _scores([answer.log_odds for answer in found], sum(answer.tokens for answer in found))

        return scores

    def _verified(self, prefixes: Sequence[_Prefix]) -> _Scores:
        """Write verifications of prefixes, and read the answers. Return what gives the scores of a trajectory."""
        read = self._verifications(prefixes)
        chances = {
            prefix: scipy.special.expit(values.astype(np.float64))
            for prefix, values in zip(read, self._log_odds_of(list(read.values())), strict=True)
        }

        def scores(trajectory: Sequence[_Prefix]) -> PrefixScores:
            means = [np.mean(chances[prefix]) if prefix in chances else np.nan for prefix in trajectory]
            texts = [ids for prefix in trajectory if prefix in read for ids in read[prefix].sequences]
            return _scores(log_odds(np.array(means), _LEAST), TokenizedTrajectory.of(texts).size)

        return scores

    def _verifications(self, prefixes: Sequence[_Prefix]) -> dict[_Prefix, TokenizedTrajectory]:
        """Return the texts behind which the answers about prefixes are read. Those that are too long have none."""
        from prmcal.registry.llms.sampling import Row, batches_of_rows, sample_rows

        space = self.max_tokens - self.thought_tokens - len(self.tokenize(_out_of_thought(self.cue)))
        stops = StopStrings(self.tokenizer, [text for text in (self.cue.strip(), THOUGHT_ENDS) if text])
        rows: dict[_Prefix, list[Row]] = {}
        prompts = {
            (question, steps): self.prefix_text(question, self.read_steps(steps))
            for question, steps in prefixes
        }
        for prefix, prompt in prompts.items():
            ids = tuple(self.tokenize(prompt))
            if len(ids) <= space:
                numbers = _random_numbers(prompt, self.thoughts, self.thought_tokens)
                rows[prefix] = [Row(ids, self.thought_tokens, uniforms) for uniforms in numbers]
        model: PreTrainedModel = self._language_model
        self._check_window(model.base_model)
        for batch in batches_of_rows([row for each in rows.values() for row in each], self.sample_tokens):
            sample_rows(
                model,
                batch,
                temperature=self.temperature,
                top_p=self.top_p,
                pad_id=int(self.tokenizer.pad_token_id or 0),
                end_ids=self._end_ids,
                stops=stops,
            )
        return {
            prefix: TokenizedTrajectory.of(
                [
                    tuple(self.tokenize(_out_of_thought(prompts[prefix] + stops.cut(row.tokens)) + self.cue))
                    for row in of_prefix
                ]
            )
            for prefix, of_prefix in rows.items()
        }

    @property
    def _end_ids(self) -> frozenset[int]:
        configured = getattr(self._language_model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured, self.tokenizer.eos_token_id]
        return frozenset(int(token) for token in ids if token is not None)


def _out_of_thought(text: str) -> str:
    """The text, with the end of its thought if it ends inside one."""
    if not in_thought(text):
        return text
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}{THOUGHT_ENDS}\n\n"


def _random_numbers(prompt: str, count: int, length: int) -> list[Floats]:
    """Random numbers for some texts of at most `length` tokens. They follow from the prompt alone."""
    seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8])
    keys = [np.array([seed, number], dtype=np.uint64) for number in range(count)]
    return [np.random.Generator(np.random.Philox(key=key)).random(length) for key in keys]


def _scores(values: Sequence[float] | Floats, tokens: int) -> PrefixScores:
    """The scores of a trajectory by the log-odds of its prefixes, NaN for those that are too long."""
    logit = np.asarray(values, dtype=np.float32)
    return PrefixScores(logit, scipy.special.expit(logit.astype(np.float64)), np.isnan(logit), tokens)
