"""Pools: recorded samples of many questions with their scores and labels, without texts, in one Parquet file.

The file has a row for each sample, and a card in its metadata with its source. All readers of files read it, and
``pool:NAME`` stands for the path of a shipped pool.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from prmcal.errors import DataError
from prmcal.registry.messages import reading

if TYPE_CHECKING:
    import pandas as pd

_PREFIX = "pool:"
_CARD = b"prmcal.pool"
_FOLDER = Path(__file__).parents[1] / "pools"


@dataclass(frozen=True)
class Card:
    """The description of a pool for its readers."""

    title: str
    """A sentence with the LLM, the questions and the PRM."""
    source: str
    """Where the samples come from, such as an address and a path."""
    licence: str
    """The licence of the source, as an SPDX identifier."""
    scores: Mapping[str, str]
    """The columns with scores, each with its meaning. The first one is `score`."""
    scale: str = "logit"
    """``probability`` if the scores are in [0, 1], otherwise ``logit``: a larger one is better."""
    cost: str = ""
    """The unit of the column `cost`; empty without such a column."""
    correctness: str = ""
    """How the right samples were determined."""
    check: str = ""
    """The result of a check before the texts were left out: whether solutions answer their questions."""


def shipped_pools() -> dict[str, Path]:
    """Return the names of the shipped pools and their files, sorted by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.parquet"))}


def pool_path(path: str) -> str:
    """Return the file that ``pool:NAME`` stands for. Other paths are returned unchanged.

    Raises a DataError if there is no pool of this name.
    """
    if not path.startswith(_PREFIX):
        return path
    pools = shipped_pools()
    if (name := path.removeprefix(_PREFIX)) not in pools:
        raise DataError(f"There is no pool '{name}'. The shipped pools are {', '.join(pools)}.")
    return str(pools[name])


def write_pool(path: Path, table: "pd.DataFrame", card: Card) -> None:
    """Write a pool.

    The columns are `llm`, `question` (a name and not its text), `solution` (a number within its question), `score` (a
    number, or a list with one for each step), `correct`, and perhaps `prediction` (a number: equal for equal answers of
    a question), `cost`, `level` and further numbers, such as the scores that the card names.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = pa.Table.from_pandas(table, preserve_index=False)
    content = json.dumps(asdict(card), ensure_ascii=False)
    parquet.write_table(rows.replace_schema_metadata({_CARD: content}), path, compression="zstd")


def read_pool(path: Path) -> tuple[Card, "pd.DataFrame"]:
    """Read a pool. Raises a DataError if it is no Parquet file, or has no valid card."""
    import pyarrow.parquet as parquet

    with reading(f"{path} is not a valid Parquet file"):
        table = parquet.read_table(path.expanduser())
    text = (table.schema.metadata or {}).get(_CARD)
    if text is None:
        raise DataError(f"{path} has no card. Write it with prmcal.registry.reading.pools.write_pool.")
    try:
        return TypeAdapter(Card).validate_json(text), table.to_pandas()
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        raise DataError(f"{path}: the card is not valid: '{field}': {problem['msg']}.") from error
