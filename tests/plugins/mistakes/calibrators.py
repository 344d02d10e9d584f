"""Calibrators of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors
# ruff: noqa: B006, RUF012

import itertools
from pathlib import Path

import numpy as np

from prmcal import Calibrator, calibrator


class Sound(Calibrator):
    """Predicts a shrunk reward."""

    def fit(self, features, k, n):
        self.mean_ = float(k.sum() / n.sum())
        return self

    def predict(self, features):
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


@calibrator("no mistake")
class NoMistake(Sound):
    def __init__(self, bins: int = 10, levels_of_bins: list[float] | None = None) -> None:
        self.bins = bins
        self.levels_of_bins = levels_of_bins


@calibrator("unknown features")
class UnknownFeatures(Sound):
    reads = "logits"


@calibrator("levels in no order")
class LevelsInNoOrder(Sound):
    levels = (0.9, 0.1)


@calibrator("one level as a number")
class OneLevelAsANumber(Sound):
    levels = 0.5


@calibrator("version as a number")
class VersionAsANumber(Sound):
    version = 2


@calibrator("no version")
class NoVersion(Sound):
    version = None


@calibrator("packages as a text")
class PackagesAsAText(Sound):
    packages = "torch"


@calibrator("renamed argument")
class RenamedArgument(Sound):
    def __init__(self, bins: int = 10) -> None:
        self.n_bins = bins


@calibrator("changed argument")
class ChangedArgument(Sound):
    def __init__(self, path: str = "here") -> None:
        self.path = Path(path)


@calibrator("argument without annotation")
class ArgumentWithoutAnnotation(Sound):
    def __init__(self, bins=10):
        self.bins = bins


@calibrator("any arguments")
class AnyArguments(Sound):
    def __init__(self, **options: float) -> None:
        self.options = options


@calibrator("shared default")
class SharedDefault(Sound):
    def __init__(self, names: list[str] = []) -> None:
        self.names = names


@calibrator("default of another type")
class DefaultOfAnotherType(Sound):
    def __init__(self, bins: int = 2.5) -> None:
        self.bins = bins


@calibrator("argument that hides a method")
class ArgumentThatHidesAMethod(Sound):
    def __init__(self, save: bool = True) -> None:
        self.save = save


@calibrator("needs arguments")
class NeedsArguments(Sound):
    def __init__(self, folder: str, bins: int = 3) -> None:
        self.folder = folder
        self.bins = bins


@calibrator("reads a file when it is built")
class ReadsAFileWhenItIsBuilt(Sound):
    def __init__(self, path: str = "no/such/file") -> None:
        self.path = path
        self.table = Path(path).read_text()


@calibrator("fit of another form")
class FitOfAnotherForm(Sound):
    def fit(self, X, y):
        return super().fit(X, y, y)


@calibrator("grouped without questions")
class GroupedWithoutQuestions(Sound):
    grouped = True


@calibrator("fit returns nothing")
class FitReturnsNothing(Sound):
    def fit(self, features, k, n):
        super().fit(features, k, n)


@calibrator("no underscore")
class NoUnderscore(Calibrator):
    def fit(self, features, k, n):
        self.mean = float(k.sum() / n.sum())
        return self

    def predict(self, features):
        self.check_fitted()
        return np.full((len(features), 1), self.mean)


@calibrator("private state")
class PrivateState(Sound):
    def fit(self, features, k, n):
        self._offset = 0.1
        return super().fit(features, k, n)

    def predict(self, features):
        return np.clip(super().predict(features) + self._offset, 0, 1)


@calibrator("state of an object")
class StateOfAnObject(Sound):
    def fit(self, features, k, n):
        self.line_ = np.polynomial.Polynomial([0.0, 1.0])
        return super().fit(features, k, n)


@calibrator("fit overwrites an argument")
class FitOverwritesAnArgument(Sound):
    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def fit(self, features, k, n):
        self.slope = float(np.mean(features))
        return super().fit(features, k, n)


@calibrator("no check of the fit")
class NoCheckOfTheFit(Sound):
    def predict(self, features):
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


@calibrator("flat prediction")
class FlatPrediction(Sound):
    def predict(self, features):
        return super().predict(features)[:, 0]


@calibrator("list as prediction")
class ListAsPrediction(Sound):
    def predict(self, features):
        return super().predict(features).tolist()


@calibrator("log-odds as prediction")
class LogOddsAsPrediction(Sound):
    def predict(self, features):
        return super().predict(features) * 8 - 4


@calibrator("NaN at the end")
class NaNAtTheEnd(Sound):
    def predict(self, features):
        return np.where(features[:, None] == 1.0, np.nan, super().predict(features))


@calibrator("crossing levels")
class CrossingLevels(Sound):
    levels = (0.1, 0.9)

    def predict(self, features):
        self.check_fitted()
        return np.stack([features, 1 - features], axis=1)


@calibrator("unused levels")
class UnusedLevels(Sound):
    levels = (0.1, 0.5, 0.9)

    def predict(self, features):
        return np.repeat(super().predict(features), 3, axis=1)


@calibrator("one column for three levels")
class OneColumnForThreeLevels(Sound):
    levels = (0.1, 0.5, 0.9)


@calibrator("random fit")
class RandomFit(Sound):
    calls = itertools.count()

    def fit(self, features, k, n):
        self.mean_ = float(np.random.default_rng(next(self.calls)).random())
        return self


@calibrator("random prediction")
class RandomPrediction(Sound):
    calls = itertools.count()

    def predict(self, features):
        noise = np.random.default_rng(next(self.calls)).random((len(features), 1))
        return np.clip(super().predict(features) + 0.01 * noise, 0, 1)


@calibrator("sorts its input")
class SortsItsInput(Sound):
    def fit(self, features, k, n):
        features.sort()
        return super().fit(features, k, n)


@calibrator("second fit goes on")
class SecondFitGoesOn(Sound):
    def fit(self, features, k, n):
        earlier = getattr(self, "mean_", None)
        super().fit(features, k, n)
        self.mean_ = self.mean_ if earlier is None else (self.mean_ + earlier) / 2
        return self


@calibrator("shared state")
class SharedState(Sound):
    table_ = {}

    def fit(self, features, k, n):
        self.table_["mean"] = float(k.sum() / n.sum())
        self.mean_ = 0.0
        return self

    def predict(self, features):
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.table_["mean"], 0, 1)[:, None]


@calibrator("mean of the batch")
class MeanOfTheBatch(Sound):
    def predict(self, features):
        return np.clip(super().predict(features) - features.mean() / 10, 0, 1)


@calibrator("not for one row")
class NotForOneRow(Sound):
    def fit(self, features, k, n):
        self.second_ = float(features[1])
        return super().fit(features, k, n)


@calibrator("array instead of hidden states")
class ArrayInsteadOfHiddenStates(Sound):
    def fit(self, features, k, n):
        self.width_ = features.states.shape[1]
        return super().fit(features, k, n)


@calibrator("hidden states instead of an array")
class HiddenStatesInsteadOfAnArray(Sound):
    reads = "hidden"


@calibrator("wrong name of an attribute")
class WrongNameOfAnAttribute(Sound):
    def predict(self, features):
        self.check_fitted()
        return np.full((len(features), 1), self.means_)


@calibrator("levels that depend on each other")
class LevelsThatDependOnEachOther(Sound):
    levels = (0.1, 0.5, 0.9)
    any_level = True

    def predict(self, features):
        return self.predict_at(features, self.levels)

    def predict_at(self, features, levels):
        return super().predict(features) ** np.linspace(2, 0.5, len(levels))


@calibrator("ties by position")
class TiesByPosition(Sound):
    def predict(self, features):
        return np.clip(super().predict(features) + 1e-3 * np.arange(len(features))[:, None], 0, 1)


@calibrator("not for equal labels")
class NotForEqualLabels(Sound):
    def fit(self, features, k, n):
        if k.sum() in (0, n.sum()):
            raise ValueError("only one class")
        return super().fit(features, k, n)


@calibrator("pickles")
class Pickles(Sound):
    def save(self, folder):
        super().save(folder)
        (folder / "state.pkl").write_bytes(b"")


@calibrator("remembers labels")
class RemembersLabels(Sound):
    def fit(self, features, k, n):
        order = np.argsort(features, kind="stable")
        self.features_, self.labels_ = features[order], (k / n)[order]
        return self

    def predict(self, features):
        self.check_fitted()
        return np.interp(features, self.features_, self.labels_)[:, None]


@calibrator("identity with a path")
class IdentityWithAPath(Sound):
    def identity(self):
        return {"path": Path("here")}


@calibrator("identity that changes")
class IdentityThatChanges(Sound):
    calls = itertools.count()

    def identity(self):
        return {"call": next(self.calls)}
