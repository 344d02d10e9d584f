"""Write how often labelled pairs of answers are wrongly refused and wrongly accepted into "How answers are compared".

    python -m benchmarks.documents.pairs

The invented pairs are in ``tests/registry/grading/pairs.csv``. The intervals are those of Clopper and Pearson.
"""

from __future__ import annotations

from pathlib import Path

from scipy.stats import binomtest

from benchmarks.statistics import by_math_verify, by_prmcal, labelled_pairs
from benchmarks.tables import write_table

_PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "answers.md"


def share(wrong: list[bool]) -> str:
    """Return a share in percent with its interval."""
    ends = binomtest(sum(wrong), len(wrong)).proportion_ci()
    return f"{sum(wrong) / len(wrong):.1%} [{ends.low:.1%}, {ends.high:.1%}]"


def main() -> None:
    """Write the table."""
    pairs, rows = labelled_pairs(), []
    for name, accepted in (("math-verify alone", by_math_verify(pairs)), ("prmcal", by_prmcal(pairs))):
        labelled = list(zip(accepted, (pair["label"] == "equal" for pair in pairs), strict=True))
        refused = [not is_accepted for is_accepted, is_equal in labelled if is_equal]
        others = [is_accepted for is_accepted, is_equal in labelled if not is_equal]
        rows.append(f"| {name} | {share(refused)} | {share(others)} |")
    head = f"| | wrongly refused of {len(refused):,} | wrongly accepted of {len(others):,} |\n| --- | --- | --- |"
    write_table(_PAGE, "pairs", "\n".join([head, *rows]))


if __name__ == "__main__":
    main()
