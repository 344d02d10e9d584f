"""The words of the health of a run: one sentence for each finding, and what to do about it."""

from collections.abc import Iterable

from prmcal.db.queries.health import READ, Finding
from prmcal.db.text.formats import counted, interval, number

_TITLES = {
    "unread": "Answers not read",
    "cut off": "Solutions cut off",
    "single step": "Single steps",
    "all right": "All right",
    "all wrong": "All wrong",
    "equal answers": "Equal answers",
    "undecided": "Nothing to rank",
    "no bare question": "No bare question",
    "constant rewards": "Constant rewards",
    "ranking": "Weak ranking",
    "best-of-N": "Best-of-N loses",
    "vote": "Plain vote wins",
}


def title(finding: Finding) -> str:
    """Return the name of a finding, in a few words."""
    return "Reversed rewards" if finding.check == "ranking" and _reversed(finding) else _TITLES[finding.check]


def figure(finding: Finding) -> str:
    """Return the share or the value of a finding."""
    if finding.value is None:
        # A share below 100% is not rounded to it.
        percent = 100 * finding.share
        return f"{min(percent, 99.9) if finding.count < finding.total else percent:.3g}%"
    return number(finding.value, 3, signed=finding.check != "ranking")


def sentence(finding: Finding) -> str:
    """Describe a finding with its numbers, and say what to do about it."""
    some = f"{finding.count:,} of {finding.total:,}"
    ends = "" if finding.low is None or finding.high is None else interval(finding.low, finding.high)
    value = (
        ""
        if finding.value is None
        else f"{number(finding.value, 3, signed=finding.check != 'ranking')} {ends}".rstrip()
    )
    examples = " and ".join(f'"{text}"' for text in finding.examples)
    texts = {
        "unread": f"no answer was found in {some} solutions.{f' They end like {examples}.' if examples else ''} "
        "An answer that is not read counts as wrong. Name the place of the answer with the argument 'answers'.",
        "cut off": f"{some} solutions end at the token limit. Raise 'sampling.max_tokens' in the grid file.",
        "single step": f"{some} solutions have a single step, so there is no process to reward. Check the argument "
        "'splitting'.",
        "all right": f"all solutions are right for {some} questions, which cannot be ranked.",
        "all wrong": f"all solutions are wrong for {some} questions, which cannot be ranked.",
        "equal answers": f"all solutions give the same answer for {some} questions.",
        "undecided": "no question has right and wrong solutions, so no score can rank them.",
        "no bare question": f"{some} questions have no reward of the bare question. IAS needs it to choose the "
        "number of samples.",
        "constant rewards": f"all whole solutions have the same reward for {some} questions.",
        "ranking": (
            f"within questions, wrong solutions have higher rewards than right ones: the area under the curve "
            f"is {value} over {counted(finding.count, 'question')}. Are the scores reversed?"
            if _reversed(finding)
            else f"within questions, rewards do not clearly tell right solutions from wrong ones: the area under the "
            f"curve is {value} over {counted(finding.count, 'question')}, where 0.5 is chance."
        ),
        "best-of-N": f"best-of-N is less accurate than one sample: {value}.",
        "vote": f"a plain majority vote is more accurate than best-of-N: {value}.",
    }
    return f"{_place(finding)}: {texts[finding.check]}"


def summaries(found: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return title, figure and sentence of each kind of finding, the most serious first.

    Of several findings of a kind, the worst one is described, and the others are counted.
    """
    kinds: dict[str, list[Finding]] = {}
    for each in found:
        kinds.setdefault(title(each), []).append(each)
    rows = []
    for name, own in kinds.items():
        worst = max(own, key=lambda each: each.share if each.value is None else -each.value)
        more = f" The same holds for {counted(len(own) - 1, 'other pairing')}." if len(own) > 1 else ""
        rows.append((name, figure(worst), sentence(worst) + more))
    return rows


def answers_read(checks: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return title, figure and sentence for each part of the data with answers that stood elsewhere than in a box.

    It needs all checks, also those that found nothing to mention.
    """
    parts: dict[str, list[Finding]] = {}
    for each in checks:
        if each.check.startswith(READ):
            parts.setdefault(_place(each), []).append(each)
    rows = []
    for place, own in parts.items():
        ways = {each.check.removeprefix(READ): each.count for each in own}
        total = own[0].total
        if set(ways) != {"boxed"}:
            counts = ", ".join(f"{count:,} {way}" for way, count in ways.items())
            figure_ = f"{sum(ways.values()):,} of {total:,}"
            rows.append(("Answers read", figure_, f"{place}: {counts}"))
    return rows


def misleading(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings over which no number may be printed as a headline."""
    return tuple(each for each in found if each.severity == "misleading")


def _place(finding: Finding) -> str:
    split = "" if finding.split == "test" else f" ({finding.split} split)"
    return f"on {finding.dataset}{split} with {finding.llm}{f' and {finding.prm}' if finding.prm else ''}"


def _reversed(finding: Finding) -> bool:
    return finding.high is not None and finding.high < 0.5
