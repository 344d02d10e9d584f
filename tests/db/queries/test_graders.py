"""What the board says of graders that stand beside the first one."""

from __future__ import annotations

from prmcal.db.tables import HealthCheck
from prmcal.db.text.health import summaries


def finding(grader: str, count: int, split: str) -> HealthCheck:
    return HealthCheck(
        check=f"grader: {grader}",
        dataset="math",
        split=split,
        llm="weak",
        prm="",
        count=count,
        total=10,
        severity="notable",
        examples='["25 for 24"]' if count else "[]",
    )


def test_each_grader_has_its_own_line_with_the_place_where_it_differs_most() -> None:
    checks = [
        finding(name, count, split)
        for name, counts in (("exact", (0, 0)), ("judge", (2, 7)))
        for count, split in zip(counts, ("calibration", "test"), strict=True)
    ]
    (exact, no, _), (judge, most, sentence) = summaries(checks)
    assert (exact, no, judge, most) == ("Grader 'exact' differs", "0%", "Grader 'judge' differs", "70%")
    assert "'judge' differs on 7 of 10 solutions from the first grader, which decides" in sentence
    assert '"25 for 24"' in sentence
