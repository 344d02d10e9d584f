"""The scales of scores, such as probabilities and log-odds, and the scale of the numbers of a file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import DataError
from prmcal.log_odds import probability

ScaleName = Literal["probability", "percent", "grade", "logit", "rank"]
NAMES: tuple[ScaleName, ...] = get_args(ScaleName)
GRADES = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")
"""The lowest and the highest grade, such as 1-7."""
_PERCENT = re.compile(r"percent|pct|confid|prob", re.IGNORECASE)
_LOGIT = re.compile(r"logit|log_?odds", re.IGNORECASE)
_OTHER = re.compile(
    r"second|time|latenc|duration|length|token|cost|count|perplex|ppl|nll|loss|log_?p|entropy", re.IGNORECASE
)
_TOPS = (5, 10)
_LIKERT = 7
"""The highest grade of the scale of 1 to 7."""
_GRID = 0.5
_MOSTLY = 0.9


@dataclass(frozen=True)
class Scale:
    """A scale of scores."""

    name: ScaleName
    low: float = 0.0
    high: float = 1.0
    """The lowest and the highest grade; of ranks, the quartiles of the scores."""
    reverse: bool = False
    """Whether a smaller score is better."""

    def rewards(self, scores: Floats) -> Floats:
        """Return the rewards of scores in [0, 1]; for ranks, only their order has a meaning. NaN stays NaN.

        Raises ValueError if a score is not on the scale.
        """
        if self.name == "logit":
            return probability(-scores if self.reverse else scores)
        if self.name == "rank":
            middle, width = (self.low + self.high) / 2, max((self.high - self.low) / 2, 1e-12)
            rewards = 0.5 + np.arctan((scores - middle) / width) / np.pi
        else:
            low, high = {"probability": (0.0, 1.0), "percent": (0.0, 100.0)}.get(self.name, (self.low, self.high))
            outside = (scores < low) | (scores > high)
            if outside.any():
                kind = "probability" if self.name == "probability" else f"score as {self.name}"
                raise ValueError(f"a {kind} must be in [{low:g}, {high:g}]. Got {scores[outside][0]:g}")
            rewards = (scores - low) / (high - low)
        return np.asarray(1.0 - rewards if self.reverse else rewards)

    @property
    def words(self) -> str:
        """The words for scores on this scale."""
        words = {
            "probability": "probabilities",
            "percent": "percent",
            "grade": f"grades of {self.low:g} to {self.high:g}",
            "logit": "log-odds",
            "rank": "an order without a scale",
        }[self.name]
        return f"{words}, and a smaller one is better" if self.reverse else words


def scale_of(
    scores: Floats, written: Sequence[float | int], field: str, scale_name: str | None, reverse: bool, source: str
) -> Scale:
    """Return the scale of the scores of a field.

    Impossible scales are excluded: log-odds are not all positive, nor integers. `written` has the scores as the file
    writes them. Raises a DataError with the options that decide if the scores can be several things.
    """
    if scale_name and (ends := GRADES.fullmatch(scale_name)):
        low, high = sorted(map(float, ends.groups()))
        return Scale("grade", low, high, reverse)
    lowest, highest = float(scores.min()), float(scores.max())
    name = scale_name or _guess(scores, all(isinstance(score, int) for score in written), field, source)
    if name == "rank":
        low, high = (float(quartile) for quartile in np.quantile(scores, (0.25, 0.75)))
        return Scale("rank", low, high, reverse)
    if name == "grade":
        top = next((usual_top for usual_top in _TOPS if highest <= usual_top), max(highest, lowest + 1))
        is_usual = lowest >= 0 and highest <= _TOPS[-1]
        return Scale("grade", float(lowest >= 1) if is_usual else lowest, top, reverse)
    return Scale(next(known_name for known_name in NAMES if known_name == name), reverse=reverse)


def _guess(scores: Floats, integers: bool, field: str, source: str) -> ScaleName:
    lowest, highest, in_unit = scores.min(), scores.max(), (scores >= 0) & (scores <= 1)
    is_other, is_log_odds = _OTHER.search(field), _LOGIT.search(field)
    if in_unit.all() and (not is_other or _PERCENT.search(field)):
        return "probability"
    on_grid = lowest >= 0 and not is_other and bool((np.mod(scores, _GRID) == 0).all())
    if on_grid and (highest == _TOPS[0] or _LIKERT < highest <= _TOPS[1]):
        return "grade"
    if on_grid and _TOPS[1] < highest <= 100 and (_PERCENT.search(field) or (integers and highest > 50)):
        return "percent"
    is_mixed = _PERCENT.search(field) and highest > _TOPS[1] and ((scores > 0) & (scores < 1)).mean() > 1 - _MOSTLY
    if not in_unit.all() and (in_unit.mean() > _MOSTLY or is_mixed):
        raise DataError(
            f"{source}: {in_unit.sum():,} scores lie in [0, 1] like probabilities, but {(~in_unit).sum():,} do not, "
            f"such as {scores[~in_unit][0]:g}. Say what they are: --as probability or --as "
            f"{'percent' if is_mixed else 'logit'}."
        )
    if lowest >= 0 and _TOPS[1] < highest <= 100 and _PERCENT.search(field) and not is_other and not is_log_odds:
        return "percent"
    if not is_other and (is_log_odds or (lowest < 0 < highest and not integers)):
        return "logit"
    ways, why = ["rank", "rank --reverse"], "a smaller one may be better"
    if in_unit.all():
        ways = ["probability", "rank --reverse"]
    elif lowest < 0 and not (integers and lowest == -1 and highest > _TOPS[1]):  # -1 can stand for no score.
        ways, why = ["logit", "rank"], "they may be log-odds or log-probabilities"
    elif on_grid and highest <= _TOPS[1]:
        ways, why = [f"{float(lowest >= 1):g}-{highest:g}", "grade"], "they may be grades of several scales"
    elif highest <= 100 and not is_other:
        ways = ["percent" if highest > _TOPS[1] else "grade", *ways]
    are = "may be" if in_unit.all() else "are"
    examples = ", ".join(f"{score:g}" for score in scores[:3])
    command = f"prmcal audit {source.replace(', ', ' ')} --as"
    raise DataError(
        f"{source}: the scores in '{field}' ({examples}) {are} no probabilities, and {why}. Say what they are: "
        f"{', or '.join(f'{command} {way}' for way in ways)}."
    )
