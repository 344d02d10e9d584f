"""Separate audits of several LLMs or data sets in one file, and comparisons of several scores of the same solutions."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
from scipy.special import ndtr, stdtr

from prmcal.arrays import Floats
from prmcal.db.statistics.paired import holm
from prmcal.db.text.formats import counted, number
from prmcal.db.text.overview import quantity
from prmcal.errors import DataError
from prmcal.harness.audit.choices import best_of_all
from prmcal.harness.audit.estimates import LEAST_MIXED, Measured, Number, areas_within, mean_of_questions
from prmcal.harness.audit.scored import ScoredSolutions
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.reading.records import Record
from prmcal.registry.reading.roles import DATASETS, MAKERS, SCORERS, SOLUTION_LISTS
from prmcal.registry.reading.shapes import SHAPES

_MOST = 50
_SURE = 0.05


def by_maker(records: Sequence[Record]) -> Iterator[Record]:
    """Split each record by the LLM or data set of its solutions: yield a record for each of these."""
    for place, content in records:
        values = content if isinstance(content, Mapping) else {}
        list_name = next((name for name in SOLUTION_LISTS if isinstance(values.get(name), list)), "")
        solutions = [solution if isinstance(solution, Mapping) else {} for solution in values.get(list_name, ())]
        names = (name for name in (*MAKERS, *SCORERS, *DATASETS) if name not in values)
        field = next((name for name in names if solutions and all(name in solution for solution in solutions)), None)
        if field is None:
            yield place, content
            continue
        for maker in dict.fromkeys(str(solution[field]) for solution in solutions):
            of_maker = [str(solution[field]) == maker for solution in solutions]
            lists = {name: value for name, value in values.items() if isinstance(value, list)}
            aligned = {name: value for name, value in lists.items() if len(value) == len(of_maker)}
            of_lists = {name: list(compress(value, of_maker)) for name, value in aligned.items()}
            yield place, {**values, **of_lists, field: maker}


def makers_of(records: Sequence[Record]) -> list[str]:
    """Return the fields of the LLM, of the scorer and of the data set that have several values.

    Published shapes have no such field. Capital letters do not matter.
    """
    contents = [content for _, content in records if isinstance(content, Mapping)]
    if not contents or any(shape.fits(contents[0]) for shape in SHAPES):
        return []
    values = {name: len({str(content.get(name)) for content in contents}) for name in contents[0]}
    several = [name for name, count in values.items() if 2 <= count <= _MOST]
    kinds = ([name for name in several if str(name).lower() in names] for names in (MAKERS, SCORERS, DATASETS))
    return [names[0] for names in kinds if names]


def split(records: Sequence[Record], fields: Sequence[str], source: str) -> dict[str, list[Record]]:
    """Return the records of each group, by the values of fields. Raises a DataError if no record has a field."""
    groups: dict[str, list[Record]] = {}
    for place, content in records:
        values = content if isinstance(content, Mapping) else {}
        if absent := [name for name in fields if name not in values]:
            raise DataError(f"{source}, {place}: there is no field '{absent[0]}' for --by.")
        groups.setdefault(", ".join(str(values[name]) for name in fields), []).append((place, content))
    return groups


def overview(groups: Mapping[str, Measured], fields: Sequence[str], width: int | None = None) -> str:
    """Return a table with a row for each group, and its legend."""
    errors = [values.signed_error for values in groups.values()]
    p_values = holm([_p_of(error) for error in errors])
    rows = [
        [
            name,
            f"{error.questions:,}",
            quantity(error, 2, signed=True),
            "too few" if values.order is None or values.order.questions < LEAST_MIXED else quantity(values.order, 2),
            values.chosen if values.is_repaired else "",
        ]
        for (name, values), error in zip(groups.items(), errors, strict=True)
    ]
    sure = [name for name, p_value in zip(groups, p_values, strict=True) if p_value < _SURE]
    by = " and ".join(f"'{field}'" for field in fields)
    first_group = next(iter(groups)).split(", ")
    only = " ".join(f"--only {field}={value}" for field, value in zip(fields, first_group, strict=False))
    lines = [
        f"The file has {counted(len(groups), 'group')} by {by}, which are not one pool. Each is audited by itself.",
        f"Too high or too low (Holm's test over the groups): {', '.join(sure)}."
        if sure
        else "No group is clearly too high or too low (Holm's test over the groups).",
    ]
    table = text_table([", ".join(fields), "questions", "score - label", "AUC within", "repaired by"], rows, width)
    text = "\n".join(wrapped(line, width, hanging="  ") for line in lines)
    return f"{text}\n\n{table}\n\n{wrapped(f'All of one group: {only}', width, hanging='  ')}"


def _p_of(error: Number) -> float:
    """Return the two-sided p-value of a mean that is 0, by its interval."""
    half = (error.high - error.low) / 2
    return float(2 * ndtr(-abs(error.value) / (half / 1.96))) if half > 0 else 1.0


def compared_scores(audits: Mapping[str, tuple[ScoredSolutions, Measured]], width: int | None = None) -> str:
    """Return a table of several scores of the same solutions, with paired tests of each against the first."""
    rows, tests = [], []
    first_name, *other_names = audits
    values = {name: list(_per_question(scored)) for name, (scored, _) in audits.items()}
    for name, (_, measured) in audits.items():
        means = [quantity(mean_of_questions(numbers), 2) if len(numbers) > 1 else "" for _, numbers in values[name]]
        rows.append([name, quantity(measured.signed_error, 2, signed=True), number(measured.brier.value), *means])
    for name in other_names:
        for (kind, numbers), (_, base) in zip(values[name], values[first_name], strict=True):
            if len(numbers) == len(base) > 1:
                tests.append((name, kind, numbers - base))
    adjusted: Floats = holm([_paired_p(difference) for *_, difference in tests]) if tests else np.zeros(0)
    lines = [
        f"{name} - {first_name}, {kind}: {quantity(mean_of_questions(difference, -1.0), signed=True)}, "
        f"n = {len(difference):,}, p = {p_value:.2g}."
        for (name, kind, difference), p_value in zip(tests, adjusted, strict=True)
    ]
    kinds = [kind for kind, _ in values[first_name]]
    table = text_table(["score", "score - label", "Brier", *kinds], rows, width)
    heading = "Paired over questions, with Holm's correction of p:" if lines else "Too few questions to compare them."
    return "\n".join([table, "", heading, *(wrapped(line, width, hanging="  ") for line in lines)])


def _per_question(scored: ScoredSolutions) -> Iterator[tuple[str, Floats]]:
    """Yield the AUC of each question with both outcomes, and the accuracy of each question's best-scored solution."""
    areas = areas_within(scored.solutions)
    yield "AUC within", areas if len(areas) >= LEAST_MIXED else np.zeros(0)
    if (accuracies := best_of_all(scored)) is not None:
        samples, _, best_accuracy = accuracies
        yield f"best-of-{samples}", best_accuracy


def _paired_p(difference: Floats) -> float:
    """Return the two-sided p-value of Student's paired test."""
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    if error == 0:
        return 1.0
    return float(2 * stdtr(len(difference) - 1, -abs(difference.mean()) / error))
