"""Pools: recorded samples of many questions with their scores and what is right, without texts, in one Parquet file.

The file has a row for each sample, and a card in its metadata that says where it comes from. Every reader of this room
reads it, and ``pool:NAME`` stands for the path of a shipped one.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from scipy.stats import rankdata

from prmcal.errors import DataError
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.messages import reading, refuse_device, shown

if TYPE_CHECKING:
    import pandas as pd

_PREFIX = "pool:"
_CARD = b"prmcal.pool"
_FOLDER = Path(__file__).parents[1] / "pools"
_NEEDED = {
    "llm": "text",
    "question": "text",
    "solution": "number",
    "score": "number",
    "correct": "true or false",
}
_LONGEST_NAME = 100
_FEWEST = 30
_ROUNDED = 0.01


@dataclass(frozen=True)
class Card:
    """What a reader must know of a pool."""

    title: str
    """A sentence that says what was sampled and what scored it."""
    source: str
    """Where the samples come from, such as an address and a path."""
    licence: str
    """The licence of the source, as an SPDX identifier."""
    scores: Mapping[str, str]
    """The columns with scores and what each is. The first one is `score`."""
    scale: str = "logit"
    """``probability`` if the scores are in [0, 1], otherwise ``logit``: a larger one is better."""
    cost: str = ""
    """The unit of the column `cost`; empty without such a column."""
    hash: str = ""
    """The hash of the rows, which :func:`write_pool` computes."""


@dataclass(frozen=True)
class Summary:
    """The numbers of one LLM and one score of a pool."""

    llm: str
    score: str
    questions: int
    samples: int
    pass_at_1: float
    best_of_n: float
    """The accuracy of the sample with the best score among all samples of a question."""
    auc: float | None
    """The AUROC within questions; None if no question has both right and wrong samples."""
    votes: bool
    """True if the samples have answers to compare."""


def shipped_pools() -> dict[str, Path]:
    """Return the names of the shipped pools and their files, sorted by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.parquet"))}


def pool_path(path: str) -> str:
    """Return the file that ``pool:NAME`` stands for. Any other path is returned as it is.

    Raises a DataError if there is no pool of this name.
    """
    if not path.startswith(_PREFIX):
        return path
    known = shipped_pools()
    if (name := path.removeprefix(_PREFIX)) not in known:
        raise DataError(f"There is no pool '{name}'. The shipped pools are {', '.join(known)}.")
    return str(known[name])


def write_pool(path: Path, table: "pd.DataFrame", card: Card) -> None:
    """Write a pool with the hash of its rows.

    The columns are `llm`, `question` (a name and not its text), `solution` (a number within its question), `score`,
    `correct`, and perhaps `prediction` (a number: equal for equal answers of a question), `cost`, `level` and further
    numbers, such as the scores that the card names.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = pa.Table.from_pandas(table, preserve_index=False)
    content = json.dumps({**asdict(card), "hash": _hash(rows)}, ensure_ascii=False)
    parquet.write_table(rows.replace_schema_metadata({_CARD: content}), path, compression="zstd")


def read_pool(path: Path) -> tuple[Card, "pd.DataFrame"]:
    """Read a pool. Raises a DataError if it is no Parquet file, or has no valid card."""
    table = _table(path)
    return _card(path, table), table.to_pandas()


def _table(path: Path) -> Any:
    import pyarrow.parquet as parquet

    with reading(f"{path} is not a valid Parquet file"):
        refuse_device(path.expanduser())
        return parquet.read_table(io.BytesIO(path.expanduser().read_bytes()))


def _card(path: Path, table: Any) -> Card:
    text = (table.schema.metadata or {}).get(_CARD)
    if text is None:
        raise DataError(f"{path} has no card. Write it with prmcal.registry.reading.pools.write_pool.")
    try:
        return TypeAdapter(Card).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: the card is not valid: '{where}': {first['msg']}.") from error


def _hash(table: Any) -> str:
    from pyarrow import csv

    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def pool_of(rows: "pd.DataFrame", score: str = "score") -> tuple[list[str], Pool]:
    """Return the questions of one LLM's rows, sorted, and their samples, of which each question has equally many."""
    rows = rows.sort_values(["question", "solution"])
    questions = list(rows["question"].unique())

    def matrix(column: str) -> Any:
        return rows[column].to_numpy().reshape(len(questions), -1)

    answers = matrix("prediction").astype(np.int64) if "prediction" in rows else None
    return questions, Pool(matrix("correct"), answers, scores=matrix(score).astype(np.float64))


def summaries(path: Path) -> Iterator[Summary]:
    """Yield the numbers of each LLM and score of a pool."""
    from prmcal.registry.metrics.scores import AUROCWithin
    from prmcal.registry.strategies.best_of import best_of_n

    card, table = read_pool(path)
    for llm, rows in table.groupby("llm", sort=False):
        for score in card.scores:
            questions, pool = pool_of(rows, score)
            right = pool.correct.ravel().astype(np.int64)
            owner = np.repeat(np.arange(len(questions)), pool.size)
            ranks = rankdata(pool.scores) / pool.scores.size
            areas = AUROCWithin().measure(PrefixRows(ranks.ravel(), right, np.ones_like(right), owner))
            yield Summary(
                str(llm),
                score,
                pool.questions,
                pool.size,
                float(right.mean()),
                float(best_of_n(pool.scores, pool.correct, [pool.size]).mean()),
                None if areas is None else float(areas.sums.sum() / areas.counts.sum()),
                "prediction" in rows,
            )


def findings(path: Path) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong with a pool. Raises a DataError if it cannot be read at all."""
    table = _table(path)
    rows = table.to_pandas()
    if not len(rows):
        yield "It has no rows."
        return
    card = None
    try:
        card = _card(path, table)
    except DataError as error:
        yield str(error)
    if card is not None:
        yield from (
            f"The card has no {name}." for name in ("title", "source", "licence") if not getattr(card, name)
        )
        if card.hash != _hash(table):
            yield f"The hash of the card is '{card.hash}', but that of the rows is '{_hash(table)}'."
        if card.scale not in ("logit", "probability"):
            yield f"The scale must be logit or probability. Got '{card.scale}'."
        yield from (
            f"The card names the score '{name}', which is no column."
            for name in card.scores
            if name not in rows
        )
    kinds = {name: _kind(rows[name]) for name in rows}
    wrong = [f"'{name}' must be {kind}" for name, kind in _NEEDED.items() if kinds.get(name) != kind]
    if wrong:
        yield f"Columns: {'; '.join(wrong)}. It has {', '.join(f'{name} ({kind})' for name, kind in kinds.items())}."
    for name in rows:
        if (
            name not in ("llm", "question", "level")
            and kinds[name] != "number"
            and kinds[name] != "true or false"
        ):
            yield f"The column '{name}' has {kinds[name]}. A pool has numbers only, and no text of samples."
    if kinds.get("question") == "text":
        longest = max(rows["question"], key=len)
        if len(longest) > _LONGEST_NAME or "\n" in longest:
            yield f"A question is {shown(longest)}: name questions in at most {_LONGEST_NAME} characters."
    if not wrong:
        for llm, own in rows.groupby("llm", sort=False):
            yield from (f"{llm}: {each}" for each in _of_llm(own, card))


def _of_llm(rows: "pd.DataFrame", card: Card | None) -> Iterator[str]:
    counts = rows.groupby("question")["solution"].size()
    if len(counts) < _FEWEST:
        yield f"it has {len(counts)} questions. With fewer than {_FEWEST}, nothing can be told."
    if counts.nunique() > 1:
        yield f"questions have {counts.min()} to {counts.max()} samples. Give all as many as the fewest."
    elif counts.iloc[0] < 2:
        yield "each question has one sample. There is nothing to choose."
    if rows.duplicated(["question", "solution"]).any():
        yield "a number of a solution occurs twice in a question."
    if rows["correct"].nunique() < 2:
        yield f"all samples are {'right' if rows['correct'].iloc[0] else 'wrong'}."
    for name in [name for name in (card.scores if card else ("score",)) if name in rows]:
        values = rows[name].to_numpy(np.float64)
        if not np.isfinite(values).all():
            yield f"{int((~np.isfinite(values)).sum()):,} values of '{name}' are missing or infinite."
        elif np.ptp(values) == 0:
            yield f"all values of '{name}' are {values[0]:g}. They rank nothing."
        elif card and card.scale == "probability" and not (values.min() >= 0 and values.max() <= 1):
            yield f"'{name}' is in [{values.min():g}, {values.max():g}], and a probability is in [0, 1]."
    if "cost" in rows:
        cost = rows["cost"].to_numpy(np.float64)
        if not (np.isfinite(cost).all() and (cost >= 0).all()):
            yield "a 'cost' is missing, negative or infinite."
        elif (np.abs(cost - np.rint(cost)) > _ROUNDED * cost).any():
            yield "a 'cost' is no whole number. Count it in smaller units."


def _kind(column: "pd.Series[Any]") -> str:
    if column.dtype.kind in "iuf":
        return "number"
    if column.dtype.kind == "b":
        return "true or false"
    with suppress(AttributeError, TypeError):
        if column.map(lambda each: isinstance(each, str)).all():
            return "text"
    return "values of another type or missing ones"
