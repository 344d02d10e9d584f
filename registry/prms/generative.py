"""The PRM `generative`: a language model that is asked whether a step is right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import scipy  # its parts are imported when they are used
from pydantic import Field

from prmcal.arrays import Floats
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.plugin import Count, FinitePositive, Own, ShareOrOne, own
from prmcal.registry.llms.prompts import StopStrings, compiled, messages_of
from prmcal.registry.models.checkpoints import chat_text
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.prms.answers import answer_head, answer_token, language_model
from prmcal.registry.prms.token_tree import TokenizedTrajectory
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.steps import STEP_SEPARATOR, THOUGHT_ENDS, in_thought

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from prmcal.registry.llms.sampling import Row

WILL_IT_BE_RIGHT = """\
Here is a problem, and the beginning of a solution to it.

Problem:
{{ question }}

Solution so far:
{{ solution or '(nothing yet)' }}

Will this solution reach the right answer when it is finished? Answer Yes or No."""
"""The default. The answer Yes is then the event whose probability a PRM of this project estimates."""

YES = ("Yes", " Yes", "yes", " yes")
NO = ("No", " No", "no", " no")
"""The spellings of the two answers."""

_PROBE = ("What is 6 times 7?", ("It is 6 + 36.", "So 42."))


def filled(template: str, question: str, steps: Sequence[str], between: str = STEP_SEPARATOR) -> str:
    """Fill in a template, Jinja text.

    It gets `question`, `steps` (a list of texts) and `solution` (the steps with `between` between them, empty for the
    bare question). Raises an InvalidArgumentsError if it cannot be filled in.
    """
    try:
        return compiled(template, strict=True).render(
            question=question, steps=list(steps), solution=between.join(steps)
        )
    except Exception as error:  # A template can fail in any way.
        raise InvalidArgumentsError(
            f"The 'template' of the PRM cannot be filled in: {type(error).__name__}: {error}."
        ) from error


def check_template(template: str) -> None:
    """Raise InvalidArgumentsError if a template cannot be filled in, or leaves out the question or a step."""
    question, steps = _PROBE
    text = filled(template, question, steps)
    for name, part in (("the question", question), *(("a step", step) for step in steps)):
        if part not in text:
            raise InvalidArgumentsError(
                f"The 'template' of the PRM leaves out {name}. Write {{{{ question }}}}, and {{{{ solution }}}} or "
                "a loop over 'steps'."
            )
    filled(template, question, ())


def check_words(right: Sequence[str], wrong: Sequence[str]) -> None:
    """Raise ValueError if the spellings of two answers have one in common, apart from spaces, or one is empty."""
    both = {each.strip() for each in right} & {each.strip() for each in wrong}
    if both or not all(each.strip() for each in (*right, *wrong)):
        raise ValueError(
            "The 'right' and 'wrong' parameters must be lists of different texts that are not empty. "
            f"Got {list(right)} and {list(wrong)} instead."
        )


_Prefix = tuple[str, tuple[str, ...]]
"""A question, and the steps so far."""

_LEAST = 1e-6
"""The mean of the probabilities of Yes is kept this far from 0 and 1, so that it has log-odds."""

_Thoughts = Annotated[int, Field(ge=0, le=1000)]
_Words = Annotated[list[str], Field(min_length=1)]


@dataclass(eq=False)
class GenerativePRM(TransformersPRM):
    r"""A causal language model that is asked whether a solution will be right, and answers Yes or No.

    The log-odds are those of Yes against No as the next token: the difference of the logits, where the logits of
    several spellings of an answer are joined by logsumexp. With ``thoughts: m``, the model first writes m verifications
    of every prefix, and the reward is the mean of the m probabilities of Yes. Without them, all prefixes of a
    trajectory are scored in one pass.

    A subclass sets the class attributes `checkpoint`, `template`, `right`, `wrong`, `cue`, `chat` or `max_tokens`, or
    overrides `prefix_text`.

    `checkpoint` is any causal language model of transformers: ``nano:NAME``, a folder, or a hub id with or without
    ``@REVISION``. `max_tokens`, by default 4096, is the maximum length in tokens of what the model reads and writes
    about a prefix. A longer prefix is flagged, never cut. With thoughts, a prefix must leave space for `thought_tokens`
    and the `cue`.

    Notes
    -----
    The random numbers of a verification follow from the text that asks for it, so the score of a prefix does not depend
    on what else is scored. Rounding depends on the shape of a batch, which can change a verification if two tokens are
    almost equally likely.

    If the chat template begins a thought (``<think>``), the thought is ended before the answer is read: at once without
    `thoughts`, and otherwise behind the verification.

    With thoughts, there is not one text that the model reads. So calibrators that read hidden states or fine-tune the
    PRM need ``thoughts: 0``.
    """

    citation = "Zhang et al. (2025), ICLR, arXiv:2408.15240"
    suits_machine = (*TransformersPRM.suits_machine, "sample_tokens")
    template: Own[str] = own(WILL_IT_BE_RIGHT)
    """The question about a prefix, as Jinja text with `question`, `steps` and `solution` (the steps with blank lines
    between them). By default, the model is asked whether the solution will reach the right answer."""
    right: Own[_Words] = own(list(YES))
    wrong: Own[_Words] = own(list(NO))
    """The spellings of the two answers. Those that are no single token of the model are ignored. In YAML they need
    quotation marks."""
    chat: Own[bool] = own(True)
    """True if the question is a user's message in the model's own chat template. Otherwise the model reads it as is."""
    system_prompt: str | None = None
    """The system message of the chat. By default there is none."""
    thoughts: _Thoughts = 0
    """The number of verifications of each prefix, m."""
    thought_tokens: Count = 1024
    """The maximum number of tokens of a verification."""
    cue: Own[str] = own("\n\nWill the solution reach the right answer (Yes/No)?")
    """The text behind a verification, at the end of which the answer is read."""
    temperature: FinitePositive = 0.7
    top_p: ShareOrOne = 1.0
    """The sampling of verifications."""
    sample_tokens: Count = 131_072
    """Upper bound of the tokens in a batch of verifications: rows times (prompt + longest verification)."""

    def check_arguments(self) -> None:
        """Raise an error also if the template leaves out a part of the prefix, or an answer is Yes and No."""
        super().check_arguments()
        check_template(self.template)
        check_words(self.right, self.wrong)
        if self.thoughts and self.thought_tokens >= self.max_tokens:
            raise ValueError(
                f"The 'thought_tokens' parameter must be below 'max_tokens', {self.max_tokens}. "
                f"Got {self.thought_tokens} instead."
            )

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the texts that the model reads and the spellings of the answers."""
        known = super().identity()
        texts = {"template": self.template, "cue": self.cue, "chat": self.chat}
        return {**known, **texts, "right": list(self.right), "wrong": list(self.wrong)}

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the question about a prefix, in the chat.

        Without `thoughts`, a thought that the chat template begins is ended.
        """
        text = filled(self.template, question, steps)
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
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`."""
        if not self.thoughts:
            return super().score_batch(requests)
        prefixes = [
            [[(each.question, prefix) for prefix in each.prefixes(steps)] for steps in each.trajectories]
            for each in requests
        ]
        read = self._verified({prefix for each in prefixes for trajectory in each for prefix in trajectory})
        probabilities = self._probabilities(read)
        return [[_mean_scores(trajectory, read, probabilities) for trajectory in each] for each in prefixes]

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

    def _verified(self, prefixes: set[_Prefix]) -> dict[_Prefix, TokenizedTrajectory | None]:
        """Write verifications of all prefixes. Return the texts behind which the answer is read; None if too long."""
        from prmcal.registry.llms.sampling import Row, batches_of_rows, sample_rows

        space = self.max_tokens - self.thought_tokens - len(self.tokenize(_out_of_thought(self.cue)))
        stops = StopStrings(self.tokenizer, [each for each in (self.cue.strip(), THOUGHT_ENDS) if each])
        prompts = {
            (question, steps): self.prefix_text(question, self.read_steps(steps))
            for question, steps in sorted(prefixes)
        }
        rows: dict[_Prefix, list[Row]] = {}
        for prefix, prompt in prompts.items():
            ids = tuple(self.tokenize(prompt))
            count = self.thoughts if len(ids) <= space else 0
            numbers = _random_numbers(prompt, count, self.thought_tokens)
            rows[prefix] = [Row(ids, self.thought_tokens, each) for each in numbers]
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
            if of_prefix
            else None
            for prefix, of_prefix in rows.items()
        }

    def _probabilities(self, read: dict[_Prefix, TokenizedTrajectory | None]) -> dict[_Prefix, Floats]:
        """The probability of Yes behind each verification, of shape (thoughts,), by prefix."""
        prefixes = [(prefix, texts) for prefix, texts in read.items() if texts is not None]
        found: dict[_Prefix, Floats] = {}
        for batch in self._batches([texts for _, texts in prefixes]):
            values = self._forward(
                [[ids for i in tree for ids in prefixes[i][1].sequences] for tree in batch]
            )
            own = [prefixes[i][0] for tree in batch for i in tree]
            for prefix, logits in zip(own, values.reshape(len(own), self.thoughts), strict=True):
                found[prefix] = scipy.special.expit(logits.astype(np.float64))
        return found

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


def _mean_scores(
    prefixes: Sequence[_Prefix],
    read: dict[_Prefix, TokenizedTrajectory | None],
    probabilities: dict[_Prefix, Floats],
) -> PrefixScores:
    """The scores of a trajectory, given by its prefixes."""
    texts = [read[prefix] for prefix in prefixes]
    over_long = np.array([each is None for each in texts])
    means = np.array(
        [
            np.nan if each is None else np.mean(probabilities[prefix])
            for prefix, each in zip(prefixes, texts, strict=True)
        ]
    )
    odds = log_odds(means, _LEAST).astype(np.float32)
    everything = TokenizedTrajectory.of([ids for each in texts if each is not None for ids in each.sequences])
    return PrefixScores(
        logit=odds,
        reward=scipy.special.expit(odds.astype(np.float64)),
        over_long=over_long,
        tokens=everything.size,
    )
