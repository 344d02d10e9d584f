"""Calibrators: the features that they read, their fits to success rates, and the rewards that they predict.

Hidden states of a PRM are stored by a job of their own, or computed when a calibrator reads them. Both are rounded to
half precision and come from the same requests, so a calibrator reads the same numbers. The keys of the fits, of their
rewards and of everything that reads these still differ: stored states are an input with a key. In place of computed
states, the trajectories and the scores are inputs.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Floats, Floats32, Ints
from prmcal.errors import DataError
from prmcal.harness.jobs.context import PREFIX, Context, Models, Output, successes_of
from prmcal.harness.jobs.job import TEXTS, Shard
from prmcal.harness.jobs.parameters import (
    KEPT_STATES,
    CalibratedParameters,
    CalibratorParameters,
    FitParameters,
    HiddenParameters,
    PluginReference,
)
from prmcal.harness.jobs.plugin_calls import checked_rewards, plugin_guard
from prmcal.harness.jobs.score import scoring_requests
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.calibrator import Calibrator, FitSupport, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, ScoringRequest
from prmcal.registry.contracts.results import require, require_length
from prmcal.registry.network import patiently
from prmcal.steps import split_steps


def scored_prefixes(context: Context, shard: Shard[CalibratorParameters]) -> pd.DataFrame:
    """Return the rewards of the measured trajectories, sorted by prefix, without prefixes that are too long."""
    rewards = context.table(shard, "score", "rewards")
    is_measured = rewards["trajectory"] < shard.parameters.trajectories.stop
    return rewards[is_measured & ~rewards["over_long"]].sort_values(PREFIX, ignore_index=True)


def require_prefixes(rows: pd.DataFrame, use: str) -> None:
    """Raise a DataError if there are no prefixes. `use` is "calibration" or "measurement"."""
    if rows.empty:
        raise DataError(f"There are no prefixes for the {use}: every one was too long for the PRM.")


def without_terminal(rows: pd.DataFrame, use: str) -> pd.DataFrame:
    """Return the prefixes that do not contain their final answer yet, as in the authors' fits and measurements.

    Raises a DataError if no prefix is left. The message names the option of the grid that keeps terminal prefixes:
    `use` is the part of the grid file with this option, "calibration" or "measurement".
    """
    unfinished = rows[~rows["terminal"].to_numpy(bool)].reset_index(drop=True)
    if unfinished.empty:
        raise DataError(
            f"All prefixes of the {use} are terminal: they contain their final answer. "
            f"Set '{use}.terminal' to true in the grid file."
        )
    return unfinished


def features_of(
    context: Context, shard: Shard[CalibratorParameters], calibrator: Calibrator, rows: pd.DataFrame
) -> Any:
    """Return the features that `calibrator` reads of some scored prefixes, in the order of `rows`."""
    if calibrator.reads == "hidden":
        ((_, states),) = hidden_states(context, shard, rows)
        return states
    if calibrator.reads == "prm":
        return _with_texts(context, shard, rows)
    return rows[calibrator.reads].to_numpy(np.float64)


def _with_texts(context: Context, shard: Shard[CalibratorParameters], rows: pd.DataFrame) -> ScoredPrefixes:
    questions = {question.id: question.text for question in context.questions(shard.parameters.data)}
    trajectories = context.table(shard, "rollout", "texts").set_index(["question_id", "trajectory"])
    steps = {key: split_steps(text) for key, text in trajectories["text"].items()}
    prefixes = tuple(
        Prefix(questions[row.question_id], steps[row.question_id, row.trajectory][: row.step])
        for row in rows[PREFIX].itertuples(index=False)
    )
    prm = context.prm(shard.parameters.prm)
    return ScoredPrefixes(prm, prefixes, rows["logit"].to_numpy(np.float64))


def compute_fit(shard: Shard[FitParameters], context: Context) -> Output:
    """Return the fitted calibrator, which saves itself as safetensors and JSON."""
    calibrator = context.calibrator(shard.parameters.calibrator)
    name = shard.parameters.calibrator.name
    rows = calibration_rows(shard, context)
    with plugin_guard("calibrator", name, "fit"):
        calibrator.support = FitSupport(context.store.checkpoints(shard.ref), context.report)
        fit_to(calibrator, shard, context, rows)

    def save(folder: Path) -> None:
        with plugin_guard("calibrator", name, "save"):
            calibrator.save(folder)

    return Output(save=save)


def calibration_rows(shard: Shard[FitParameters], context: Context) -> pd.DataFrame:
    """Return the prefixes that a calibrator is fitted to, with their scores and success counts."""
    rows = scored_prefixes(context, shard).merge(successes_of(context, shard), on=PREFIX, validate="one_to_one")
    require_prefixes(rows, "calibration")
    return rows if shard.parameters.terminal else without_terminal(rows, "calibration")


def fit_to(calibrator: Calibrator, shard: Shard[FitParameters], context: Context, rows: pd.DataFrame) -> None:
    """Fit a calibrator to some rows of :func:`calibration_rows`."""
    questions = np.unique(rows["question_id"].to_numpy(str), return_inverse=True)[1]
    k, n = (rows[name].to_numpy(np.int64) for name in ("successes", "follow_ups"))
    calibrator.fit_features(features_of(context, shard, calibrator, rows), k, n, questions)


def compute_calibrated(shard: Shard[CalibratedParameters], context: Context) -> Output:
    """Return one row for each prefix and level. Prefixes that are too long for the PRM have no row.

    The levels are the calibrator's and further ones of the grid.

    The other trajectories are not needed: they have no success rates to compare with, and IAS reads the reward of the
    bare question, which all trajectories of a question share.
    """
    reference = shard.parameters.calibrator
    with plugin_guard("calibrator", reference.name, "load"):
        calibrator = context.fitted_calibrator(shard, reference)
    rows = scored_prefixes(context, shard)
    with plugin_guard("calibrator", reference.name, "predict"):
        levels = sorted({*calibrator.levels, *shard.parameters.levels})
        predicted = np.empty((len(rows), len(levels)))
        groups: Iterable[tuple[Any, Any]] = (
            hidden_states(context, shard, rows, by_question=True)
            if calibrator.reads == "hidden"
            else [(slice(None), features_of(context, shard, calibrator, rows))]
        )
        for positions, features in groups:
            predicted[positions] = checked_rewards(calibrator, features, levels)
    frames = [rows[PREFIX].assign(level=level, reward=predicted[:, column]) for column, level in enumerate(levels)]
    return Output({"calibrated_rewards": pd.concat(frames, ignore_index=True)})


def compute_hidden(shard: Shard[HiddenParameters], context: Context) -> Output:
    """Return the token trees with a state at every node, and the node at which each prefix ends.

    States are stored in half precision, because they take most of a run's disk space.
    """
    (rollout,), (score,) = shard.inputs["rollout"], shard.inputs["score"]
    requests, prefixes = _requests_of(context, shard, rollout, score)
    forests = _compute_states(context, shard.parameters.prm, requests, len(prefixes))
    forest = HiddenStates.concatenate(forests)
    table = prefixes[PREFIX].assign(leaf=forest.leaves, logit=prefixes["logit"].to_numpy(np.float32))
    return Output(
        {"hidden_prefixes": table.astype({"leaf": "int64"})},
        save=lambda folder: _save(forest, folder),
        scored_tokens=len(forest.states),
    )


def _requests_of(
    context: Context, shard: Shard[Any], rollout: ArtifactRef, score: ArtifactRef
) -> tuple[list[ScoringRequest], pd.DataFrame]:
    """Return the scoring requests for the measured trajectories of a rollout, and the scores of their prefixes.

    The scores have the order of these requests.
    """
    stop = shard.parameters.trajectories.stop
    texts, rewards = context.store.table([rollout], "texts"), context.store.table([score], "rewards")
    requests = scoring_requests(context, shard.parameters.data, texts[texts["trajectory"] < stop])
    prefixes = rewards[(rewards["trajectory"] < stop) & ~rewards["over_long"]]
    numbers = {question: number for number, question in enumerate(requests)}
    return list(requests.values()), prefixes.assign(request=prefixes["question_id"].map(numbers))


def _compute_states(
    models: Models, reference: PluginReference, requests: Sequence[ScoringRequest], prefixes: int
) -> list[HiddenStates]:
    """Return a PRM's hidden states for some requests. `prefixes` is the number of prefixes that are not too long."""
    with plugin_guard("prm", reference.name, "give hidden states"):
        prm = models.prm(reference)
        forests = patiently(prm, lambda: prm.hidden_states(requests))
        require_length(forests, len(requests), "forests of hidden states")
        count = sum(map(len, forests))
        require(count == prefixes, f"it returned {count} prefixes with hidden states instead of {prefixes}.")
        finite = all(bool(np.isfinite(forest.states).all()) for forest in forests)
        require(finite, "it returned a hidden state that is not finite.")
    return forests


def _rounded(states: Floats32) -> NDArray[np.float16]:
    largest = np.finfo(np.float16).max
    return np.clip(states, -largest, largest).astype(np.float16)


def _save(forest: HiddenStates, folder: Path) -> None:
    from safetensors.numpy import save_file

    arrays: dict[str, NDArray[Any]] = {"states": _rounded(forest.states)}
    save_file({**arrays, "parents": forest.parents.astype(np.int64)}, folder / "states.safetensors")


def hidden_states(
    context: Context, shard: Shard[CalibratorParameters], rows: pd.DataFrame, by_question: bool = False
) -> Iterator[tuple[Ints, HiddenStates]]:
    """Yield the hidden states of some scored prefixes, with the positions of the prefixes in `rows`.

    Stored states come all at once. With `by_question`, computed states come one question at a time: the PRM then reads
    each question once, and the states of one question are in memory.
    """
    all_rows = np.arange(len(rows))
    if TEXTS not in shard.inputs:
        yield all_rows, _stored(context, shard, rows)
        return
    requests: list[ScoringRequest] = []
    tables = []
    for rollout, score in zip(shard.inputs[TEXTS], shard.inputs["score"], strict=True):
        shard_requests, prefixes = _requests_of(context, shard, rollout, score)
        leaf = prefixes.groupby("request").cumcount()
        tables.append(prefixes.assign(leaf=leaf, request=prefixes["request"] + len(requests)))
        requests += shard_requests
    leaves = pd.concat(tables)[[*PREFIX, "request", "leaf"]]
    sizes = leaves["request"].value_counts()
    row_leaves = rows[[*PREFIX, "logit"]].merge(leaves, on=PREFIX, how="left", validate="one_to_one")
    for positions in row_leaves.groupby("request").indices.values() if by_question else [all_rows]:
        group = row_leaves.iloc[positions]
        numbers, request = np.unique(group["request"].to_numpy(np.int64), return_inverse=True)
        sized_requests = [(requests[number], int(sizes[number])) for number in numbers]
        states = ComputedStates(context, shard.parameters.prm, sized_requests)
        yield positions, states.prefixes(request, group["leaf"].to_numpy(), group["logit"].to_numpy(np.float64))


def _stored(context: Context, shard: Shard[CalibratorParameters], rows: pd.DataFrame) -> HiddenStates:
    from safetensors.numpy import load_file

    forests, tables = [], []
    for ref in shard.inputs["hidden"]:
        table = context.store.table([ref], "hidden_prefixes")
        arrays = load_file(context.store.folder(ref) / "states.safetensors")
        leaf, logit = table["leaf"].to_numpy(), table["logit"].to_numpy(np.float64)
        forests.append(HiddenStates(arrays["states"].astype(np.float32), arrays["parents"], leaf, logit))
        tables.append(table[PREFIX])
    stored_rows = pd.concat(tables, ignore_index=True).reset_index(names="row")
    order = rows[PREFIX].merge(stored_rows, on=PREFIX, how="left", validate="one_to_one")["row"]
    return HiddenStates.concatenate(forests)[order.to_numpy(np.int64)]


class ComputedStates:
    """The states of a forest, of shape (nodes, width), which a PRM computes when they are read.

    Reading nodes computes all states of their questions, one question at a time. The states of the first questions are
    kept in memory, in half precision, up to `KEPT_STATES` bytes, and also those of the last question. The first ones
    are kept and not the last ones, since a fit reads all questions in each epoch.

    The PRM reads everything once at the beginning, because the forest is not known before. There is at least one
    request, each with the number of its prefixes that are not too long. Each request is a tree of the forest.
    """

    ndim = 2

    def __init__(self, models: Models, prm: PluginReference, requests: Sequence[tuple[ScoringRequest, int]]) -> None:
        self._models, self._prm, self._requests = models, prm, requests
        self._cached_states: dict[int, NDArray[np.float16]] = {}
        self._last: tuple[int, NDArray[np.float16]] | None = None
        self._room = KEPT_STATES
        # Only the states of one question are in memory at a time.
        forests = [self._compute(number) for number in range(len(requests))]
        self._starts = np.cumsum([0, *(len(parents) for parents, _ in forests)])
        self._parents = [parents for parents, _ in forests]
        self._leaves = [leaves for _, leaves in forests]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of nodes, and the width of the states."""
        return len(self), self._width

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, nodes: Any) -> Floats32:
        """Return the states of some nodes, of shape (*nodes.shape, width)."""
        node_numbers = np.arange(len(self))[nodes]
        states = np.empty((*node_numbers.shape, self._width), dtype=np.float32)
        numbers = np.searchsorted(self._starts, node_numbers, side="right") - 1
        for number in np.unique(numbers).tolist():
            of_question = numbers == number
            states[of_question] = self._states(number)[node_numbers[of_question] - self._starts[number]]
        return states

    def prefixes(self, request: Ints, leaf: Ints, logit: Floats) -> HiddenStates:
        """Return for some prefixes the numbers of their requests, and their numbers within the request."""
        starts = self._starts
        ends = [self._leaves[number][index] + starts[number] for number, index in zip(request, leaf, strict=True)]
        parents = [np.where(tree < 0, -1, tree + start) for tree, start in zip(self._parents, starts, strict=False)]
        return HiddenStates(cast(Floats32, self), np.concatenate(parents), np.array(ends, dtype=np.int64), logit)

    def _states(self, number: int) -> NDArray[np.float16]:
        if number in self._cached_states:
            return self._cached_states[number]
        if self._last is None or self._last[0] != number:
            self._compute(number)
        assert self._last is not None
        return self._last[1]

    def _compute(self, number: int) -> tuple[Ints, Ints]:
        """Compute the states of a question, and keep them. Return the parents and the leaves of its tree."""
        request, prefixes = self._requests[number]
        (forest,) = _compute_states(self._models, self._prm, [request], prefixes)
        self._width = int(forest.states.shape[1])
        states = _rounded(forest.states)
        self._last = number, states
        if states.nbytes <= self._room:
            self._room -= states.nbytes
            self._cached_states[number] = states
        return forest.parents, forest.leaves
