"""`prmcal train-prm`: a value head on the states of a language model, judged on held-out questions."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from prmcal.arrays import Bools, Floats, Floats32
from prmcal.db.text.overview import quantity
from prmcal.errors import DataError
from prmcal.harness.audit.choices import best_of_all
from prmcal.harness.audit.estimates import INNER, OUTER, Number, Rows, area_within, mean_of_questions
from prmcal.harness.audit.scored import ScoredSolutions, is_run, rows_of, run_solutions
from prmcal.harness.storage.store import storage_errors
from prmcal.harness.storage.written import fresh_folder
from prmcal.registry.calibrators.heads import folds
from prmcal.registry.calibrators.logit import Platt
from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.grading.extraction import MARKED, find_answer
from prmcal.registry.models.checkpoints import checkpoint_identity, read_config, resolve_checkpoint
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.prms.classifiers import TokenClassifierPRM, classifier_on_trunk
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import solutions_of
from prmcal.registry.reading.values import share_of
from prmcal.steps import split_steps

LEAST_AUC = 0.7
"""The smallest AUC within questions of a head that is worth a checkpoint."""
PENALTIES = tuple(10.0**power for power in range(-4, 3))
"""In units of the variance of a standardised state."""

_SPLIT = "calibration"
_FEWEST = 10  # questions
_CONTEXT = 4096
_MARKS = ("rates", "first_error", "right", "label", "reference")


@dataclass(frozen=True)
class Labelled:
    """Solutions, each with the text of its question in `asked`, its `steps` and its labels."""

    source: str
    solutions: list[Solution]
    reading: list[str]
    """Sentences that say how they were read."""


def labelled(source: Path, fields: Fields, only: Mapping[str, Sequence[str]]) -> Labelled:
    """Read a file of solutions as an audit does, or a run. Of a run, the calibration questions are read by default.

    Raises a DataError if the data cannot be read, or has no steps, no labels or too few questions.
    """
    if is_run(source):
        raw_solutions, words = run_solutions(source, {"split": [_SPLIT], **only})
    else:
        raw_solutions, (words,) = solutions_of(read_files([source], only), str(source), fields, "training")
        words = f"File {source.name}. {words}"
    solutions = [_with_labels(solution) for solution in raw_solutions]
    questions = len({solution["question"] for solution in solutions})
    if not any(solution.get(name) not in (None, []) for solution in solutions for name in _MARKS):
        raise DataError(f"{source} has no labels: success rates, marks of steps, or right and wrong solutions.")
    if not any(step for solution in solutions for step in solution["steps"]):
        raise DataError(f"{source} has no texts of steps, but a value head learns from texts.")
    if questions < _FEWEST:
        raise DataError(f"{source} has {questions} questions. A fit needs at least {_FEWEST}, better hundreds.")
    return Labelled(str(source), solutions, [words])


def _with_labels(solution: Solution) -> Solution:
    """Add the texts, and derive the outcome from rates and rates from the outcome.

    The outcome counts as one follow-up of each prefix. The rate of a solution with an answer is its outcome.
    """
    steps = solution["steps"] if "steps" in solution else split_steps(solution.get("text") or "")
    rates, outcome = solution.get("rates") or [], share_of(solution.get("label"))
    if outcome is None and rates and rates[-1] in (0, 1) and find_answer("\n\n".join(steps), MARKED):
        outcome = float(rates[-1])
    rates = [outcome if rate is None else rate for rate in rates]
    question_text = str(solution.get("asked") or solution["question"])
    return {**solution, "asked": question_text, "steps": steps, "rates": rates, "label": outcome}


@dataclass(eq=False)
class HeadlessPRM(TokenClassifierPRM):
    """A language model in the format of `token-classifier`. Its head is random until a fitted one is written."""

    plugin_name = "token-classifier"

    @classmethod
    def of(cls, checkpoint: str) -> "HeadlessPRM":
        """Return the PRM of a language model. `max_tokens` is its context, or 4096 if that is less."""
        config = read_config(resolve_checkpoint(checkpoint))
        limits = (_CONTEXT, config.get("max_position_embeddings"), config.get("sliding_window"))
        return cls(checkpoint, max_tokens=min(limit for limit in limits if limit))

    def head_weights(self) -> Head:
        """Return the head of a causal language model: the checkpoint has no other."""
        return LANGUAGE_HEAD

    def load_classifier(self) -> Any:
        """Load the trunk of the language model into a token classifier with the outputs bad and good."""
        from transformers import AutoModelForTokenClassification

        self._classifier = classifier_on_trunk(self, AutoModelForTokenClassification, 2)
        return self._classifier

    def states(self, request: ScoringRequest) -> list[Floats32]:
        """Return the states at the ends of the prefixes of each trajectory, of shape (T + 1, width).

        The state of a prefix that is longer than `max_tokens` is NaN.
        """
        (forest,) = self.hidden_states([request])
        ends, states_of = iter(forest.leaves), []
        for steps in request.trajectories:
            states = np.full((len(steps) + 1, forest.states.shape[1]), np.nan, dtype=np.float32)
            for place, prefix in enumerate(request.prefixes(steps)):
                if self.prefix_ids(request.question, prefix) is not None:
                    states[place] = forest.states[next(ends)]
            states_of.append(states)
        return states_of

    def write(self, weight: Floats, bias: float, folder: Path) -> str:
        """Write a checkpoint whose log-odds are ``states @ weight + bias``, for a weight of shape (width,).

        The trunk has the type in which the language model was saved. Returns its architecture for vLLM.
        """
        import torch

        trunk, head = self.modules
        assert isinstance(head, torch.nn.Linear)
        head.weight.data[:] = torch.from_numpy(np.stack([0 * weight, weight]))
        head.bias.data[:] = torch.tensor([0.0, bias])
        dtype = self._config.get("dtype") or self._config.get("torch_dtype")
        trunk.to(getattr(torch, str(dtype), torch.float32))
        self._classifier.save_pretrained(folder)
        # safetensors lets only the owner read its files. The other files have the mode that the user's umask gives.
        for file in folder.glob("*.safetensors"):
            file.chmod((folder / "config.json").stat().st_mode)
        self.tokenizer.save_pretrained(folder)
        self.close()
        return type(self._classifier).__name__.replace("Token", "Sequence")


@dataclass(frozen=True, eq=False)
class ValueHead:
    """A fitted head, and its results on questions that neither its fit nor the choice of its penalty has seen."""

    weight: Floats
    """Of shape (width,)."""
    bias: float
    penalty: float
    reading: tuple[str, ...]
    digest: str
    """A hash of the questions, steps and labels."""
    figures: dict[str, Number]
    """AUCs within questions and accuracies on held-out questions, by their names."""
    refusal: str
    """The reason why the head is not worth a checkpoint; empty if it is."""


def fit_value_head(data: Labelled, prm: HeadlessPRM) -> ValueHead:
    """Fit a value head to all questions, and measure heads that were fitted to four fifths of them on the others.

    The penalty is chosen by folds within the questions of each fit.
    """
    states_of = _states(data.solutions, prm)
    states, bounds = np.concatenate(states_of), np.cumsum(list(map(len, states_of)))[:-1]
    # Each score is the number of its state, so that the rows of the prefixes say where their states are.
    state_numbers = np.where(np.isnan(states[:, 0]), np.nan, np.arange(len(states)))
    numbered = _scored(data, np.split(state_numbers, bounds))
    place, rows = numbered.prefixes["score"].to_numpy(np.intp), Rows(numbered.prefixes)
    owner = np.repeat(numbered.solutions["question"].to_numpy(), list(map(len, states_of)))
    scores = np.empty(len(states))
    for held_out in folds(owner, OUTER, 0):
        weight, bias, _ = _fit_head(states[place], rows, ~held_out[place])
        scores[held_out] = states[held_out] @ weight + bias
    weight, bias, penalty = _fit_head(states[place], rows, np.ones(len(place), dtype=np.bool_))
    scored = _scored(data, np.split(scores, bounds))
    decisive = [[solution["asked"], solution["steps"], *map(solution.get, _MARKS)] for solution in data.solutions]
    digest = hashlib.sha256(json.dumps(decisive, default=str).encode()).hexdigest()[:16]
    return ValueHead(weight, bias, penalty, scored.reading, digest, *_worth(scored))


def _states(solutions: Sequence[Solution], prm: HeadlessPRM) -> list[Floats32]:
    """Return the states of all prefixes of each solution. The solutions of a question share their first tokens."""
    of_question: dict[str, list[int]] = {}
    for number, solution in enumerate(solutions):
        of_question.setdefault(solution["question"], []).append(number)
    states_of: dict[int, Floats32] = {}
    for numbers in of_question.values():
        trajectories = tuple(tuple(solutions[number]["steps"]) for number in numbers)
        states = prm.states(ScoringRequest(solutions[numbers[0]]["asked"], trajectories))
        states_of.update(zip(numbers, states, strict=True))
    return [states_of[number] for number in range(len(solutions))]


def _scored(data: Labelled, scores: Sequence[Floats]) -> ScoredSolutions:
    """Return the rows of the solutions, with `scores` as the scores of their prefixes. NaN is no score."""
    solutions = [
        {**solution, "score": [None if math.isnan(score) else float(score) for score in prefix_scores]}
        for solution, prefix_scores in zip(data.solutions, scores, strict=True)
    ]
    return rows_of(solutions, data.source, Fields(scale="logit"), data.reading)


def _fit_head(states: Floats32, rows: Rows, subset: Bools) -> tuple[Floats, float, float]:
    """Return the weight and the bias of a head that is fitted to some rows, and its penalty.

    The penalty has the lowest squared error in folds over the questions. Predictions in the folds also decide how the
    head's output becomes log-odds.
    """
    states, label, question = states[subset], rows.label[subset], rows.question[subset]
    predicted = np.empty((len(PENALTIES), len(label)))
    for held_out in folds(question, INNER, 1):
        for number, (weight, bias) in enumerate(_ridges(states[~held_out], label[~held_out])):
            predicted[number, held_out] = states[held_out] @ weight + bias
    best = int(((predicted - label) ** 2).mean(axis=1).argmin())
    platt = Platt(logit=True).fit(predicted[best], rows.k[subset], rows.n[subset])
    weight, bias = _ridges(states, label)[best]
    return platt.slope_ * weight, platt.slope_ * bias + platt.offset_, PENALTIES[best]


def _ridges(states: Floats32, label: Floats) -> list[tuple[Floats, float]]:
    """Return the weight and the bias of a ridge regression on standardised states for each penalty.

    scikit-learn's Ridge would decompose the states again for each penalty.
    """
    centre, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    standard = ((states - centre) / spread).astype(np.float32)
    sizes, axes = np.linalg.eigh((standard.T @ standard).astype(np.float64) / len(label))
    slopes = axes.T @ (standard.T @ (label - label.mean())) / len(label)
    weights = [axes @ (slopes / (sizes.clip(min=0) + penalty)) / spread for penalty in PENALTIES]
    return [(weight, float(label.mean() - centre @ weight)) for weight in weights]


def _worth(scored: ScoredSolutions) -> tuple[dict[str, Number], str]:
    """Return the figures of scores on held-out questions, and the reason for a refusal, if they are bad."""
    steps = scored.prefixes[scored.prefixes["step"] > 0].drop_duplicates(["question", "step", "score", "label"])
    areas = {
        "AUC within questions, whole solutions": None if scored.target == "step" else area_within(scored.solutions),
        "AUC within questions, prefixes": area_within(steps),
    }
    figures = {name: area for name, area in areas.items() if area is not None}
    if not figures:
        return {}, "No question has both right and wrong solutions, so no order can be learned or measured."
    auc = next(iter(figures.values()))
    accuracies = best_of_all(scored)
    if accuracies is not None:
        samples, single_accuracy, best_accuracy = accuracies
        best = f"best-of-{samples}"
        figures |= {"one sample": mean_of_questions(single_accuracy), best: mean_of_questions(best_accuracy)}
    if auc.value < LEAST_AUC:
        return figures, f"The AUC within questions is {quantity(auc)}, and a PRM needs {LEAST_AUC:g}."
    if accuracies is not None and figures[best].value < figures["one sample"].value:
        worse = f"The accuracy of {best}, {quantity(figures[best])}, is below that of one sample"
        return figures, f"{worse}, {quantity(figures['one sample'])}."
    return figures, ""


def grid_entry(prm: HeadlessPRM, folder: Path) -> str:
    """Return the entry of a checkpoint with a value head in a grid, as YAML."""
    arguments = json.dumps({"checkpoint": str(folder), "max_tokens": prm.max_tokens}, ensure_ascii=False)
    return f"prms:\n  - name: {json.dumps(folder.name)}\n    plugin: token-classifier\n    arguments: {arguments}\n"


def write_checkpoint(head: ValueHead, prm: HeadlessPRM, folder: Path) -> None:
    """Write the model with the head, its tokenizer and its card into a folder. The PRM is closed afterwards."""
    rows = [f"| {name} | {quantity(figure)} | {figure.questions:,} |" for name, figure in head.figures.items()]
    with storage_errors(folder), fresh_folder(folder) as fresh:
        card = Template(Path(__file__).with_name("prm_card.md").read_text(encoding="utf-8")).substitute(
            name=folder.name,
            model=prm.checkpoint,
            penalty=f"{head.penalty:g}",
            figures="\n".join(rows),
            reading="\n".join(head.reading),
            digest=head.digest,
            identity=checkpoint_identity(prm.checkpoint),
            entry=grid_entry(prm, folder),
            served=prm.write(head.weight, head.bias, fresh),
        )
        (fresh / "README.md").write_text(card, encoding="utf-8")
        fresh.rename(folder)
