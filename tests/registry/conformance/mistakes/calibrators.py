"""Calibrators of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors
# ruff: noqa: B006, RUF012

import itertools
from pathlib import Path

import numpy as np

from prmcal import Calibrator
from tests.registry.conformance.mistakes import mistake


class Sound(Calibrator):
    """Predicts a shrunk reward."""

    def fit(self, features, k, n):
        self.mean_ = float(k.sum() / n.sum())
        return self

    def predict(self, features):
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


class NoMistake(Sound):
    def __init__(self, bins: int = 10, levels_of_bins: list[float] | None = None) -> None:
        self.bins = bins
        self.levels_of_bins = levels_of_bins


@mistake("reads and levels", "Write reads = 'logit'")
class UnknownFeatures(Sound):
    reads = "logits"


@mistake("reads and levels", r"Write levels = \(0\.1, 0\.5, 0\.9\)")
class OneLevelAsANumber(Sound):
    levels = 0.5


@mistake("arguments are stored", r"Write self\.bins = bins in __init__")
class RenamedArgument(Sound):
    def __init__(self, bins: int = 10) -> None:
        self.n_bins = bins


@mistake("arguments are annotated", "Write its type, such as int")
class ArgumentWithoutAnnotation(Sound):
    def __init__(self, bins=10):
        self.bins = bins


@mistake("arguments are annotated", "must name its arguments.* such as bins: int = 10")
class AnyArguments(Sound):
    def __init__(self, **options: float) -> None:
        self.options = options


@mistake("defaults are valid", r"Write names: list \| None = None")
class SharedDefault(Sound):
    def __init__(self, names: list[str] = []) -> None:
        self.names = names


@mistake("defaults are valid", "'bins'.*must be a valid integer.* Got 2.5.* Change the default")
class DefaultOfAnotherType(Sound):
    def __init__(self, bins: int = 2.5) -> None:
        self.bins = bins


@mistake("arguments are stored", "name of another attribute. Choose another name")
class ArgumentThatHidesAMethod(Sound):
    def __init__(self, save: bool = True) -> None:
        self.save = save


@mistake("it can be built", r"line \d+ of calibrators.py.* Move this work into the")
class ReadsAFileWhenItIsBuilt(Sound):
    def __init__(self, path: str = "no/such/file") -> None:
        self.path = path
        self.table = Path(path).read_text()


@mistake("methods take the arguments of the contract", r"Write def fit\(self, features, k, n\)")
class FitOfAnotherForm(Sound):
    def fit(self, X, y):
        return super().fit(X, y, y)


@mistake("methods take the arguments of the contract", r"Write def fit\(self, features, k, n, questions\)")
class GroupedWithoutQuestions(Sound):
    grouped = True


@mistake("in range", "Got NoneType. End it with `return self`")
class FitReturnsNothing(Sound):
    def fit(self, features, k, n):
        super().fit(features, k, n)


@mistake("save and load", r"must end in an underscore: write self\.mean_ for self\.mean")
class NoUnderscore(Calibrator):
    def fit(self, features, k, n):
        self.mean = float(k.sum() / n.sum())
        return self

    def predict(self, features):
        self.check_fitted()
        return np.full((len(features), 1), self.mean)


@mistake("in range", r"Store it as self\.slope_")
class FitOverwritesAnArgument(Sound):
    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def fit(self, features, k, n):
        self.slope = float(np.mean(features))
        return super().fit(features, k, n)


@mistake("prediction needs a fit", r"Write `self\.check_fitted\(\)` in the first line")
class NoCheckOfTheFit(Sound):
    def predict(self, features):
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


@mistake("in range", r"\(rows,\) instead of .* such as rewards\[:, None\]")
class FlatPrediction(Sound):
    def predict(self, features):
        return super().predict(features)[:, 0]


@mistake("in range", r"outside \[0, 1\].* probabilities instead of log-odds")
class LogOddsAsPrediction(Sound):
    def predict(self, features):
        return super().predict(features) * 8 - 4


@mistake("in range", r"Write np\.sort\(rewards, axis=1\)")
class CrossingLevels(Sound):
    levels = (0.1, 0.9)

    def predict(self, features):
        self.check_fitted()
        return np.stack([features, 1 - features], axis=1)


@mistake("quantiles differ", r"Use 'levels' in predict\(\), or write levels = \(0\.5,\)")
class UnusedLevels(Sound):
    levels = (0.1, 0.5, 0.9)

    def predict(self, features):
        return np.repeat(super().predict(features), 3, axis=1)


@mistake("a second fit forgets the first", r"random numbers from np\.random\.default_rng\(seed\)")
class RandomFit(Sound):
    calls = itertools.count()

    def fit(self, features, k, n):
        self.mean_ = float(np.random.default_rng(next(self.calls)).random())
        return self


@mistake("inputs are not changed", r"'features' changed. Work on a copy: features\.copy\(\)")
class SortsItsInput(Sound):
    def fit(self, features, k, n):
        features.sort()
        return super().fit(features, k, n)


@mistake("a second fit forgets the first", "do not change a list or dict of the class")
class SharedState(Sound):
    table_ = {}

    def fit(self, features, k, n):
        self.table_["mean"] = float(k.sum() / n.sum())
        self.mean_ = 0.0
        return self

    def predict(self, features):
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.table_["mean"], 0, 1)[:, None]


@mistake("rows are independent", r"Compute means and ranges in fit\(\)")
class MeanOfTheBatch(Sound):
    def predict(self, features):
        return np.clip(super().predict(features) - features.mean() / 10, 0, 1)


@mistake("fit to one row", r"IndexError.* See line \d+ of calibrators.py")
class NotForOneRow(Sound):
    def fit(self, features, k, n):
        self.second_ = float(features[1])
        return super().fit(features, k, n)


@mistake("in range", r"has no attribute 'states'\. See line \d+ of calibrators\.py")
class ArrayInsteadOfHiddenStates(Sound):
    def fit(self, features, k, n):
        self.width_ = features.states.shape[1]
        return super().fit(features, k, n)


@mistake("any level", "its own levels among others the same as of predict")
class LevelsThatDependOnEachOther(Sound):
    levels = (0.1, 0.5, 0.9)
    any_level = True

    def predict(self, features):
        return self.predict_at(features, self.levels)

    def predict_at(self, features, levels):
        return super().predict(features) ** np.linspace(2, 0.5, len(levels))


@mistake("equal features get equal rewards", "not on the position of the row")
class TiesByPosition(Sound):
    def predict(self, features):
        return np.clip(super().predict(features) + 1e-3 * np.arange(len(features))[:, None], 0, 1)


@mistake("fit to equal labels", "raised ValueError: only one class")
class NotForEqualLabels(Sound):
    def fit(self, features, k, n):
        if k.sum() in (0, n.sum()):
            raise ValueError("only one class")
        return super().fit(features, k, n)


@mistake("save and load", r"It wrote state\.pkl")
class Pickles(Sound):
    def save(self, folder):
        super().save(folder)
        (folder / "state.pkl").write_bytes(b"")


@mistake("permuted labels give no skill", "is 1.00, and must be below 0.5")
class RemembersLabels(Sound):
    def fit(self, features, k, n):
        order = np.argsort(features, kind="stable")
        self.features_, self.labels_ = features[order], (k / n)[order]
        return self

    def predict(self, features):
        self.check_fitted()
        return np.interp(features, self.features_, self.labels_)[:, None]


@mistake("identity is json data", "must be JSON data")
class IdentityWithAPath(Sound):
    def identity(self):
        return {"path": Path("here")}


@mistake("identity is json data", "must not change between calls")
class IdentityThatChanges(Sound):
    calls = itertools.count()

    def identity(self):
        return {"call": next(self.calls)}
