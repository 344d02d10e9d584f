"""The few plugins that queries must tell apart from all others.

The database stores the kind, the registered name, the arguments and the identity of a plugin, but no attributes of its
class. Whether a calibrator leaves rewards unchanged, or a strategy needs the truth, follows from none of these, so
this module lists such plugins by their registered names. No other module of ``prmcal.db`` may contain one.
"""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from prmcal.db.reader import Source, frame
from prmcal.db.tables import Plugin

__all__ = ["Role", "with_role"]

Role = Literal["baseline", "reference", "recomputed", "full budget"]
"""Role of a plugin.

baseline: a calibrator that leaves rewards unchanged.
reference: a strategy that needs the truth, and so cannot be used in practice.
recomputed: a strategy that :mod:`prmcal.db.queries.exact_curves` computes for any target C.
full budget: a strategy that answers with the trajectory of the highest score among a fixed number of samples.
"""

# Strategies that read success counts are also recognized by their jobs (prmcal.db.queries.curves.references). That
# does not work for pass@N, which reads only trajectories, nor for imported data, where one job has both.
_REGISTERED: dict[Role, tuple[str, tuple[str, ...]]] = {
    "baseline": ("calibrator", ("uncalibrated",)),
    "reference": ("strategy", ("oracle IAS", "pass@N")),
    "recomputed": ("strategy", ("best-of-n + IAS",)),
    "full budget": ("strategy", ("best-of-n",)),
}


def with_role(source: Source, role: Role) -> list[str]:
    """Return the plugins of the grid that have a role: their names in the grid, in the order of the grid."""
    kind, registered = _REGISTERED[role]
    query = (
        sa.select(Plugin.name)
        .where(Plugin.kind == kind, Plugin.plugin.in_(registered))
        .order_by(Plugin.position, Plugin.name)
    )
    return list(frame(source, query)["name"])
