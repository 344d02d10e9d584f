"""Questions from a file, with their answers in another. An interrupted command continues where it ended."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.text.formats import counted, number
from prmcal.errors import DataError
from prmcal.harness.storage.store import content_key, storage_errors, write_atomically

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.inference.results import Solution


_SHOWN = 3


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Do not look for garbage inside, nor ever among what was created inside: the large libraries stay loaded.

    This halves the time that one question takes. Most of it is saved in imports and at the end of the process.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if before:
            gc.enable()


@dataclass(frozen=True)
class Named:
    """The calibrated PRM that a command names: the arguments of :func:`prmcal.load`."""

    source: str
    cell: str | None = None
    llm: str | None = None
    prm: str | None = None
    calibrator: str | None = None

    def load(self) -> CalibratedPRM:
        """Load it."""
        # Without it, threads of torch that wait for work spin, which makes a busy machine several times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        from prmcal.harness.inference.loading import load

        return load(self.source, self.cell, llm=self.llm, prm=self.prm, calibrator=self.calibrator)


@dataclass(frozen=True)
class _Asked:
    """A line of the file.

    Attributes
    ----------
    line : int
        From 1.
    question : str
    id : str or None
    error : str
        Why the line is not a question; empty if it is one.
    """

    line: int
    question: str
    id: str | None = None
    error: str = ""

    @property
    def key(self) -> str:
        """Its name when the command continues."""
        return content_key([self.line, self.question])


@dataclass(frozen=True)
class Summary:
    """The outcome of the questions.

    Attributes
    ----------
    questions, answered, unknown, failed : int
        All questions; those with an answer, without one, and with an error.
    unfamiliar : int
        Questions unlike the calibration questions.
    samples, probability : float
        Mean number of samples of a question, and mean probability of the answers.
    errors : tuple of str
        The first errors, each with its line.
    """

    questions: int
    answered: int
    unknown: int
    failed: int
    unfamiliar: int
    samples: float
    probability: float
    errors: tuple[str, ...]

    def text(self) -> str:
        """Return it in one sentence."""
        parts = [counted(self.answered, "answer")]
        parts += [f"{self.unknown} without an answer"] if self.unknown else []
        parts += [f"{self.failed} failed"] if self.failed else []
        text = f"{counted(self.questions, 'question')}: {', '.join(parts)}; {self.samples:.1f} samples a question"
        if self.answered:
            text += f"; mean probability {number(self.probability)}"
        if self.unfamiliar:
            text += f"; {self.unfamiliar} unlike the calibration questions"
        return f"{text}."


def _read_questions(path: Path) -> list[_Asked]:
    try:
        content = path.read_bytes().decode()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Give a file with JSON lines.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text. Give a file with JSON lines.") from error
    lines = enumerate(content.split("\n"), start=1)
    found = [_read_line(number, line) for number, line in lines if line.strip()]
    if not found:
        raise DataError(f'{path} has no questions. Write one in each line, such as {{"question": "1+1?"}}.')
    return found


def _read_line(line: int, text: str) -> _Asked:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _Asked(line, "", error=f"Line {line} is no JSON: {error}.")
    if isinstance(record, str):
        return _Asked(line, record)
    question = record.get("question") if isinstance(record, dict) else None
    if not isinstance(question, str):
        shape = '{"question": "..."}'
        return _Asked(line, "", error=f"Line {line} has no 'question'. Write {shape}, or a text.")
    own = record.get("id")
    return _Asked(line, question, None if own is None else str(own))


def answer_file(named: Named, path: Path, out: Path, settings: Mapping[str, Any]) -> Summary:
    """Answer the questions of a file, and show the progress on standard error if that is a terminal.

    Parameters
    ----------
    named : Named
    path : Path
        JSON lines: objects with a `question` and perhaps an `id`, or texts. A line that is no question has an error.
        Empty lines are left out.
    out : Path
        JSON lines in the order of the questions once all are answered. Questions that failed are tried again.
    settings : mapping
        The arguments of :meth:`CalibratedPRM.solve_many`.

    Raises
    ------
    DataError
        If `path` cannot be read, or `out` holds something else, or answers that were given with other settings.
    StorageError
        If `out` cannot be written.
    PrmcalError
        If there is no such calibrated PRM, or a setting is not possible.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    questions = _read_questions(path)
    with no_garbage_collection():
        loaded = named.load()
    console = Console(file=sys.stderr)
    columns = (BarColumn(), MofNCompleteColumn(), "questions", TimeRemainingColumn())
    bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    task = bar.add_task("questions", total=None)
    with loaded as prm, bar:
        return _answered(
            prm,
            questions,
            out,
            settings,
            lambda finished, total: bar.update(task, completed=finished, total=total),
        )


def _answered(
    prm: CalibratedPRM,
    questions: list[_Asked],
    out: Path,
    settings: Mapping[str, Any],
    on_progress: Callable[[int, int], None],
) -> Summary:
    """Answer the questions that have no answer in `out` yet, and write each as soon as it is there."""
    mark = content_key([prm.name, prm.llm, prm.prm, prm.calibrator, dict(settings)])
    rows = _finished(out, mark)
    wanted = {each.key: each for each in questions}
    rows = {key: row for key, row in rows.items() if key in wanted and not row.get("error")}
    waiting = [each for each in questions if each.key not in rows]
    with storage_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        # What was cut off in the middle of a line is dropped.
        write_atomically(out, "".join(_line(row) for row in rows.values()))
        with out.open("a", encoding="utf-8") as file:

            def keep(asked: _Asked, row: Mapping[str, Any]) -> None:
                rows[asked.key] = {
                    "line": asked.line,
                    "id": asked.id,
                    **row,
                    "settings": mark,
                    "key": asked.key,
                }
                file.write(_line(rows[asked.key]))
                file.flush()
                on_progress(len(rows), len(questions))

            valid = [each for each in waiting if not each.error]
            for each in waiting:
                if each.error:
                    keep(each, {"question": each.question, "answer": None, "error": each.error})

            def on_solution(place: int, solution: Solution) -> None:
                keep(valid[place], solution.as_data())

            if valid:
                prm.solve_many([each.question for each in valid], on_solution=on_solution, **settings)
        ordered = [rows[each.key] for each in questions]
        write_atomically(out, "".join(map(_line, ordered)))
    return _summary(ordered)


def _finished(out: Path, mark: str) -> dict[str, dict[str, Any]]:
    if not out.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    try:
        lines = out.read_bytes().decode(errors="replace").split("\n")
    except OSError as error:
        raise DataError(f"{out} cannot be read: {error.strerror}. Choose another --out.") from error
    for place, line in enumerate(lines):
        if not line:
            continue
        try:
            row = json.loads(line)
            key, settings = row["key"], row["settings"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if place == len(lines) - 1:  # It was cut off when the command was killed.
                continue
            raise DataError(f"{out} does not hold answers of `prmcal ask`. Choose another --out.") from error
        if settings != mark:
            raise DataError(
                f"{out} has answers of another cell or with other settings. Choose another --out, or delete it."
            )
        found[key] = row
    return found


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _summary(rows: list[dict[str, Any]]) -> Summary:
    def mean(values: Iterator[float]) -> float:
        kept = list(values)
        return sum(kept) / len(kept) if kept else 0.0

    answered = [row for row in rows if row.get("answer") is not None]
    failed = [row for row in rows if row.get("error")]
    solved = [row for row in rows if not row.get("error")]
    return Summary(
        questions=len(rows),
        answered=len(answered),
        unknown=len(solved) - len(answered),
        failed=len(failed),
        unfamiliar=sum(not row["familiarity"]["familiar"] for row in solved),
        samples=mean(float(row["spent"]["samples"]) for row in solved),
        probability=mean(float(row["probability"] or 0.0) for row in answered),
        errors=tuple(f"Line {row['line']}: {row['error']}" for row in failed[:_SHOWN]),
    )
