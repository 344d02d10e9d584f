"""Workers on nodes with GPUs have whole GPUs of their own."""

from __future__ import annotations

import os
from pathlib import Path

from prmcal.registry.plugins import load_plugin_file
from tests.cluster.nodes import Nodes
from tests.cluster.test_cluster_run import grid, run
from tests.conftest import PLUGINS

TELLING = """
import os, time
from pathlib import Path
from prmcal import llm, prm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms, prms

load_plugin_file(Path("{synthetic}"))

@llm("telling")
class Telling(llms.get("synthetic-llm")):
    def __init__(self, tensor_parallel=1):
        super().__init__(0.7)
        self.tensor_parallel = tensor_parallel

    def generate(self, prefixes, n, sampling, seed):
        folder = Path("{folder}")
        (folder / f"model-{{os.getpid()}}").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        end = time.monotonic() + 600
        while len(list(folder.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.05)  # One worker would else have computed all before the other has started.
        return super().generate(prefixes, n, sampling, seed)
"""


def test_every_worker_has_whole_gpus_of_its_own(nodes: Nodes, tmp_path: Path) -> None:
    folder = tmp_path / "told"
    folder.mkdir()
    plugin = tmp_path / "telling.py"
    plugin.write_text(TELLING.format(synthetic=PLUGINS / "synthetic.py", folder=folder))
    load_plugin_file(plugin)
    spec = grid(
        llms=[
            {"name": f"on-{gpus}", "plugin": "telling", "arguments": {"tensor_parallel": gpus}} for gpus in (1, 2, 3)
        ],
        calibrators=["uncalibrated"],
    )
    # Ray counts these GPUs, whether they exist or not. Nothing here uses them.
    nodes.add(num_cpus=2, num_gpus=2)
    done = run(spec, tmp_path / "out", nodes, (plugin,))
    assert {each.read_text() for each in folder.iterdir()} == {"0", "1", "0,1"}
    (failure,) = done.failures
    assert failure.failure.reason.startswith("on-3 is spread over 3 GPUs, and the largest node of the cluster has 2.")
    assert all("on-3" in cell for cell in failure.cells)
    assert done.done_cells == 2 * done.failed_cells
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
