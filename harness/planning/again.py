"""The plan of a run that is already in a folder."""

from __future__ import annotations

from pathlib import Path

from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.folder import RunRecord
from prmcal.registry.plugins import load_plugin_file

__all__ = ["plan_again"]


def plan_again(record: RunRecord) -> Plan:
    """Load the run's plugin files and plan its grid as it was then, limit included.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set cannot be had any more.
    """
    for file in record.plugin_files:
        load_plugin_file(Path(file))
    return build_plan(GridSpec.model_validate(record.grid))
