"""The settings behind the results of submissions, words for where they differ, and the plugins and metrics of all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prmcal.db.metrics import Metric
from prmcal.errors import BundleError
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Cell, Plan, PlannedPlugin, PlannedQuestions, with_inputs
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.harness.share.submissions import Submitted
from prmcal.harness.storage.folder import RunRecord
from prmcal.harness.storage.store import content_key
from prmcal.registry.contracts.data import Question
from prmcal.registry.messages import shown

SEED = "seed"
"""The condition in which replicates differ."""
_OF_METRICS = "metric "
"""The beginning of the names of conditions that belong to single metrics."""
_LONGEST_VALUE = 24
_MODEL_JOBS = {
    **dict.fromkeys(("rollout", "success"), ("llm",)),
    **dict.fromkeys(("score", "hidden"), ("prm",)),
    "search": ("llm", "prm"),
}
_FITTING = ("hidden", "features", "fit", "calibrated")
"""The kinds of jobs that only calibrators need."""

# The settings of the grid that decide for the rows of a leaderboard, and for all fits.
_SAMPLED = ("temperature", "top_p", "max_tokens", "stop")
_CHOSEN = ("first_prefixes", "prefer_answered")
"""Settings that are conditions only if they are set."""
_MEASURED = ("measured", "follow_ups", "most_prefixes", *_CHOSEN, "terminal", "bins", "replicates")
_SETTINGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "calibration": {"sampling": _SAMPLED, "measurement": _MEASURED},
    "scaling": {"sampling": _SAMPLED, "scaling": ("samples",)},
    "league": {"sampling": _SAMPLED, "scaling": ("samples",)},
}
_FITTED = {"calibration": ("trajectories", "follow_ups", "most_prefixes", *_CHOSEN, "terminal")}
_TITLES = {"follow_ups": "follow-ups", "most_prefixes": "prefixes"}
_FITS = ("calibration", "")

Properties = dict[str, Any]
Described = dict[tuple[str, str], Properties]
"""The properties of the parts of a submission, by kind and name: leaderboards, fits, plugins and data sets."""


def described(record: RunRecord, plan: Plan) -> Described:
    """Return what decides for the results of a submission, by names in words, without nesting.

    For a leaderboard it is the seed and the sampling; how calibration is measured, and the metrics; the size of the
    pool; and the versions of the jobs that measure.
    """
    found: Described = {}
    for leaderboard, settings in _SETTINGS.items():
        jobs = [cell.job for cell in plan.cells if cell.leaderboard == leaderboard]
        if jobs:
            own = {SEED: record.grid[SEED]} if SEED in record.grid else {}
            own |= _given(record, settings)
            own |= _versions(job for job in with_inputs(jobs) if job.kind not in _FITTING)
            found["leaderboard", leaderboard] = own
    for kind, plugins in plan.plugins.items():
        for plugin in plugins:
            properties = {name: each for name, each in _flat(plugin.identity).items() if name != "kind"}
            found[kind, plugin.name] = properties
            if kind == "metric" and (board := found.get(("leaderboard", "calibration"))) is not None:
                board |= {f"{_OF_METRICS}{plugin.name} {name}": each for name, each in properties.items()}
    for entry in record.grid.get("prms") or []:
        found["prm", entry["name"]] |= {f"ranking {k}": v for k, v in (entry.get("ranking") or {}).items()}
    fits, calibration = _given(record, _FITTED), record.grid.get("calibration") or {}
    for data in plan.datasets:
        own = {"content": data.content_hash, "grader": data.grader_version}
        found["data set", f"{data.name}/{data.split}"] = {"questions": len(data.questions)} | own
        if (data.name, data.split) == (calibration.get("name"), calibration.get("split")):
            fits |= own
    found[_FITS] = fits | _versions(job for job in plan.jobs if job.kind in _FITTING)
    return found


def differing(properties: Iterable[Properties]) -> set[str]:
    """Return the names of properties that have several values. What only some have counts for those."""
    values: dict[str, set[str]] = defaultdict(set)
    for each in properties:
        for name, value in each.items():
            values[name].add(content_key(value))
    return {name for name, found in values.items() if len(found) > 1}


def words(properties: Properties, names: Iterable[str]) -> list[str]:
    """Return some properties as short texts, such as ``seed 2``, in the order of the description."""
    wanted = set(names)
    return [f"{name} {_short(value)}" for name, value in properties.items() if name in wanted]


class Words:
    """The differences between submissions, in words."""

    def __init__(self, submissions: Sequence[Submitted]) -> None:
        self._described = {each.submission_id: described(each.record, each.plan) for each in submissions}
        by_place: dict[tuple[str, str], list[Properties]] = defaultdict(list)
        for found in self._described.values():
            for place, own in found.items():
                by_place[place].append(own)
        self._differing: dict[tuple[str, str], set[str]] = {}
        for place, every in by_place.items():
            names = differing(every)
            # Arguments of metrics follow from other conditions, such as the bins, unless they alone differ.
            self._differing[place] = {name for name in names if not name.startswith(_OF_METRICS)} or names

    def conditions(self, submission: Submitted, cell: Cell) -> list[str]:
        """Return in what the place of a cell was measured differently from others of the leaderboard."""
        labels = cell.labels
        places = {
            "": ("leaderboard", cell.leaderboard),
            "LLM ": ("llm", labels.llm),
            "PRM ": ("prm", labels.prm),
            "data set ": ("data set", f"{labels.dataset}/{labels.split}"),
        }
        return [
            f"{title}{name} {_short(value)}"
            for title, place in places.items()
            for name, value in self._differences(submission, place).items()
        ]

    def version(self, submission: Submitted, cell: Cell) -> Properties:
        """Return the properties of the calibrator and the strategy of a cell that differ between submissions."""
        places = {"calibrator": cell.labels.calibrator, "strategy": cell.strategy}
        if cell.labels.calibrator:
            places["calibration"] = ""
        return {
            f"{kind} {each}": value
            for kind, name in places.items()
            for each, value in self._differences(submission, (kind, name)).items()
        }

    def _differences(self, submission: Submitted, place: tuple[str, str]) -> Properties:
        own, names = self._described[submission.submission_id].get(place, {}), self._differing.get(place, ())
        return {name: value for name, value in own.items() if name in names}


def is_repeatable(shard: Shard[Parameters], submission: Submitted) -> bool:
    """Return whether a shard that is computed again has the same bytes: the models behind it are deterministic.

    The grid or the plugin says so. If they do not say it, it holds for a machine without a GPU.
    """
    kinds = _MODEL_JOBS.get(shard.ref.kind, ())
    if shard.ref.kind == "fit" and shard.resource:  # It trains the PRM or reads its states.
        kinds = ("prm",)
    names = {kind: getattr(getattr(shard.parameters, kind, None), "name", "") for kind in kinds}
    stated = [
        each.deterministic
        for kind, name in names.items()
        for each in submission.plan.plugins.get(kind, ())
        if each.name == name
    ]
    gpus = submission.record.environment.get("hardware", {}).get("gpus")
    return all(not gpus if each is None else each for each in stated)


def _given(record: RunRecord, settings: Mapping[str, Sequence[str]]) -> Properties:
    return {
        _TITLES.get(name, name.replace("_", " ")): given[name]
        for part, names in settings.items()
        for given in [record.grid.get(part) or {}]
        for name in names
        if name in given and (given[name] is not None or name not in _CHOSEN)
    } | ({"parts": record.grid["parts"]} if record.grid.get("parts") else {})


def _versions(jobs: Iterable[Job[Parameters]]) -> Properties:
    versions = {job.kind: job.shards[0].version for job in jobs}
    return {f"{kind.replace('_', ' ')} version": versions[kind] for kind in sorted(versions)}


def _flat(data: Mapping[str, Any]) -> Properties:
    """Return data without nesting: ``{"arguments": {"bins": 5}}`` has ``bins``."""
    found: Properties = {}
    for name, value in data.items():
        inner = _flat(value) if isinstance(value, Mapping) else {name: value}
        found |= {key if key not in found else f"{name} {key}": each for key, each in inner.items()}
    return found


def _short(value: Any) -> str:
    """Return a value as text; a long one, such as a hash or a path, as the first digits of a hash."""
    text = "none" if value is None else str(value)
    if len(text) <= _LONGEST_VALUE and "/" not in text and "," not in text and ";" not in text:
        return text
    return text[:8] if text.isalnum() else content_key(value)[:8]


class Catalogue:
    """The plugins, data sets and metrics of all submissions. Of several versions of one name, the newest is described.

    The submissions are given in their order.
    """

    def __init__(self, submissions: Sequence[Submitted]) -> None:
        self._submissions = submissions
        self._plugins: dict[str, dict[str, PlannedPlugin[Any]]] = defaultdict(dict)
        for each in submissions:
            for kind, plugins in each.plan.plugins.items():
                self._plugins[kind] |= {plugin.name: plugin for plugin in plugins}
        self._orders = {
            kind: list(
                dict.fromkeys([*merged_order(_order(each, kind) for each in submissions), *sorted(known)])
            )
            for kind, known in self._plugins.items()
        }

    def place_of(self, cell: Cell) -> tuple[object, ...]:
        """Return the place of a cell, in the order in which a grid plans its cells."""

        def place(kind: str, name: str) -> int:
            return self._orders[kind].index(name) if name else -1

        kinds = ("llm", "prm", "calibrator", "dataset")
        level, target = (-1.0 if each is None else each for each in (cell.level, cell.target))
        return (
            *(place(kind, getattr(cell.labels, kind)) for kind in kinds),
            *(cell.leaderboard, level, place("strategy", cell.strategy), target),
        )

    def plugins(self) -> dict[str, tuple[PlannedPlugin[Any], ...]]:
        """Return the plugins of each kind in their order."""
        return {
            kind: tuple(self._plugins[kind][name] for name in order) for kind, order in self._orders.items()
        }

    def datasets(self) -> tuple[PlannedQuestions, ...]:
        """Return the questions of each split, those of the largest selection, with their texts if there are any."""
        found: dict[tuple[str, str], PlannedQuestions] = {}
        known: dict[tuple[str, str, str], Question] = {}
        for each in self._submissions:
            for data in each.plan.datasets:
                key = data.name, data.split
                if key not in found or len(data.questions) >= len(found[key].questions):
                    found[key] = data
                known |= {(*key, one.id): one for one in data.questions if one.text is not None}
        order = self._orders.get("dataset", [])
        return tuple(
            replace(data, questions=tuple(known.get((*key, each.id), each) for each in data.questions))
            for key, data in sorted(found.items(), key=lambda each: (order.index(each[0][0]), each[0]))
        )

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics in the order of columns.

        This version of prmcal describes its own metrics, whatever a submission says of them. The others are described
        by the oldest submission that has them.

        Raises a BundleError if two submissions disagree which values of a metric are better.
        """
        own = {metric.name: metric for metric in built_in_metrics()}
        first: dict[str, tuple[Submitted, Metric]] = {}
        for each in self._submissions:
            for metric in each.plan.metrics:
                source, known = first.setdefault(metric.name, (each, metric))
                if metric.name not in own and metric.better != known.better:
                    raise BundleError(
                        f"The submissions {source.submission_id} and {each.submission_id} disagree which values of "
                        f"the metric {shown(metric.name)} are better: {known.better or 'none'} or "
                        f"{metric.better or 'none'}. Merge only one of them."
                    )
        names = merged_order([[metric.name for metric in each.plan.metrics] for each in self._submissions])
        return tuple(own.get(name) or first[name][1] for name in names)


def merged_order(orders: Iterable[Sequence[str]]) -> list[str]:
    """Return all names in the longest order, the most frequent one of these. Other names follow their predecessors.

    It does not depend on the order of the sources, each of which has a name once.
    """
    found: list[str] = []
    times = Counter(map(tuple, orders))
    for order in sorted(times, key=lambda each: (-len(each), -times[each], each)):
        place = 0
        for name in order:
            if name not in found:
                found.insert(place, name)
            place = found.index(name) + 1
    return found


def _order(submission: Submitted, kind: str) -> list[str]:
    names = [plugin.name for plugin in submission.plan.plugins.get(kind, ())]
    if kind != "dataset":
        return names
    # In a plan, data that is only used to calibrate comes last, which says nothing about its place.
    tested = dict.fromkeys(each["name"] for each in submission.record.grid.get("datasets", ()))
    return [name for name in tested if name in names]
