"""Commands for files of solutions: audit, apply, train-prm and pools."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.errors import DataError, PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import argument, names_by_kind, one_of, option
from prmcal.harness.terminal import text_table, wrapped

_FILES = "Scored solutions, or the folder of a run. The last of several files can have the scores for the others."
_SCALE = (
    "Meaning of the scores: probability, percent, grade, a range such as 1-7, logit, or rank, which reads their order "
    "alone."
)
_BY = "Make an audit for each value of this field. Default: one for each LLM or data set."
_AGAINST = "An earlier audit. An alarm says if its questions were of another kind."
_POOLS = "Pools to list. Default: the shipped ones."
_SCORED_FILES = "Files with scores of the audited scorer, in any form that an audit reads. Default: the audited files."


def audit(
    files: Annotated[list[Path], argument("FILE...", _FILES)],
    question: options.QuestionFieldOption = None,
    score: Annotated[
        list[str] | None, option("FIELD", "The field with the scores; repeatable, to compare several.")
    ] = None,
    label: options.LabelFieldOption = None,
    answer: Annotated[
        str | None, option("FIELD", "The field with the answer of a solution, which is graded against --truth.")
    ] = None,
    truth: Annotated[str | None, option("FIELD", "The field with the right answer.")] = None,
    scale: Annotated[str | None, option("SCALE", _SCALE, "--as")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="A smaller score is better.")] = False,
    by: Annotated[str | None, option("FIELD", _BY)] = None,
    only: options.OnlyRecordsOption = None,
    against: Annotated[Path | None, option("DIR", _AGAINST)] = None,
    out: Annotated[
        Path | None, option("DIR", "Write report.html, its diagrams, audit.json and the calibrator here.")
    ] = None,
) -> None:
    """Say what the scores in a file are worth.

    It needs no grid, no model and no GPU. The first lines are the verdict, and the last ones say how the file was read.
    """
    from prmcal.registry.reading.scales import GRADES, NAMES

    if scale is not None and not GRADES.fullmatch(scale):
        one_of("--as", scale, (*NAMES, "1-7"))
    from prmcal.harness.audit.audit import audit as audit_files
    from prmcal.harness.audit.groups import compared_scores
    from prmcal.registry.reading.fields import Fields

    audits = {}
    names: list[str | None] = [*(score or [])]
    for name in names or [None]:
        fields = Fields(question, name, label, scale, answer=answer, truth=truth, reverse=reverse)
        audits[str(name)] = audit_files(files, fields, names_by_kind(only), against, by)
    if len(audits) > 1:
        typer.echo(compared_scores({name: (audited.scored, audited.measured) for name, audited in audits.items()}))
        return
    (audited,) = audits.values()
    typer.echo(str(audited))
    if out is not None:
        audited.save(out)
        written = f"a folder for each group into {out}" if audited.groups else out / "report.html"
        folder = shlex.quote(str(out / "GROUP" if audited.groups else out))
        typer.echo(f"\nWrote {written}. To calibrate other scores: prmcal apply {folder} FILE")


def apply(
    directory: Annotated[Path, argument("DIR", "What `prmcal audit --out DIR` has written.")],
    files: Annotated[list[Path] | None, argument("[FILE...]", _SCORED_FILES)] = None,
    score: Annotated[str | None, option("FIELD", "The field with the scores. Default: the field of the audit.")] = None,
    out: Annotated[Path | None, option("FILE", "The new file. Default: the terminal.")] = None,
) -> None:
    """Add calibrated scores to the records of a file.

    The result is a file of JSON lines. The new field `calibrated` stands beside the scores, also in a list of
    solutions.
    """
    from prmcal.harness.audit.saved import load_calibrator
    from prmcal.registry.reading.files import read_files
    from prmcal.registry.reading.roles import SCORES
    from prmcal.registry.reading.shapes import with_share
    from prmcal.registry.reading.values import right_class, score_of

    calibrator = load_calibrator(directory)
    files = files or [Path(name) for name in calibrator.files]
    file_names, field = ", ".join(map(str, files)), score or calibrator.field

    def calibrated(value: Any) -> Any:
        if isinstance(value, list):
            return [calibrated(nested_value) for nested_value in value]
        number = score_of(value)
        return None if number is None else float(calibrator.predict(number))

    def scored_parts(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the parts of a record that have scores, and the name of the field."""
        if isinstance(value, list):
            for nested_value in value:
                yield from scored_parts(nested_value)
        elif isinstance(value, dict):
            name = field or next((name for name in SCORES if name in value), None)
            if name is not None and name in value and not isinstance(value[name], dict):
                yield value, name
            else:
                yield from scored_parts(list(value.values()))

    rows = ((place, with_share(row, field or "") if isinstance(row, dict) else row) for place, row in read_files(files))
    records = [(place, row, list(scored_parts(row)) if isinstance(row, dict) else []) for place, row in rows]
    values = [part[name] for _, _, parts in records for part, name in parts]
    is_classes = bool(values) and all(right_class(value) for value in values if value is not None)
    lines = []
    for place, record, parts in records:
        if not parts:
            audited = f", and none is '{field}', which the audit has read" if field and not score else ""
            raise DataError(f"{file_names}, {place}: no field has scores{audited}. Name it: --score FIELD.")
        for part, name in parts:
            try:
                part["calibrated"] = calibrated(right_class(part[name]) if is_classes else part[name])
            except (TypeError, ValueError) as error:
                raise DataError(f"{file_names}, {place}: '{name}' cannot be calibrated: {error}.") from error
        lines.append(json.dumps(record, ensure_ascii=False))
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        typer.echo(text, nl=False)
        return
    from prmcal.harness.storage.store import write_atomically

    write_atomically(out, text)
    typer.echo(f"Wrote {len(lines):,} records to {out}.", err=True)


def train_prm(
    source: Annotated[
        Path, argument("RUN|FILE", "The folder of a run, or a file that an audit reads. It needs no scores.")
    ],
    model: Annotated[str, option("CHECKPOINT", "A language model: a folder, a GGUF file or a hub id.")],
    out: Annotated[Path, option("FOLDER", "The new folder of the checkpoint.")],
    question: options.QuestionFieldOption = None,
    label: options.LabelFieldOption = None,
    only: options.OnlyRecordsOption = None,
) -> None:
    """Train a PRM: fit a value head to a language model.

    It learns from success rates, marks of steps or outcomes. Of a run it reads by default the calibration questions. No
    checkpoint is written if, on held-out questions, its AUC within questions is below 0.7, or best-of-n is worse than
    one sample.
    """
    if out.exists():
        raise PrmcalError(f"{out} already exists. Choose a new folder for --out.")
    from prmcal.db.text.overview import quantity
    from prmcal.harness.audit.training import HeadlessPRM, fit_value_head, grid_entry, labelled, write_checkpoint
    from prmcal.registry.reading.fields import Fields

    data = labelled(source, Fields(question, label=label), names_by_kind(only))
    prm = HeadlessPRM.of(model)
    typer.echo(f"Reading {len(data.solutions):,} solutions with {model}.", err=True)
    head = fit_value_head(data, prm)
    lines = [*head.reading, f"The penalty is {head.penalty:g}. On held-out questions:"]
    lines += [f"  {name}: {quantity(figure)}" for name, figure in head.figures.items()]
    typer.echo("\n".join(wrapped(line, hanging="  ") for line in lines))
    if head.refusal:
        typer.echo(wrapped(f"No checkpoint was written. {head.refusal}"), err=True)
        raise typer.Exit(ExitCode.FAILED_CHECKS)
    write_checkpoint(head, prm, out)
    typer.echo(f"\nWrote {out}, with a card, README.md. In a grid:\n\n{grid_entry(prm, out)}", nl=False)


def pools(files: Annotated[list[Path] | None, argument("[FILE...]", _POOLS)] = None) -> None:
    """List pools of recorded samples.

    A shipped pool is the file pool:NAME of `prmcal audit` and of the plugin `recorded`. `prmcal run pools` compares all
    strategies and calibrators on all of them.
    """
    typer.echo("\n\n".join(_pool_tables(files)))


def _pool_tables(files: list[Path] | None) -> list[str]:
    """Return a table of pools with descriptions, in at most 80 columns if names are short."""
    from prmcal.registry.reading.pools import read_pool, shipped_pools

    paths_by_name = {path.stem: path for path in files} if files else shipped_pools()
    rows, notes = [], []
    for name, path in paths_by_name.items():
        card, table = read_pool(path)
        for place, (llm, samples) in enumerate(table.groupby("llm", sort=False)):
            questions = samples["question"].nunique()
            size = f"{questions}x{len(samples) // questions}"
            success_rate = f"{samples['correct'].mean():.3f}"
            rows.append(["" if place else name, str(llm), ", ".join(card.scores), size, success_rate])
        words = (card.title, f"Licence: {card.licence}. Source: {card.source}.", card.correctness, card.check)
        notes.append(wrapped(f"{name}: {' '.join(word for word in words if word)}", hanging="  "))
    return [text_table(["pool", "LLM", "scores", "size", "pass@1"], rows), *notes]
