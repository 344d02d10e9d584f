"""The plan of an existing run."""

from __future__ import annotations

from pathlib import Path

from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.folder import RunRecord
from prmcal.registry.plugins import load_plugin_file

__all__ = ["plan_again"]


def plan_again(record: RunRecord) -> Plan:
    """Load the plugin files of a run and plan its grid, with the limit that it was run with.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set is no longer available.
    """
    for file in record.plugin_files:
        load_plugin_file(Path(file))
    return build_plan(GridSpec.model_validate(record.grid))
