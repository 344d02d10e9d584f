"""The plan of an existing run."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.run_folder import RECORD_FILE
from prmcal.harness.planning.grid_file.read import grid_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.registry.plugin_files import load_plugin_file

__all__ = ["existing_plan", "load_plugins_of"]


def existing_plan(folder: RunFolder) -> Plan:
    """Return the plan of the latest run of a folder, as it was saved.

    An earlier version of prmcal saved no plan. Then the plugin files are loaded and the grid is planned again, with the
    limit that it was run with.

    Raises
    ------
    RunError
        If no grid was run in the folder, or the saved plan is damaged.
    PluginError, DataError, GridError
        If no plan was saved, and a plugin or a data set is no longer available.
    """
    record = folder.record()
    saved = read_plan(folder.directory, record.grid)
    if saved is not None:
        return saved
    load_plugins_of(folder)
    return build_plan(grid_of(record.grid, f"The grid in {folder.directory / RECORD_FILE}"))


def load_plugins_of(folder: RunFolder) -> None:
    """Load the plugin files of the latest run of a folder.

    Raises
    ------
    RunError
        If no grid was run in the folder.
    PluginError
        If a file is no longer there, or cannot be loaded.
    """
    for file in folder.record().plugin_files:
        load_plugin_file(Path(file))
