"""A run whose PRM is behind a server that ends in the middle: it goes on with another one, at another address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from prmcal.harness.cli.app import ExitCode
from tests.conftest import PLUGINS, Prmcal
from tests.registry.prms.pooling_server import reply, serving_pooling

SYNTHETIC = PLUGINS / "synthetic.py"


def judged(request: dict[str, Any]) -> dict[str, Any]:
    """Outputs without a model, one row for each marker, which is the last token."""
    ids = request["input"]
    places = [place for place, token in enumerate(ids) if token == ids[-1]]
    return reply([[0.0, (sum(ids[: place + 1]) % 97) / 20 - 2] for place in places])


def grid(folder: Path, url: str) -> Path:
    arguments = {"base_url": url, "model": "judge", "tokenizer": "nano:prm", "patience": 0.5}
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "prms": [{"name": "served", "plugin": "pooling-http", "arguments": arguments}],
        "calibrators": ["uncalibrated", "isotonic", "beta-binomial"],
        "calibration": {"name": "synthetic-questions", "questions": 10, "trajectories": 2, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 10}],
        "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
        "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
        "shards": {"questions": 2, "trajectories": 2},
    }
    data["llms"] = data["llms"][:1]
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_run_goes_on_with_another_server(prmcal: Prmcal, tmp_path: Path) -> None:
    def run(url: str) -> tuple[int, str]:
        path, out = grid(tmp_path, url), tmp_path / "out"
        done = prmcal("run", path, "--out", out, "--workers", 1, "--plugin", SYNTHETIC)
        return done.returncode, " ".join(done.stderr.split())

    with serving_pooling(judged, lambda number: "reset" if number >= 15 else "") as server:
        code, said = run(server.url)
    assert code == ExitCode.FAILED_CELLS
    assert "The prm 'served' failed to score: the server http" in said
    assert "Check the server, then run the same command again" in said
    kept = list((tmp_path / "out" / "artifacts").glob("*/*/artifact.json"))

    with serving_pooling(judged) as server:
        code, said = run(server.url)
        assert server.requests
    assert f" {len(kept)} reused" in said
    assert "gave no answer" not in said
    # Its rewards are enough for the other two calibrators.
    assert code == ExitCode.FAILED_CELLS
    assert "leave out calibrators that read hidden states" in said
    shown = prmcal("leaderboard", tmp_path / "out", "--table", "calibration", "--format", "csv").stdout
    assert "uncalibrated" in shown and "isotonic" in shown
