"""Models that cannot work: ``plan``, ``doctor`` and ``run`` say why and what to do, before anything is sampled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import PLUGINS, Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments
from tests.registry.llms.completions_server import Server, echo, reply, serving
from tests.registry.prms.pooling_server import reply as pooled
from tests.registry.prms.pooling_server import serving_pooling

SMALL: dict[str, Any] = {
    "datasets": [{"name": "synthetic-questions", "questions": 8}],
    "strategies": ["pass@1", "best-of-n"],
    "calibrators": ["uncalibrated"],
}


def entry(name: str, plugin: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "plugin": plugin, "arguments": arguments}


def served(name: str, server: Server, **arguments: Any) -> dict[str, Any]:
    return entry(name, "pooling-http", base_url=server.url, model=name, tokenizer="nano:prm", **arguments)


def asked(server: Server, **arguments: Any) -> dict[str, Any]:
    return entry("asked", "openai", base_url=server.url, model="m", chat_template="qwen-2.5", **arguments)


def said(text: str) -> str:
    return " ".join(text.split())


def rows(prmcal: Prmcal, out: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_leaderboard(out, table, "json"))
    return found


@pytest.fixture
def locked() -> Iterator[Server]:
    with serving_pooling(lambda request: {}, lambda number: "401") as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    """A server of a model with another number of outputs."""
    with serving_pooling(lambda request: pooled([[0.0]])) as server:
        yield server


@pytest.fixture
def mute() -> Iterator[Server]:
    """A server that writes texts and gives no log-probabilities."""
    with serving(lambda request: reply("Yes", 1, "length")) as server:
        yield server


def test_models_that_cannot_work(tmp_path: Path, prmcal: Prmcal, locked: Server, other: Server, mute: Server) -> None:
    bad = {
        "headless": "The checkpoint nano:weak is another kind of model",
        "locked": "refused a request with 401: .* Set 'key_variable' to the environment variable",
        "other": "returned 1 numbers for each token or marker, but the format needs 2. Check 'model'",
        "mute": "log-probabilities",
    }
    prms = [
        entry("good", "synthetic-prm"),
        entry("headless", "qwen", checkpoint="nano:weak"),
        served("locked", locked),
        served("other", other),
        entry("mute", "judge", base_url=mute.url, model="m", chat=False),
        entry("faulty", "synthetic-prm", flaw="NaN"),
    ]
    path, out = grid(tmp_path, **SMALL, prms=prms), tmp_path / "out"
    planned = prmcal("plan", path, "--plugin", PLUGINS / "synthetic.py")
    assert planned.returncode == ExitCode.DONE
    needed = prmcal("doctor", path, "--plugin", PLUGINS / "synthetic.py")
    assert needed.returncode == ExitCode.FAILED_CHECKS
    for name, problem in bad.items():
        assert re.search(f"The prm '{name}' is not ready: .*{problem}", said(planned.stdout)), planned.stdout
        assert re.search(problem, said(needed.stdout)), needed.stdout
    done = prmcal(*run_arguments(path, out, quiet=False))
    assert done.returncode == ExitCode.FAILED_CELLS
    before, _, after = said(done.stderr).partition(" cells done in ")
    log = (out / "run.log").read_text()
    for name, problem in bad.items():
        for text in (before, after):
            assert re.search(f"The prm '{name}' is not ready: .*{problem}", text), done.stderr
        assert log.index(f"The prm '{name}' is not ready") < log.index(" s  rollout of "), log
    assert len(locked.requests) == len(other.requests) == 3
    # What the code of a plugin does is known from the first questions, before the others are sampled.
    assert "prmcal: warning: The prm 'faulty' failed to score: it returned NaN" in before
    failed = log.index("The prm 'faulty' failed to score")
    assert log[:failed].count(" s  rollout of ") == 1 < log[failed:].count(" s  rollout of ")
    assert after.count("When this is corrected, run the same command again") == len(bad)
    assert after.count("Correct the plugin") == 1
    for table in ("calibration", "scaling"):
        for row in rows(prmcal, out, table):
            assert row["status"] == ("done" if row["prm"] in ("good", None) else "failed"), row


def test_fits_that_cannot_be_are_known_from_classes_and_checkpoints(tmp_path: Path, prmcal: Prmcal) -> None:
    impossible = {
        ("ats", "plain"): "reads hidden states, but a SyntheticPRM has none",
        ("deep", "plain"): "must derive from prmcal.TransformersPRM",
        (
            "deep",
            "nano",
        ): "has the layers 0 to 5, but the 'layers' parameter is .11,.*Give a list of these layers",
    }
    parts = {
        "prms": [entry("plain", "synthetic-prm"), entry("nano", "qwen", checkpoint="nano:prm")],
        "calibrators": ["isotonic", "ats", entry("deep", "quantile-lora", layers=[11])],
    }
    path, plugin = grid(tmp_path, **{**SMALL, **parts}, name="small"), ("--plugin", PLUGINS / "synthetic.py")
    planned, needed = prmcal("plan", path, *plugin), prmcal("doctor", path, *plugin)
    done = prmcal(*run_arguments(path, tmp_path / "out", quiet=False), "--only", "prm=plain")
    before, _, _ = said(done.stderr).partition(" cells done in ")
    for (calibrator, prm), why in impossible.items():
        problem = f"The calibrator '{calibrator}' cannot be fitted to the PRM '{prm}'. .*{why}"
        assert re.search(f"{problem}.* Not counted above, as it would fail: 1 cell", said(planned.stdout))
        assert re.search(problem, said(needed.stdout)), needed.stdout
        assert bool(re.search(problem, before)) == (prm == "plain"), done.stderr
    assert "; 6 cells of the 9 of the grid" in said(planned.stdout)
    for row in rows(prmcal, tmp_path / "out", "calibration"):
        if row["prm"] == "plain":
            assert row["status"] == ("done" if row["calibrator"] == "isotonic" else "failed")


def test_a_grid_whose_only_llm_is_refused_ends_at_once(tmp_path: Path, prmcal: Prmcal) -> None:
    with serving(echo, lambda number: "403") as server:
        path = grid(tmp_path, **SMALL, llms=[asked(server)])
        done = prmcal(*run_arguments(path, tmp_path / "out", quiet=False))
        assert len(server.requests) == 1
    assert done.returncode == ExitCode.FAILED_CELLS
    assert "The llm 'asked' is not ready: The server" in said(done.stderr)
    assert re.search(r"0 of \d+ cells done in .*: 0 shards computed", said(done.stderr)), done.stderr


def test_a_server_that_does_not_answer_yet_is_asked_again(tmp_path: Path, prmcal: Prmcal) -> None:
    def right(request: dict[str, Any]) -> dict[str, Any]:
        return reply("1 is right.\n\nSo 1 is \\boxed{1}.", 9, "stop")

    with serving(right, lambda number: "503" if number == 0 else "") as server:
        path = grid(tmp_path, **SMALL, llms=[asked(server, patience=20)])
        done = prmcal(*run_arguments(path, tmp_path / "out", quiet=False))
    assert "it answered 503" in said(done.stderr)
    assert "The run goes on, and asks it again." in said(done.stderr)
    assert done.returncode == ExitCode.DONE, done.stderr


def test_recordings_that_are_too_short(tmp_path: Path, prmcal: Prmcal) -> None:
    recording = tmp_path / "short.jsonl"
    texts = [f"{split} {i}: take {1 + i % 5} steps" for split in ("calibration", "test") for i in range(8)]
    records = [{"question": text, "solutions": ["a\n\nb", "c", "d"], "logits": [0.5, -2.0, 3.0]} for text in texts]
    records.append({name: value for name, value in records.pop(0).items() if name != "logits"})
    recording.write_text("".join(json.dumps(each) + "\n" for each in records))
    path = grid(
        tmp_path,
        **SMALL,
        llms=[entry("replayed", "recorded", path=str(recording))],
        prms=[entry("unscored", "recorded", path=str(recording))],
    )
    llm = r"line 8: the grid needs 4 completions of the question, but 3 are recorded. Lower the number of samples"
    planned = prmcal("plan", path, "--plugin", PLUGINS / "synthetic.py")
    done = prmcal(*run_arguments(path, tmp_path / "out", quiet=False))
    assert done.returncode == ExitCode.FAILED_CELLS
    for text in (planned.stdout, done.stderr):
        assert re.search(f"The llm 'replayed' is not ready: .*{llm}", said(text)), text
        assert "The prm 'unscored' is not ready: " in said(text)
        assert "has no scores for the question 'calibration 0" in said(text)
    assert "0 shards computed" in said(done.stderr)


def test_a_judge_that_refuses_is_said_first_and_last_and_costs_its_verdicts_only(
    prmcal: Prmcal, locked: Server, tmp_path: Path
) -> None:
    judge = entry("strict", "judge", model={"base_url": f"{locked.url}/v1", "model": "m"})
    tests = [{**SMALL["datasets"][0], "graders": ["exact", judge]}]
    out = tmp_path / "out"
    done = prmcal(*run_arguments(grid(tmp_path, **SMALL | {"datasets": tests}), out, quiet=False))
    assert done.returncode == ExitCode.FAILED_CELLS, done.stderr
    first, _, last = said(done.stderr).partition("0 cells failed")
    assert "The grader 'strict' is not ready" in first and "It gives no verdicts" in first
    assert "The grader 'strict'" in last and "only what failed" in last
    assert len(rows(prmcal, out, "calibration")) > 0
