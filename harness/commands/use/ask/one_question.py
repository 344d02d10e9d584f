"""A question and its answer on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prmcal.db.text.formats import amount, counted, interval, number
from prmcal.harness.commands.use.ask import Named, no_garbage_collection
from prmcal.harness.inference.basis.results import PrefixRewards, Solution
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.terminal.prose import cut, wrapped
from prmcal.harness.terminal.size import terminal_width
from prmcal.harness.terminal.tables import text_table
from prmcal.steps import split_steps

__all__ = ["answer"]

_HANGING = " " * 13


def answer(named: Named, question: str, settings: Mapping[str, Any], output_format: str) -> str:
    """Answer a question, and return what the command prints.

    Parameters
    ----------
    named : Named
    question : str
    settings : mapping
        The arguments of :meth:`CalibratedPRM.solve`.
    output_format : "text" or "json"

    Raises
    ------
    PrmcalError
        If there is no such calibrated PRM, a setting is not possible, or the question cannot be answered.
    """
    with no_garbage_collection():
        prm = named.load()
        # The process ends after it, which frees the models' memory faster than `close`.
        return _rendered(prm, prm.solve(question, **settings), output_format)


def _rendered(prm: CalibratedPRM, solution: Solution, output_format: str) -> str:
    """Return the answer first, then how sure it is, what it cost, and its steps."""
    if output_format == "json":
        content = {"cell": prm.name, "chosen_by": prm.chosen_by, **solution.as_data()}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    lines = [_answer_line(solution), ""]
    facts = [("Probability", _probability(solution)), ("Spent", _spent(solution)), ("Why", solution.reason)]
    if solution.familiarity.message:
        facts.append(("Beware", solution.familiarity.message))
    facts.append(
        ("Models", f"{prm.prm} calibrated by {prm.calibrator}, for {prm.llm}. {prm.chosen_by}".rstrip())
    )
    lines += [wrapped(f"{name:13}{text}", hanging=_HANGING) for name, text in facts]
    if solution.rewards is not None and solution.chosen is not None:
        lines += ["", _steps(solution.rewards, solution.trajectories[solution.chosen].text)]
    return "\n".join(lines) + "\n"


def _answer_line(solution: Solution) -> str:
    """Return the answer in one line, or "I don't know"."""
    if solution.answer is not None:
        return cut(solution.answer, terminal_width())
    return "I don't know." if solution.abstained else "No answer."


def _probability(solution: Solution) -> str:
    if solution.probability is None:
        return "There is no answer to judge."
    share = number(solution.probability)
    known = (
        "" if solution.low is None or solution.high is None else f" {interval(solution.low, solution.high)}"
    )
    given = solution.chosen is not None and solution.abstained
    what = f"that the answer '{_best(solution)}' is right" if given else "that this is right"
    basis = (
        ", from all scores and votes"
        if solution.basis == "posterior"
        else ", from the calibrated reward of the last step before the answer"
    )
    return f"{share}{known} {what}{basis}"


def _best(solution: Solution) -> str:
    assert solution.chosen is not None
    return cut(solution.trajectories[solution.chosen].answer or "", 40)


def _spent(solution: Solution) -> str:
    spent = solution.spent
    return (
        f"{counted(spent.samples, 'sample')}, {amount(spent.generated_tokens)} generated tokens, "
        f"{amount(spent.prm_tokens)} tokens of the PRM, {spent.seconds:.1f} s"
    )


def _steps(rewards: PrefixRewards, text: str) -> str:
    """Return the table of the steps with their rewards."""
    width = min(terminal_width(), 100)
    several = len(rewards.levels) > 1
    title = f"[{rewards.levels[0]:g}, {rewards.levels[-1]:g}]" if several else ""
    rows = []
    for t, step in enumerate(("(the bare question)", *split_steps(text))):
        point, quantiles, own = rewards.point[t], rewards.quantiles[t], rewards.uncalibrated[t]
        if rewards.terminal[t]:
            calibrated = "has the answer"
        elif point is None or quantiles is None:
            calibrated = "too long"
        else:
            calibrated = number(point) + (f" {interval(quantiles[0], quantiles[-1])}" if several else "")
        rows.append((cut(step, width - 40), "" if own is None else number(own), calibrated))
    return text_table(("Step", "Reward", f"Calibrated {title}".rstrip()), rows, width)
