"""Results that are computed again with the functions of jobs, and compared with those of the artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    CalibrationMetricsParameters,
    CalibratorParameters,
    LeagueParameters,
    MeasuringParameters,
    Parameters,
    PluginReference,
    StrategyParameters,
)
from prmcal.harness.storage.store import Store
from prmcal.harness.verifying.context import VerifyingContext
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import KINDS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["ABSOLUTE", "RELATIVE", "computed_again", "is_recomputed", "table_flaws", "unlike_here"]

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""How far a number may lie from the stored one: other processors and libraries add numbers in another order."""


def is_recomputed(shard: Shard[Parameters]) -> bool:
    """Return whether the first tier computes a shard again: it measures, or a calibrator reads scores only."""
    if isinstance(shard.parameters, CalibratedParameters):
        return not {"hidden", "rollout"}.intersection(shard.inputs)
    return isinstance(shard.parameters, MeasuringParameters)


def computed_again(shard: Shard[Parameters], context: VerifyingContext) -> tuple[list[str], str]:
    """Compute a shard again and compare all of its tables.

    Returns
    -------
    flaws : list of str
        How the results differ, in sentences without full stops.
    unlike : str
        Why it could not be computed again as it was; empty if it could.
    """
    unlike = unlike_here(shard)
    if unlike:
        return [], unlike
    try:
        output = compute(shard, context)
    except PrmcalError as error:
        return [f"it cannot be computed again: {excerpt(str(error), 200).rstrip('.')}"], ""
    except Exception as error:  # of numbers that no run writes
        return [f"it cannot be computed again: {excerpt(message_of(error), 200).rstrip('.')}"], ""
    return list(_flaws(shard, context.store, output.tables)), ""


def unlike_here(shard: Shard[Parameters]) -> str:
    """Return what computed a shard and is not the same here: the version of its job, or a plugin; or nothing."""
    given = shard.parameters
    if shard.version != given.version:
        return f"it was computed by version {shard.version} of '{given.kind}', and this prmcal has {given.version}"
    for kind, reference, identity in _plugins(shard):
        registry = KINDS[kind]
        try:
            built = {"kind": kind, **reference.build(registry).identity()}
        except PrmcalError as error:
            return f"the {kind} '{reference.name}' is not here: {excerpt(str(error), 150).rstrip('.')}"
        except Exception as error:  # of a plugin
            return f"the {kind} '{reference.name}' cannot be built: {excerpt(message_of(error), 150).rstrip('.')}"
        if not _equal(built, identity):
            return f"the {kind} '{reference.name}' is another one here: {_difference(built, identity)}"
    return ""


def _plugins(shard: Shard[Parameters]) -> Iterator[tuple[str, PluginReference, Mapping[str, Any]]]:
    """Yield the plugins that compute a shard, with what its key contains of them."""
    given, identity = shard.parameters, shard.identity
    if isinstance(given, CalibratorParameters):
        yield "calibrator", given.calibrator, identity.get("calibrator", {})
    keyed = identity.get("parameters", {})
    if isinstance(given, StrategyParameters | LeagueParameters):
        yield "strategy", given.strategy, keyed.get("strategy", {})
    if isinstance(given, CalibrationMetricsParameters):
        metrics = dict(keyed.get("metrics", []))
        for reference in given.metrics:
            yield "metric", reference, metrics.get(reference.name, {})


def _equal(built: Any, stored: Any) -> bool:
    if isinstance(built, Mapping) and isinstance(stored, Mapping):
        return built.keys() == stored.keys() and all(_equal(built[name], stored[name]) for name in built)
    if isinstance(built, list | tuple) and isinstance(stored, list | tuple):
        return len(built) == len(stored) and all(map(_equal, built, stored))
    return bool(built == stored)


def _difference(built: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    names = [name for name in {**built, **stored} if not _equal(built.get(name), stored.get(name))]
    if "version" in names:
        return f"version {built.get('version')} in place of {stored.get('version')}"
    return f"its {' and '.join(names)} differ"


def _flaws(shard: Shard[Parameters], store: Store, tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    import pyarrow as pa

    folder = store.folder(shard.ref.kind, shard.ref.key)
    stored = {path.stem for path in folder.glob("*.parquet")}
    for name in sorted(stored ^ tables.keys()):
        yield f"it {'lacks' if name in tables else 'should not have'} the table '{name}'"
    for name in sorted(stored & tables.keys()):
        try:
            table = store.read(shard.ref.kind, shard.ref.key, name)
        except PrmcalError as error:
            yield excerpt(str(error), 200)
            continue
        # `Table.from_pandas` takes twice as long, since it also describes the columns for pandas.
        computed = {
            column: pa.array(values.values, from_pandas=True) for column, values in tables[name].items()
        }
        yield from table_flaws(name, table, pa.table(computed))


def table_flaws(name: str, stored: pa.Table, computed: pa.Table) -> Iterator[str]:
    """Yield how a stored table differs from the computed one, a sentence for each column."""
    if stored.column_names != computed.column_names or len(stored) != len(computed):
        yield f"its table '{name}' has {len(stored)} rows, and {len(computed)} when computed again"
        return
    for column in stored.column_names:
        count, largest = _apart(stored[column], computed[column])
        if count:
            told = "" if largest is None else f" by up to {largest:.2g}"
            yield f"{count} of {len(stored)} values of '{column}' in '{name}' differ{told} when computed again"


def _apart(stored: pa.ChunkedArray, computed: pa.ChunkedArray) -> tuple[int, float | None]:
    """Return how many values of a column differ, and by how much at most if they are numbers."""
    import pyarrow as pa
    import pyarrow.compute as functions

    if stored.equals(computed):
        return 0, None
    try:
        same_type = computed.cast(stored.type)
    except pa.ArrowInvalid:
        return len(stored), None
    if not pa.types.is_floating(stored.type):
        differ = functions.fill_null(functions.not_equal(stored, same_type), True)
        both_null = functions.and_(functions.is_null(stored), functions.is_null(same_type))
        return int(functions.sum(functions.and_not(differ, both_null)).as_py() or 0), None
    one = stored.to_numpy(zero_copy_only=False).astype(np.float64)
    other = same_type.to_numpy(zero_copy_only=False).astype(np.float64)
    missing = np.isnan(one) | np.isnan(other)
    unequal = np.where(
        missing,
        np.isnan(one) != np.isnan(other),
        ~np.isclose(one, other, rtol=RELATIVE, atol=ABSOLUTE),
    )
    distances = np.abs(one - other)[unequal & ~missing]
    return int(unequal.sum()), float(distances.max()) if distances.size else None
