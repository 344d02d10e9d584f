"""The LLM and the calibrated PRM side by side: what they are, and the rewards of prefixes."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import TypeAdapter
from scipy.special import expit

from prmcal import __version__
from prmcal.arrays import Floats, Ints
from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import NoAnswerError, PrmcalError
from prmcal.harness.inference.calibration_questions import AnswerChances, CalibrationQuestions
from prmcal.harness.inference.results import PrefixRewards
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import checked_rewards, checked_scores, plugin_guard
from prmcal.harness.jobs.stepping import next_steps, stored
from prmcal.registry.contracts import data
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.results import require, require_length
from prmcal.registry.grading.extraction import MARKED, Ways, find_answer
from prmcal.registry.messages import reading
from prmcal.registry.network import patiently
from prmcal.steps import join_steps

T = TypeVar("T")
R = TypeVar("R")

Item = tuple[str, tuple[str, ...]]
"""A question and the steps of one trajectory."""


@dataclass(frozen=True)
class Card:
    """The models that answer questions, and the settings of a call that names none. A saved folder has it as JSON."""

    name: str
    """The cell or the folder that they come from."""
    llm: PluginReference | None
    """None if there is none: then there are rewards, but no answers."""
    prm: PluginReference
    calibrator: PluginReference
    strategy: PluginReference
    target: float | None
    level: float | None
    """The target probability C and the level beta of the strategy."""
    max_samples: int = 64
    sampling: data.Sampling = field(default_factory=data.Sampling)
    """The sampling of trajectories, as for the calibration."""
    levels: tuple[float, ...] = ()
    """Levels beta besides the calibrator's own. They are left out unless it predicts any level."""
    ways: Ways = MARKED
    """The places of the answers of the LLM, as in the argument `answers` of a data set."""
    known: Mapping[str, PluginReference] = field(default_factory=dict)
    """The strategies of the grid by their names, which may have arguments. Registered names work too."""


@dataclass(frozen=True, eq=False)
class Rewarded:
    """The prefixes x_{0:0}, ..., x_{0:T} of one trajectory. What is too long for the PRM is NaN."""

    logit: Floats
    """The PRM's log-odds. Of shape (T + 1,), float64."""
    quantiles: Floats
    """The calibrated rewards. Of shape (T + 1, levels), float64."""
    tokens: int = 0
    """Tokens that the PRM read."""


class ExportedQuantiles(Calibrator):
    """The calibrator of a checkpoint of ``prmcal export-prm``, whose own outputs are the quantiles at some levels.

    `prm` returns the checkpoint's PRM.
    """

    reads = "hidden"

    def __init__(self, prm: Callable[[], Any], levels: tuple[float, ...]) -> None:
        self._prm, self.levels = prm, levels

    def fit(self, features: data.HiddenStates, k: Ints, n: Ints) -> Self:
        """Return itself: it is fitted."""
        return self

    def predict(self, features: data.HiddenStates) -> Floats:
        """Return the outputs of the checkpoint, of shape (rows, levels)."""
        import torch

        head = self._prm().modules[1]
        with torch.inference_mode():
            states = torch.tensor(features.states[features.leaves], device=next(head.parameters()).device)
            outputs = head(states).double().cpu().numpy()
        return np.sort(expit(outputs), axis=1)


_FILE, _CALIBRATOR, _REWARDS = "calibrated_prm.json", "calibrator", "rewards.safetensors"


class Answerer:
    """The models that answer new questions, with all that the calibration questions say. Several threads may share it.

    The calibrator is a fitted one. `calibration` is None if the calibration questions are not known. `fitted` is the
    folder of the calibrator, without which nothing can be saved. `question_rewards`, of shape (questions, levels), are
    the calibrated rewards of the bare calibration questions; by default they are computed when they are needed.
    `levels` are those of the calibrated rewards, ascending.
    """

    def __init__(
        self,
        card: Card,
        models: Models,
        calibrator: Calibrator,
        calibration: CalibrationQuestions | None = None,
        fitted: Path | None = None,
        question_rewards: Floats | None = None,
    ) -> None:
        self.card, self.models, self.calibrator, self.calibration = card, models, calibrator, calibration
        self._fitted, self._question_rewards = fitted, question_rewards
        if card.llm is not None:
            models.llm(card.llm, beside=True)
        more = card.levels if calibrator.any_level and calibrator.reads != "prm" else ()
        self.levels = tuple(sorted({*calibrator.levels, *more}))

    @classmethod
    def fitted_in(
        cls,
        card: Card,
        folder: Path,
        calibration: CalibrationQuestions,
        question_rewards: Floats | None = None,
    ) -> Self:
        """Return the models with the calibrator that was fitted in a folder."""
        models = Models()
        with plugin_guard("calibrator", card.calibrator.name, "load"):
            calibrator = models.calibrator(card.calibrator, folder)
        models.prm(card.prm, beside=True)
        return cls(card, models, calibrator, calibration, folder, question_rewards)

    def save(self, folder: Path) -> None:
        """Write a folder for :meth:`saved_in`: everything but the models' weights.

        It has no text of the questions. The rewards of the bare calibration questions are computed if they are not
        known yet. Raise PrmcalError if the models do not come from a run.
        """
        from safetensors.numpy import save_file

        if self._fitted is None or self.calibration is None:
            raise PrmcalError("Only a calibrated PRM of a run can be saved.")
        rewards = self.question_rewards
        shutil.copytree(self._fitted, folder / _CALIBRATOR)
        self.calibration.save(folder)
        if rewards is not None:
            save_file({"question_rewards": rewards}, folder / _REWARDS)
        content = {"prmcal": __version__, **asdict(self.card)}
        (folder / _FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def saved_in(cls, folder: Path) -> Self | None:
        """Return what `save` wrote to a folder; None if there is nothing of it. Raise DataError if it is damaged."""
        from safetensors.numpy import load_file

        if not (folder / _FILE).exists():
            return None
        with reading(f"{folder} does not hold a calibrated PRM", "Save it again."):
            card = TypeAdapter(Card).validate_json((folder / _FILE).read_bytes())
            found = folder / _REWARDS
            rewards = load_file(found)["question_rewards"] if found.exists() else None
        return cls.fitted_in(card, folder / _CALIBRATOR, CalibrationQuestions.load(folder), rewards)

    @property
    def llm(self) -> LLM:
        """The LLM, which is loaded beside the PRM. Raise PrmcalError if there is none."""
        return self.models.llm(self._asked(), beside=True)

    @property
    def prm(self) -> PRM:
        """The PRM, which is loaded beside the LLM."""
        return self.models.prm(self.card.prm, beside=True)

    def generate(self, requests: Sequence[data.GenerationRequest]) -> list[list[data.Completion]]:
        """Sample whole completions. Raise PrmcalError if there is no LLM, or it fails."""
        with self.models.lock, plugin_guard("llm", self._asked().name, "generate"):
            found = self.llm.generate_batch(requests, self.card.sampling)
            return stored(self.llm, [(each.prefix, each.n) for each in requests], found)

    def next_steps(self, requests: Sequence[data.GenerationRequest]) -> list[list[data.Completion]]:
        """Continue prefixes by one step each, as a search does. It raises the same errors."""
        with self.models.lock, plugin_guard("llm", self._asked().name, "generate"):
            return next_steps(self.llm, requests, self.card.sampling)

    def _asked(self) -> PluginReference:
        if self.card.llm is None:
            raise PrmcalError("This calibrated PRM was loaded without an LLM, so it cannot answer questions.")
        return self.card.llm

    def rewards(self, items: Sequence[Item]) -> list[Rewarded]:
        """Return the uncalibrated and the calibrated rewards of all prefixes of some trajectories.

        Raises a PluginFailedError if the PRM or the calibrator fails, or returns something outside its contract, such
        as NaN.
        """
        if not items:
            return []
        with self.models.lock:
            read = self._read_states if self.calibrator.reads == "hidden" else self._read_scores
            logits, tokens, features = read(items)
            predicted: Iterator[Floats] = iter(())
            if len(features):
                with plugin_guard("calibrator", self.card.calibrator.name, "predict"):
                    predicted = iter(checked_rewards(self.calibrator, features, self.levels))
        found = []
        for logit, count in zip(logits, tokens, strict=True):
            quantiles = np.full((len(logit), len(self.levels)), np.nan)
            for t in np.flatnonzero(np.isfinite(logit)):
                quantiles[t] = next(predicted)
            found.append(Rewarded(logit, quantiles, count))
        return found

    def _read_scores(self, items: Sequence[Item]) -> tuple[list[Floats], list[int], Any]:
        """Return the logits and tokens of each item, and what the calibrator reads of the prefixes with a logit."""
        groups: dict[str, dict[int, tuple[str, ...]]] = {}
        for place, (question, steps) in enumerate(items):
            groups.setdefault(question, {})[place] = steps
        requests = [
            data.ScoringRequest(question, tuple(group.values())) for question, group in groups.items()
        ]
        with plugin_guard("prm", self.card.prm.name, "score"):
            scored = checked_scores(self.prm, requests)
        by_place = {
            place: score
            for group, scores in zip(groups.values(), scored, strict=True)
            for place, score in zip(group, scores, strict=True)
        }
        found = [by_place[place] for place in range(len(items))]
        logits = [np.asarray(each.logit, dtype=np.float64) for each in found]
        values = np.concatenate(logits)
        read = np.isfinite(values)
        features: Any = expit(values[read]) if self.calibrator.reads == "reward" else values[read]
        if self.calibrator.reads == "prm":
            prefixes = [
                data.Prefix(question, steps[:t]) for question, steps in items for t in range(len(steps) + 1)
            ]
            features = ScoredPrefixes(self.prm, tuple(compress(prefixes, read)), values[read])
        return logits, [int(each.tokens) for each in found], features

    def _read_states(self, items: Sequence[Item]) -> tuple[list[Floats], list[int], Any]:
        """Return the same from one pass for states and scores. Prefixes that are too long are the last ones."""
        requests = [data.ScoringRequest(question, (steps,)) for question, steps in items]
        with plugin_guard("prm", self.card.prm.name, "give hidden states"):
            found = patiently(self.prm, lambda: _hidden_states(self.prm, requests))
            require_length(found, len(requests), "forests of hidden states")
            for each in found:
                finite = np.isfinite(each.states).all() and np.isfinite(each.logit).all()
                require(bool(finite), "it returned NaN, or another value that is not finite.")
        logits = [
            np.append(each.logit, np.full(len(steps) + 1 - len(each), np.nan))
            for each, (_, steps) in zip(found, items, strict=True)
        ]
        return logits, [len(each.states) for each in found], data.HiddenStates.concatenate(found)

    def result(self, rewarded: Rewarded, steps: Sequence[str]) -> PrefixRewards:
        """Return rewards as plain data. In an exported checkpoint there are no uncalibrated ones."""
        middle = int(np.argmin(np.abs(np.array(self.levels) - 0.5)))
        read, first = np.isfinite(rewarded.logit), _first_terminal(steps)
        rows = [tuple(map(float, row)) for row in rewarded.quantiles]
        quantiles = [row if there else None for row, there in zip(rows, read, strict=True)]
        own = expit(rewarded.logit).tolist()
        if isinstance(self.calibrator, ExportedQuantiles):
            read = np.zeros_like(read)
        return PrefixRewards(
            levels=self.levels,
            uncalibrated=tuple(value if there else None for value, there in zip(own, read, strict=True)),
            quantiles=tuple(quantiles),
            point=tuple(None if row is None else row[middle] for row in quantiles),
            terminal=tuple(t >= first for t in range(len(rows))),
            tokens=rewarded.tokens,
        )

    @cached_property
    def chances(self) -> AnswerChances | None:
        """The law by which answers are judged; None if the calibration questions are not known."""
        return None if self.calibration is None else AnswerChances(self.calibration.pool)

    @cached_property
    def alarm(self) -> ShiftAlarm | None:
        """The alarm for all questions that are answered here; None if the calibration questions are not known."""
        return None if self.calibration is None else self.calibration.alarm()

    @cached_property
    def question_rewards(self) -> Floats | None:
        """The calibrated rewards of the bare calibration questions, of shape (questions, levels).

        None if their texts are not known.
        """
        if self._question_rewards is None and self.calibration is not None and self.calibration.texts:
            found = self.rewards([(text, ()) for text in self.calibration.texts])
            return np.stack([each.quantiles[0] for each in found])
        return self._question_rewards


def _hidden_states(prm: PRM, requests: Sequence[data.ScoringRequest]) -> list[data.HiddenStates]:
    """Return the hidden states, from fewer passes if the PRM can do so and its class has not changed what they are."""
    from prmcal.registry.prms.transformers import TransformersPRM

    if isinstance(prm, TransformersPRM) and type(prm).hidden_states is TransformersPRM.hidden_states:
        return prm.hidden_states_together(requests)
    return prm.hidden_states(requests)


def _first_terminal(steps: Sequence[str]) -> int:
    """Return the number of steps of the first prefix with a final answer, or T + 1 if there is none."""
    # An answer may begin in one step and end in a later one.
    ends = range(1, len(steps) + 1) if find_answer(join_steps(steps), MARKED) else ()
    found = (t for t in ends if find_answer(join_steps(steps[:t]), MARKED))
    return next(found, len(steps) + 1)


def each_or_error(call: Callable[[list[T]], list[R]], items: Sequence[T]) -> list[R | PrmcalError]:
    """Call something for many items at once. If this fails, find the items that it fails for.

    A server that does not answer fails for all items, without another try.
    """
    if not items:
        return []
    try:
        return list(call(list(items)))
    except PrmcalError as error:
        if len(items) == 1 or isinstance(error, NoAnswerError):
            return [error] * len(items)
    middle = len(items) // 2
    return each_or_error(call, items[:middle]) + each_or_error(call, items[middle:])
