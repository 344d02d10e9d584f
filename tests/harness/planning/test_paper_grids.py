"""The paper's grid is planned without its models, its data and the hub: how much of what it is, and at what price."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from benchmarks.placement import GPUS, busy, last_start_of_small, simulate
from prmcal.db.queries.leaderboard import reported
from prmcal.harness.execution.machine import slots_of_machine
from prmcal.harness.planning.gpu_hours import model_costs
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from tests.conftest import ROOT, Prmcal, command, environment
from tests.measured import DESCRIBED

PAPER, SMALL = ROOT / "grids" / "paper.yaml", ROOT / "grids" / "math500-small.yaml"


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that has downloaded nothing."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


@pytest.mark.usefixtures("empty_cache")
def test_the_papers_grid_is_planned_within_seconds() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command("plan", PAPER), env=environment(), capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 20  # of a processor. 0.7 are usual; a plan that loads models takes minutes.
    lines = {line.partition("  ")[0].strip(): line.split() for line in done.stdout.splitlines()}
    # The 100 questions of math100 are among those of math500, so they cost nothing.
    assert lines["rollout"][1:5] == ["30", "294", "0", f"{6 * (500 * 10 + (500 + 60 + 30) * 64):,}"]
    # Ten trajectories are drawn for eight of the calibration set. Two PRMs rank with other markers on each data set.
    assert lines["score"][1] == str(6 * (4 * 5 + 2 * 4))
    assert lines["fit"][1] == str(6 * (3 * 5 + 1 + 1))  # one `ats`, and the 72B PRM uncalibrated
    assert lines["search"][1] == str(6 * 3 * 3 * 2)
    # 15 prefixes of a solution, and 31 of a reasoning model.
    assert lines["search"][4] == f"{3 * 64 * (500 + 60 + 2 * (100 + 30)) * (4 * 15 + 2 * 31):,}"
    assert "768 cells" in done.stdout
    names = ("Llama-3.2-1B", "Llama-3.1-8B", "Qwen-2.5-1.5B", "Qwen-2.5-7B", "R1-Llama-8B", "R1-Qwen-7B")
    assert [lines[name][1] for name in (*names, "Qwen2.5-Math-PRM-7B", "Qwen2.5-Math-PRM-72B")] == [
        "1", "8", "1.5", "7", "8", "7", "7", "72"
    ]  # fmt: skip
    said = " ".join(done.stdout.split())
    # It reads the measured trajectories and one shard of the others, and each of their prefixes by itself.
    scored = 8 * (500 + 60 + 30 + 50)
    tokens = scored * (4 * 15 + 2 * 31) * (150 + 0.4 * 2048 / 2)
    assert lines["Qwen2.5-Math-PRM-72B"][2] == f"{tokens / 1e6:,.0f}"
    hours = float(lines["all"][2]) / 4
    assert f"On 4 GPUs the run takes at least {int(hours)} h" in said
    assert "2 operations per parameter and token" in said
    assert "Not on this machine: meta-llama/Llama-3.2-1B-Instruct" in said
    assert "math500, aime24-25, math100, aime24, math-calibration" in said


@pytest.mark.usefixtures("empty_cache")
def test_the_papers_grid_keeps_eight_gpus_busy() -> None:
    plan = build_plan(read_grid(PAPER), stand_ins=True)
    stints = simulate(plan, slots_of_machine(GPUS, 8))
    large = [each for each in stints if each.shard.gpus == 4]
    assert {len(each.gpus) for each in large} == {4}
    assert busy(stints, last_start_of_small(stints), 8) > 0.9
    # Without the 72B PRM one GPU is enough.
    part = plan.part(plan.cells_with({"prm": ["ReasonEval-7B"]}))
    assert max(shard.gpus for shard in part.shards()) == 1


@pytest.mark.usefixtures("empty_cache")
def test_every_number_of_the_paper_has_a_cell_of_the_same_name() -> None:
    planned = build_plan(read_grid(PAPER), stand_ins=True)
    cells = {
        (
            cell.leaderboard,
            cell.labels.dataset,
            cell.labels.llm,
            cell.labels.prm,
            cell.labels.calibrator,
            cell.strategy,
        )
        for cell in planned.cells
    }
    names = ["dataset", "llm", "prm", "calibrator", "strategy"]
    numbers = reported().astype(dict.fromkeys(names, object)).fillna(dict.fromkeys(names, ""))
    assert len(numbers) == 768
    wanted = {
        (DESCRIBED[metric].leaderboard, *coordinates)
        for metric, *coordinates in numbers[["metric", *names]].itertuples(index=False)
    }
    assert wanted - cells == set()


def test_the_native_grid_differs_from_the_papers_in_its_prompts_only() -> None:
    paper, native = (read_grid(path).model_dump() for path in (PAPER, PAPER.with_name("paper-native.yaml")))
    assert {llm["arguments"]["chat_template"] for llm in native["llms"]} == {"native"}
    for llm in (*paper["llms"], *native["llms"]):
        del llm["arguments"]["chat_template"], llm["arguments"]["system_prompt"]
    assert {**native, "name": "paper"} == paper


@pytest.mark.usefixtures("empty_cache")
def test_a_small_grid_is_an_evening_of_one_gpu(prmcal: Prmcal) -> None:
    done = prmcal("plan", SMALL, "--limit", "100")
    assert done.returncode == 0, done.stderr
    assert f"{100 * 4 + 100 * 16:,}" in done.stdout
    hours = float(prmcal("plan", SMALL).stdout.partition("\nall ")[2].split()[1])
    assert 0.1 < hours < 4


@pytest.mark.usefixtures("empty_cache")
def test_what_is_planned_without_its_data_is_not_run_without_it(prmcal: Prmcal, tmp_path: Path) -> None:
    done = prmcal("run", SMALL, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "is not on this machine and cannot be downloaded from the Hugging Face hub" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_grid_of_models_that_are_here_has_no_stand_ins() -> None:
    grid = read_grid(ROOT / "grids" / "nano.yaml")
    planned = build_plan(grid, stand_ins=True)
    assert planned.absent == ()
    assert planned.jobs == build_plan(grid).jobs
    assert model_costs(planned, ()) == []


def test_gpu_hours_follow_from_sizes_and_tokens() -> None:
    """10 questions x 8 solutions of 0.4 x 1,000 tokens by 7 billion parameters at a tenth of the peak, and so on."""
    grid = read_grid(SMALL).model_dump() | {
        "llms": [{"name": "llm", "plugin": "vllm", "arguments": {"checkpoint": "org/Some-7B-Instruct"}}],
        "prms": [{"name": "prm", "plugin": "qwen", "arguments": {"checkpoint": "org/Other_1.5b"}}],
        "calibrators": ["uncalibrated"],
        "calibration": {"name": "nano-math", "questions": 10, "trajectories": 8, "follow_ups": 2},
        "datasets": [{"name": "nano-math", "questions": 10}],
        "strategies": ["pass@1"],
        "scaling": {"samples": 8},
        "measurement": {"measured": 8, "follow_ups": 2},
        "sampling": {"max_tokens": 1000},
    }
    llm, prm = model_costs(build_plan(GridSpec.model_validate(grid), stand_ins=True), ())
    drawn = 2 * 10 * 8
    prefixes = 1 + 7  # 400 tokens in steps of 60
    generated = drawn * 400 + drawn * prefixes * 2 * 200
    read = drawn * (150 + 400)
    assert (llm.billions, llm.tokens, prm.billions, prm.tokens) == (7, generated, 1.5, read)
    assert llm.gpu_hours == pytest.approx(2 * 7e9 * generated / (0.1 * 989e12) / 3600)
    assert prm.gpu_hours == pytest.approx(2 * 1.5e9 * read / (0.4 * 989e12) / 3600)


@pytest.mark.parametrize(
    ("batches", "read"),
    [
        ("trajectories", 150 + 0.4 * 256),
        ("prefixes", 6 * (150 + 0.4 * 256 / 2)),
    ],  # Half a solution on average.
)
def test_a_calibrator_that_trains_the_prm_costs_its_passes(batches: str, read: float) -> None:
    """An epoch reads 10 questions x 4 solutions of 0.4 x 256 tokens, each with 150 tokens of a question."""
    grid = read_grid(ROOT / "grids" / "nano.yaml").model_dump() | {
        "llms": [{"name": "llm", "plugin": "transformers", "arguments": {"checkpoint": "nano:weak"}}],
        "prms": [{"name": "prm", "plugin": "qwen", "arguments": {"checkpoint": "org/Some-PRM-1.5b"}}],
        "strategies": ["pass@1"],
        "calibration": {"name": "nano-math", "questions": 10, "trajectories": 4, "follow_ups": 2},
        "datasets": [{"name": "nano-math", "questions": 6}],
    }
    tokens = []
    for epochs in (1, 6):
        arguments = {"epochs": epochs, "batches": batches}
        calibrator = {"name": "tuned", "plugin": "quantile-lora", "arguments": arguments}
        plan = build_plan(GridSpec.model_validate({**grid, "calibrators": [calibrator]}), stand_ins=True)
        (prm,) = model_costs(plan, ())
        tokens.append(prm.tokens)
    assert tokens[1] - tokens[0] == pytest.approx(5 * 10 * 4 * read)
