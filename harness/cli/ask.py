"""``prmcal ask``: answer a new question, or those of a file, with a calibrated PRM."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.db.text.formats import amount, counted, interval, number
from prmcal.errors import DataError, PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import WORDS, argument, option
from prmcal.harness.storage.store import content_key, storage_errors, write_atomically
from prmcal.harness.terminal import cut, terminal_width, text_table, wrapped
from prmcal.registry.messages import reading
from prmcal.steps import split_steps

if TYPE_CHECKING:
    from prmcal.db.statistics.shift import ShiftAlarm
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.inference.results import PrefixRewards, Solution


def ask(
    run: options.SourceArgument,
    question: Annotated[str | None, argument("QUESTION", WORDS["ask"]["question"])] = None,
    questions: Annotated[Path | None, option("FILE", WORDS["ask"]["questions"])] = None,
    out: Annotated[Path | None, option("FILE", WORDS["ask"]["out"])] = None,
    cell: options.CellOption = None,
    llm: options.LLMOption = None,
    prm: options.PRMOption = None,
    calibrator: options.CalibratorOption = None,
    strategy: Annotated[str | None, option("NAME", WORDS["ask"]["strategy"])] = None,
    target: Annotated[float | None, option("C", WORDS["ask"]["target"])] = None,
    level: Annotated[float | None, option("BETA", WORDS["ask"]["level"])] = None,
    max_samples: Annotated[int | None, option("N", WORDS["ask"]["max_samples"], min=1)] = None,
    mean_samples: Annotated[float | None, option("N", WORDS["ask"]["mean_samples"], min=1)] = None,
    abstain_below: Annotated[float | None, option("P", WORDS["ask"]["abstain_below"])] = None,
    seed: Annotated[int, option("SEED", WORDS["ask"]["seed"])] = 0,
    output_format: Annotated[str, option("FORMAT", WORDS["ask"]["output_format"], "--format")] = "text",
) -> None:
    """Answer new questions with a calibrated PRM.

    It draws solutions until the strategy needs no more, and prints the answer with the probability that it is right.
    Questions unlike the calibration questions are reported as such.
    """
    options.one_of("--format", output_format, ("text", "json"))
    if questions is not None and question is not None:
        raise PrmcalError("Give one question or --questions FILE, not both.")
    if (questions is None) != (out is None):
        raise PrmcalError(
            "--questions FILE needs --out FILE, where the answers are written, and --out belongs to --questions."
        )
    given: dict[str, Any] = {
        "strategy": strategy,
        "target": target,
        "level": level,
        "max_samples": max_samples,
        "mean_samples": mean_samples,
        "abstain_below": abstain_below,
        "seed": seed,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    if questions is not None and out is not None:
        with loaded(run, cell, llm, prm, calibrator) as answering:
            rows = answer_file(answering, questions, out, settings)
            alarm = answering.new_alarm()
        typer.echo(summary(rows, alarm), err=True)
        if any(row.get("error") for row in rows):
            raise typer.Exit(ExitCode.FAILED_CELLS)
        return
    text = _read_standard_input() if question in (None, "-") else str(question)
    # This halves the time. Most of it is saved in imports and at the end of the process, as the models are not closed.
    gc.disable()
    try:
        answering = loaded(run, cell, llm, prm, calibrator)
        typer.echo(_rendered(answering, answering.solve(text, **settings), output_format), nl=False)
    finally:
        gc.freeze()
        gc.enable()


def loaded(
    source: str, cell: str | None, llm: str | None, prm: str | None, calibrator: str | None
) -> CalibratedPRM:
    """Load the calibrated PRM that the options of a command name."""
    # Without it, threads of torch that wait for work spin, which makes a busy machine several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from prmcal.harness.inference.loading import load

    return load(source, cell, llm=llm, prm=prm, calibrator=calibrator)


def _read_standard_input() -> str:
    if sys.stdin.isatty():
        typer.echo("Type a question, and end it with Ctrl-D.", err=True)
    with reading("Standard input cannot be read", kind=PrmcalError):
        return sys.stdin.read()


def _rendered(prm: CalibratedPRM, solution: Solution, output_format: str) -> str:
    """Return the answer first, then how sure it is, what it cost, and its steps."""
    if output_format == "json":
        content = {"cell": prm.name, "chosen_by": prm.chosen_by, **solution.as_data()}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    unknown = "I don't know." if solution.abstained else "No answer."
    spent = solution.spent
    facts = {
        "Probability": _probability(solution),
        "Spent": f"{counted(spent.samples, 'sample')}, {amount(spent.generated_tokens)} generated tokens, "
        f"{amount(spent.prm_tokens)} tokens of the PRM, {spent.seconds:.1f} s",
        "Why": solution.reason,
        "Beware": solution.familiarity.message,
        "Models": f"{prm.prm} calibrated by {prm.calibrator}, for {prm.llm}. {prm.chosen_by}".rstrip(),
    }
    lines = [unknown if solution.answer is None else cut(solution.answer, terminal_width()), ""]
    lines += [wrapped(f"{name:13}{text}", hanging=" " * 13) for name, text in facts.items() if text]
    if solution.rewards is not None and solution.chosen is not None:
        lines += ["", _steps(solution.rewards, solution.trajectories[solution.chosen].text)]
    return "\n".join(lines) + "\n"


def _probability(solution: Solution) -> str:
    if solution.probability is None or solution.chosen is None:
        return "There is no answer to judge."
    known = number(solution.probability)
    if solution.low is not None and solution.high is not None:
        known += f" {interval(solution.low, solution.high)}"
    answer = cut(solution.trajectories[solution.chosen].answer or "", 40)
    what = f"the answer '{answer}'" if solution.abstained else "this"
    basis = "from all scores and votes"
    if solution.basis == "reward":
        basis = "from the calibrated reward of the last step before the answer"
    return f"{known} that {what} is right, {basis}"


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


Row = dict[str, Any]
"""A line of the output: `line`, `id`, `question` and `reference`, the solution, `key`, and a mark of the `settings`."""


def answer_file(prm: CalibratedPRM, path: Path, out: Path, settings: Mapping[str, Any]) -> list[Row]:
    """Answer the questions of a file, and show the progress on standard error if that is a terminal.

    Each answer is written as soon as it is there. Questions that have an answer in `out` are not answered again. In the
    end the lines of `out` are in the order of the questions, and are returned.

    `path` has JSON lines: objects with a `question` and perhaps an `id` and the right `answer`, or texts. A line that
    is no question has an error. Empty lines are left out. `settings` are those of :meth:`CalibratedPRM.solve_many`.

    Raises a DataError or a StorageError if `path` cannot be read, `out` cannot be written, or it holds something else
    or answers with other settings.
    """
    mark = content_key([prm.name, prm.llm, prm.prm, prm.calibrator, dict(settings)])
    asked = _read_questions(path)
    rows = {key: row for key, row in _finished(out, mark).items() if key in asked and not row.get("error")}
    new = [row for key, row in asked.items() if key not in rows]
    valid = [row for row in new if "error" not in row]
    bar = typer.progressbar(
        length=len(asked), label="Questions", show_pos=True, hidden=not sys.stderr.isatty(), file=sys.stderr
    )
    with storage_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        # What was cut off in the middle of a line is dropped.
        write_atomically(out, _lines(rows.values()))
        with out.open("a", encoding="utf-8") as file, bar:
            bar.update(len(rows))

            def keep(row: Row, found: Mapping[str, Any]) -> None:
                rows[row["key"]] = {**row, **found, "settings": mark}
                file.write(_lines([rows[row["key"]]]))
                file.flush()
                bar.update(1)

            for row in new:
                if "error" in row:
                    keep(row, {"answer": None})
            if valid:
                prm.solve_many(
                    [row["question"] for row in valid],
                    [row["reference"] for row in valid],
                    on_solution=lambda place, solution: keep(valid[place], solution.as_data()),
                    **settings,
                )
        ordered = [rows[key] for key in asked]
        write_atomically(out, _lines(ordered))
    return ordered


def _read_questions(path: Path) -> dict[str, Row]:
    """Return the questions by their keys, by which they are known when the command continues."""
    with reading(f"{path} cannot be read", "Give a file with JSON lines."):
        content = path.read_bytes().decode()
    found = {}
    for line, text in enumerate(content.split("\n"), start=1):
        if text.strip():
            row: Row = {"line": line, "id": None, "question": "", "reference": None, **_read_line(text)}
            key = content_key([line, row["question"]])
            found[key] = {**row, "key": key}
    if not found:
        raise DataError(f'{path} has no questions. Write one in each line, such as {{"question": "1+1?"}}.')
    return found


def _read_line(text: str) -> Row:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {"error": f"It is no JSON: {error}."}
    if isinstance(record, str):
        return {"question": record}
    if not isinstance(record, dict) or not isinstance(record.get("question"), str):
        return {"error": 'It has no \'question\'. Write {"question": "..."}, or a text.'}
    own, right = record.get("id"), record.get("answer")
    return {
        "question": record["question"],
        "id": None if own is None else str(own),
        "reference": None if right is None else str(right),
    }


def _finished(out: Path, mark: str) -> dict[str, Row]:
    """Return the rows of a file that an earlier command wrote, by their keys."""
    if not out.exists():
        return {}
    with reading(f"{out} cannot be read", "Choose another --out."):
        # A line without an end was cut off when the command was killed.
        written, _, _ = out.read_bytes().decode(errors="replace").rpartition("\n")
    found: dict[str, Row] = {}
    for line in filter(None, written.split("\n")):
        try:
            row = json.loads(line)
            key, settings = row["key"], row["settings"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{out} does not hold answers of `prmcal ask`. Choose another --out.") from error
        if settings != mark:
            raise DataError(
                f"{out} has answers of another cell or with other settings. Choose another --out, or delete it."
            )
        found[key] = row
    return found


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def summary(rows: Sequence[Row], alarm: ShiftAlarm | None) -> str:
    """Return the outcome of the questions in one sentence, the first errors with their lines, and the alarm.

    `alarm` has seen no question yet. It takes those that are answered.
    """
    failed = [row for row in rows if row.get("error")]
    solved = [row for row in rows if not row.get("error")]
    answered = [row for row in solved if row["answer"] is not None]
    parts = [counted(len(answered), "answer")]
    if len(answered) < len(solved):
        parts.append(f"{len(solved) - len(answered)} without an answer")
    if failed:
        parts.append(f"{len(failed)} failed")
    text = f"{counted(len(rows), 'question')}: {', '.join(parts)}"
    if solved:
        text += f"; {fmean(row['spent']['samples'] for row in solved):.1f} samples a question"
    if answered:
        text += f"; mean probability {number(fmean(row['probability'] or 0.0 for row in answered))}"
    if unlike := sum(not row["familiarity"]["familiar"] for row in solved):
        text += f"; {unlike} unlike the calibration questions"
    if graded := [row["correct"] for row in answered if row.get("correct") is not None]:
        text += f"; {sum(graded)} of {counted(len(graded), 'graded answer')} right"
    if alarm is not None:
        alarm.add_all([row["familiarity"].get("values", {}) for row in solved])
        if alarm.message:
            text += f".\n{alarm.message.rstrip('.')}"
    return "\n".join([f"{text}.", *(f"Line {row['line']}: {row['error']}" for row in failed[:3])])
