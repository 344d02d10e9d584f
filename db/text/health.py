"""The words of the health of a run: one sentence for each finding, with advice."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from prmcal.db.queries.health import GRADER, READ
from prmcal.db.tables import HealthCheck
from prmcal.db.text.formats import counted, interval, number

with Path(__file__).with_name("health.csv").open(encoding="utf-8", newline="") as _file:
    _WORDS = {row["check"]: row for row in csv.DictReader(_file)}


def title(finding: HealthCheck) -> str:
    """Return the name of a finding, in a few words."""
    return _words(finding)["title"].format(grader=finding.check.removeprefix(GRADER))


def figure(finding: HealthCheck) -> str:
    """Return the share or the value of a finding."""
    if finding.value is None:
        # A share below 100% is not rounded to it.
        percent = 100 * finding.share
        return f"{min(percent, 99.9) if finding.count < finding.total else percent:.3g}%"
    return number(finding.value, 3, signed=finding.check != "ranking")


def sentence(finding: HealthCheck) -> str:
    """Describe a finding with its numbers, and give advice."""
    ends = "" if finding.low is None or finding.high is None else interval(finding.low, finding.high)
    examples = " and ".join(f'"{text}"' for text in json.loads(finding.examples))
    text = _words(finding)["sentence"].format(
        some=f"{finding.count:,} of {finding.total:,}",
        value=f"{figure(finding)} {ends}".rstrip(),
        questions=counted(finding.count, "question"),
        examples=f" They end like {examples}." if examples else "",
        grader=finding.check.removeprefix(GRADER),
        pairs=f" It does so on {examples}." if examples else "",
    )
    return f"{_setting_text(finding)}: {text}"


def summaries(findings: Iterable[HealthCheck]) -> list[tuple[str, str, str]]:
    """Return title, figure and sentence of each kind of finding, the most serious first.

    Of several findings of a kind, the worst one is described, and the others are counted.
    """
    kinds: dict[str, list[HealthCheck]] = {}
    for finding in findings:
        kinds.setdefault(title(finding), []).append(finding)
    rows = []
    for name, of_kind in kinds.items():
        worst = max(of_kind, key=lambda finding: finding.share if finding.value is None else -finding.value)
        more = f" The same holds for {counted(len(of_kind) - 1, 'other pairing')}." if len(of_kind) > 1 else ""
        rows.append((name, figure(worst), sentence(worst) + more))
    return rows


def answers_read(checks: Iterable[HealthCheck]) -> list[tuple[str, str, str]]:
    """Return title, figure and sentence for each part of the data with answers outside of boxes.

    The function needs all checks, also those without a finding.
    """
    by_setting: dict[str, list[HealthCheck]] = {}
    for check in checks:
        if check.check.startswith(READ):
            by_setting.setdefault(_setting_text(check), []).append(check)
    rows = []
    for setting, of_setting in by_setting.items():
        ways = {check.check.removeprefix(READ): check.count for check in of_setting}
        total = of_setting[0].total
        if set(ways) != {"boxed"}:
            counts = ", ".join(f"{count:,} {way}" for way, count in ways.items())
            name = "Right or wrong" if "given" in ways else "Answers read"
            rows.append((name, f"{sum(ways.values()):,} of {total:,}", f"{setting}: {counts}"))
    return rows


def misleading(findings: Iterable[HealthCheck]) -> tuple[HealthCheck, ...]:
    """Return the findings over which no number may be printed as a headline."""
    return tuple(finding for finding in findings if finding.severity == "misleading")


def _setting_text(finding: HealthCheck) -> str:
    split = "" if finding.split == "test" else f" ({finding.split} split)"
    return f"on {finding.dataset}{split} with {finding.llm}{f' and {finding.prm}' if finding.prm else ''}"


def _words(finding: HealthCheck) -> dict[str, str]:
    reversed_rewards = finding.check == "ranking" and finding.high is not None and finding.high < 0.5
    if finding.check.startswith(GRADER):
        return _WORDS["grader"]
    return _WORDS["reversed" if reversed_rewards else finding.check]
