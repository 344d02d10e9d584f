"""Runs whose nodes are killed: what is lost, and whether the bytes are those of a run on one machine.

python -m benchmarks.cluster.killed_nodes [ROUNDS [GRID]]

In each round the grid (by default `hello`, with real models), cut into small shards, runs on three nodes that share no
folder. Two of them are killed with SIGKILL at random moments, and a new one joins at a third.
"""

from __future__ import annotations

import hashlib
import io
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.ending import RunSummary
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import find_grid, read_grid
from prmcal.harness.planning.settings import ShardSpec
from tests.cluster.nodes import Nodes


def content(out: Path) -> str:
    """Hash all artifacts, without the times in their manifests, and both leaderboards."""
    total = hashlib.sha256()
    for path in sorted(out.glob("artifacts/*/*/**/*")):
        if path.is_file() and path.name != "artifact.json":
            total.update(str(path.relative_to(out)).encode() + path.read_bytes())
    for table in ("calibration", "scaling"):
        total.update(render_leaderboard(out, table, "csv").encode())
    return total.hexdigest()


def run_on_cluster(spec: GridSpec, out: Path, nodes: Nodes) -> RunSummary:
    with RayExecutor(out, spec, settings=ClusterSettings(nodes.address)) as executor:
        return run_grid(spec, out, executor.workers, executor=executor, stream=io.StringIO())


def round_of_kills(spec: GridSpec, folder: Path, seconds: float) -> tuple[RunSummary, list[float]]:
    """Run the grid on a new cluster. Return the summary, and when two nodes were killed and one was added."""
    nodes = Nodes()
    found: list[RunSummary] = []
    moments = sorted(random.uniform(0.05, 0.9) * seconds for _ in range(3))
    added = random.randrange(3)
    try:
        for _ in range(3):
            nodes.add()
        thread = threading.Thread(target=lambda: found.append(run_on_cluster(spec, folder / "out", nodes)))
        begin = time.monotonic()
        thread.start()
        for number, moment in enumerate(moments):
            time.sleep(max(0.0, begin + moment - time.monotonic()))
            if number == added:
                nodes.add()
            else:
                nodes.kill(nodes.alive[0])
        thread.join()
    finally:
        nodes.close()
    (summary,) = found
    return summary, [*moments[:added], moments[added], *moments[added + 1 :]]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    spec = read_grid(find_grid(sys.argv[2] if len(sys.argv) > 2 else "hello"))
    spec = spec.model_copy(update={"shards": ShardSpec(questions=5, trajectories=4)})
    with tempfile.TemporaryDirectory() as name:
        whole = run_grid(spec, Path(name) / "out", 2, stream=io.StringIO())
        expected = content(Path(name) / "out")
    print(f"One machine, 2 workers: {whole.computed} shards in {whole.seconds:.0f} s", flush=True)
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            done, moments = round_of_kills(spec, Path(name), whole.seconds)
            same = content(Path(name) / "out") == expected
            log = (Path(name) / "out" / "run.log").read_text()
        print(
            f"Round {number}: {done.seconds:.0f} s, events after {', '.join(f'{each:.0f}' for each in moments)} s, "
            f"{log.count('has left the cluster')} nodes left and {log.count('has joined the cluster')} joined, "
            f"{done.failed_cells} of {done.cells} cells failed, bytes {'equal' if same else 'DIFFER'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
