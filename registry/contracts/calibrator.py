"""The contract of a calibrator: it maps the scores of a PRM to calibrated rewards."""

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from prmcal.arrays import Bools, Floats, Ints
from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.data import HiddenStates, Prefix
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.messages import reading

_STATE_FILE = "calibrator.json"
_ARRAYS_FILE = "calibrator.safetensors"
_ESTIMATOR = ".skops"


@dataclass(frozen=True)
class FitSupport:
    """The means that a long fit may use. A short fit ignores it."""

    checkpoints: Path | None = None
    """A folder that stays when the process ends. A fit that was interrupted finds its files there. A continued fit must
    end with the same bytes as an uninterrupted fit. With None nothing is kept."""
    report: Callable[[str], None] = field(default=lambda line: None)
    """Takes a short line for the progress display, such as ``"epoch 2 of 3, loss 0.081, 40 s left"``."""


@dataclass(frozen=True)
class ScoredPrefixes:
    """Prefixes with their scores and the PRM that scored them, for calibrators that fine-tune the PRM.

    Examples
    --------
    A calibrator with ``reads = "prm"`` scores the prefixes again, with other weights:

    >>> from prmcal import Prefix, ScoringRequest
    >>> def scores(features):
    ...     requests = [ScoringRequest(row.question, (row.steps,), whole_only=True) for row in features.prefixes]
    ...     return [of_question[0].logit[-1] for of_question in features.prm.score_batch(requests)]
    >>> features = ScoredPrefixes(None, (Prefix("1+1?"), Prefix("1+1?", ("1+1=2",))), np.array([0.1, 0.9]))
    >>> len(features), features[np.array([False, True])].prefixes[0].steps
    (2, ('1+1=2',))
    """

    prm: PRM
    """The model. A calibrator that changes its weights must restore them."""
    prefixes: tuple[Prefix, ...]
    """One per row. The rows of a question are consecutive."""
    logit: Floats
    """The PRM's log-odds of success of each prefix. Of shape (rows,), float64."""

    def __len__(self) -> int:
        return len(self.prefixes)

    def __getitem__(self, rows: Ints | Bools | slice) -> "ScoredPrefixes":
        """Return some of the prefixes, with the same PRM."""
        indices = np.arange(len(self.prefixes))[rows]
        return ScoredPrefixes(self.prm, tuple(self.prefixes[index] for index in indices), self.logit[rows])


def _skops() -> Any:
    try:
        return importlib.import_module("skops.io")
    except ImportError as error:
        raise PluginFailedError(
            "The calibrator keeps an estimator of scikit-learn. The package skops saves it: pip install skops"
        ) from error


class Calibrator(Plugin, ABC):
    """Map features of a prefix to the probability of success, at one or more quantile levels."""

    reads: Literal["reward", "logit", "hidden", "prm"] = "reward"
    """The features that ``fit`` and ``predict`` receive: an array with the reward or the logit of each prefix, the
    :class:`HiddenStates` of the prefixes, or :class:`ScoredPrefixes`, which holds their texts and the PRM."""
    learns: ClassVar[bool] = True
    """True if ``fit`` learns anything from the data. With False, a PRM scores few calibration trajectories, unless
    another calibrator or a strategy needs its scores."""
    grouped: ClassVar[bool] = False
    """True if ``fit`` also receives ``questions``, of shape (rows,), int64. Prefixes of one question have equal
    numbers. A calibrator that splits its data must keep them together."""
    training_passes: int = 0
    """How often ``fit`` trains the PRM on all of its prefixes; 0 if it does not train the PRM. Plans estimate GPU-hours
    from it."""
    reading_passes: int = 2
    """How often ``fit`` reads the hidden states of all of its prefixes, if it reads any. Plans estimate GPU-hours from
    it if states are computed when they are read."""
    trains_apart: bool = False
    """True if ``fit`` trains the PRM on each prefix by itself, and not on whole trajectories. Plans then count the
    tokens of every prefix."""
    support: FitSupport = FitSupport()
    """The folder for checkpoints of a long fit, and the report of its progress. The caller of ``fit`` sets it."""
    levels: tuple[float, ...] = (0.5,)
    """The quantile levels beta of the columns that ``predict`` returns, ascending. ``(0.5,)`` is a point estimate,
    which is used for every level."""
    any_level: bool = False
    """True if ``predict_at`` predicts every level in (0, 1), and not only `levels`. A grid may then ask for any
    ``scaling.levels``."""

    def arguments_for(self, llm: str) -> dict[str, Any] | None:
        """Return the arguments that differ for one LLM, given by its name in the grid; None if none differ.

        A grid plans the calibrator of each LLM with these arguments. By default None.
        """
        return None

    def check_prm(self, prm: PRM) -> None:
        """Raise PluginFailedError if classes or checkpoints on the disk show that it cannot be fitted to a PRM.

        No model is loaded. `prmcal plan`, `prmcal doctor` and `prmcal run` ask for it before anything is sampled.
        Override it if the calibrator needs more of a PRM, and call ``super().check_prm(prm)``.
        """
        if self.reads == "hidden" and type(prm).hidden_states is PRM.hidden_states:
            raise PluginFailedError(
                f"The calibrator reads hidden states, but a {type(prm).__name__} has none. Derive the class of the PRM "
                "from prmcal.TransformersPRM, or list the calibrator's PRMs: 'prms' in its entry of the grid."
            )

    @abstractmethod
    def fit(self, features: Any, k: Ints, n: Ints) -> Self:
        """Fit to Monte Carlo success counts.

        Raises a PluginFailedError if a training ends in NaN, or the PRM cannot be fine-tuned.

        Parameters
        ----------
        features : ndarray of shape (rows,), HiddenStates or ScoredPrefixes
            The features that `reads` names. All of them have a length and can be indexed by rows.
        k, n : ndarray of shape (rows,), int64
            k successes of n follow-ups, 0 <= k <= n, n >= 1.

        Returns
        -------
        self
            Fitted attributes end in an underscore.
        """

    def fit_features(self, features: Any, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        """Fit as a grid does: ``fit`` also receives the questions if the calibrator is `grouped`."""
        return self.fit(features, k, n, **({"questions": questions} if self.grouped else {}))

    @abstractmethod
    def predict(self, features: Any) -> Floats:
        """Return the calibrated rewards in [0, 1], of shape (rows, levels). They do not decrease along the levels.

        Raise PluginFailedError if it is not fitted, or was fitted to another PRM.
        """

    def predict_at(self, features: Any, levels: Sequence[float]) -> Floats:
        """Return the calibrated rewards at some levels. Override it, and set `any_level`, if every level is possible.

        At the levels in the calibrator's `levels`, they equal the rewards of ``predict`` to the bit. The reward at one
        level does not depend on the other levels of the call.

        Raises a PluginFailedError if the calibrator does not predict one of the levels.

        Parameters
        ----------
        features : ndarray of shape (rows,), HiddenStates or ScoredPrefixes
            As for ``predict``.
        levels : sequence of float
            Levels beta, ascending in (0, 1).

        Returns
        -------
        ndarray of shape (rows, levels)
            Rewards in [0, 1], which do not decrease along the levels. A point estimate is the same at every level.
        """
        from prmcal.registry.contracts.results import check_rewards  # It imports all contracts.

        self.check_levels(levels)
        columns = [self.levels.index(level) if level in self.levels else 0 for level in levels]
        rewards = np.asarray(self.predict(features), dtype=np.float64)
        check_rewards(rewards, len(features), len(self.levels))
        return rewards[:, columns]

    def check_levels(self, levels: Sequence[float]) -> None:
        """Raise PluginFailedError if the calibrator does not predict one of the levels."""
        missing = [level for level in levels if level not in self.levels]
        if missing and self.levels != (0.5,) and not self.any_level:
            raise PluginFailedError(
                f"The calibrator does not predict the level {missing[0]:g}, but {', '.join(map(str, self.levels))}."
            )

    def export(self, prm: PRM, folder: Path, level: float = 0.5) -> None:
        """Write the calibrated PRM as a checkpoint. Override it if the fitted calibrator is a change of the PRM.

        Raises a PluginFailedError if the calibrator does not change the PRM or predict this level, or this PRM
        cannot be exported.

        Parameters
        ----------
        prm : PRM
            The PRM that the calibrator was fitted to. It may be closed afterwards.
        folder : Path
            A new or an empty folder.
        level : float, default 0.5
            The level whose prediction is the reward of the checkpoint: one of `levels`.
        """
        raise PluginFailedError(
            "it does not change the PRM. Choose a calibrator that fine-tunes the PRM, such as quantile-lora."
        )

    def check_calibration_data(self, features: Any, k: Ints, n: Ints) -> None:
        """Raise ValueError unless the arguments of ``fit`` are valid. Call it in the first line of ``fit``."""
        self.check_features(features)
        if not len(features):
            raise ValueError("There are no prefixes to fit to. Give the calibration split at least one question.")
        if not (len(features),) == np.shape(k) == np.shape(n):
            raise ValueError(
                f"'features', 'k' and 'n' must have one entry per prefix. Got {len(features)} prefixes and the shapes "
                f"{np.shape(k)} and {np.shape(n)} instead."
            )
        if not np.all((n >= 1) & (k >= 0) & (k <= n)):
            raise ValueError("Each prefix needs k successes of n follow-ups with 0 <= k <= n and n >= 1.")

    def question_numbers(self, features: Any, questions: Ints | None) -> Ints:
        """Return the question of each prefix, of shape (rows,). With None, each prefix is of a different question.

        Raises a ValueError if `questions` does not have one entry per prefix.
        """
        numbers = np.arange(len(features)) if questions is None else np.asarray(questions)
        if numbers.shape != (len(features),):
            raise ValueError(
                f"'questions' must have one entry per prefix: {len(features)}. Got the shape {numbers.shape}."
            )
        return numbers

    def check_features(self, features: Any) -> None:
        """Raise ValueError unless `features` have the kind that `reads` names, with finite scores in their range."""
        scores = features
        if self.reads in ("hidden", "prm"):
            expected = HiddenStates if self.reads == "hidden" else ScoredPrefixes
            if not isinstance(features, expected):
                raise ValueError(f"'features' must be {expected.__name__}. Got {type(features).__name__} instead.")
            scores = features.logit
        if np.ndim(scores) != 1:
            raise ValueError(f"'features' must have shape (rows,). Got {np.shape(scores)} instead.")
        if not np.all(np.isfinite(scores)):
            raise ValueError(
                f"Each {'reward' if self.reads == 'reward' else 'logit'} must be finite. "
                "Leave out prefixes that the PRM could not read."
            )
        if self.reads == "reward" and not np.all((scores >= 0) & (scores <= 1)):
            raise ValueError("Each reward must be in [0, 1].")

    def fitted_attributes(self) -> dict[str, Any]:
        """The fitted attributes by name: those that end in an underscore."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def check_fitted(self) -> None:
        """Raise PluginFailedError if it is not fitted. Call it in the first line of ``predict``."""
        if not self.fitted_attributes():
            name = self.plugin_name or type(self).__qualname__
            raise PluginFailedError(
                f"The calibrator '{name}' is not fitted. Call 'fit' or 'load' first. Names of attributes that fit() "
                "sets must end in an underscore: write self.mean_ for self.mean."
            )

    def save(self, folder: Path) -> None:
        """Write the fitted attributes to `folder`: arrays as safetensors, the others as JSON. Nothing is pickled.

        Estimators of scikit-learn are written by skops. Raises a PluginFailedError if skops is not installed.
        """
        from safetensors.numpy import save_file

        folder = Path(folder)
        fitted = self.fitted_attributes()
        arrays = {name: np.ascontiguousarray(value) for name, value in fitted.items() if isinstance(value, np.ndarray)}
        estimators = {name: value for name, value in fitted.items() if hasattr(value, "get_params")}
        plain = {name: value for name, value in fitted.items() if name not in arrays | estimators}
        folder.mkdir(parents=True, exist_ok=True)
        for name, estimator in estimators.items():
            _skops().dump(estimator, folder / f"{name}{_ESTIMATOR}")
        save_file(arrays, folder / _ARRAYS_FILE)
        state = {"plugin": self.plugin_name, "levels": list(self.levels), "fitted": plain}
        (folder / _STATE_FILE).write_text(json.dumps(state, sort_keys=True, indent=1) + "\n")

    def load(self, folder: Path) -> Self:
        """Read the files that ``save`` wrote. The predictions are then equal to the bit.

        Raises a DataError if the folder does not contain a complete saved calibrator of this plugin.
        """
        from safetensors.numpy import load_file

        folder = Path(folder)
        with reading(f"{folder} does not contain a saved calibrator", "Fit it again."):
            state: dict[str, Any] = json.loads((folder / _STATE_FILE).read_text())
            arrays = load_file(folder / _ARRAYS_FILE)
            plain, plugin = dict(state["fitted"]), state["plugin"]
            for path in folder.glob(f"*{_ESTIMATOR}"):
                types = _skops().get_untrusted_types(file=path)  # Those of scikit-learn that skops has no list of.
                if foreign := [name for name in types if not name.startswith("sklearn.")]:
                    raise DataError(
                        f"{path} has '{foreign[0]}', which is not of scikit-learn, so it is not loaded. Do its work in "
                        "'fit' and 'predict', and keep only estimators of scikit-learn."
                    )
                plain[path.stem] = _skops().load(path, types)
        if plugin != self.plugin_name:
            raise DataError(f"{folder} contains the calibrator '{plugin}', not '{self.plugin_name}'.")
        for name, value in {**plain, **arrays}.items():
            setattr(self, name, value)
        return self
