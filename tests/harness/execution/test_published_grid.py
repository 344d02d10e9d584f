"""The grid `published` as it ships, for two of its LLMs, with tiny models, on files laid out as those of the paper."""

from __future__ import annotations

import csv
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prmcal.db.queries.leaderboard import reported
from prmcal.registry.models.checkpoints import NANO_FOLDER
from prmcal.registry.plugins import prms
from tests.conftest import ROOT, Prmcal
from tests.registry.calibrators.lora.test_lora_adapter import as_published

GRID: dict[str, Any] = yaml.safe_load((ROOT / "grids" / "published.yaml").read_text())
PROMPT = "Please reason step by step, and put your final answer in \\boxed{}."
COMMIT = "0123456789abcdef0123456789abcdef01234567"
QUESTIONS = {"math500train": 6, "math500": 5, "aime2024": 2, "aime2025": 1, "aime2025-2": 1}
LLM = "Llama-3.1-8B"
LLMS = (LLM, "R1-Qwen-7B")
"""Those of the six whose cells are run, since each takes as long."""


def published_rows(folder: str, seed: int) -> list[dict[str, Any]]:
    """Rows as the authors' code makes them: one for each prefix before the box, without an index of its trajectory.

    A trajectory may be the beginning of another one, and the bare question has a row for each of the eight.
    """
    draw = random.Random(seed)
    rows = []
    for number in range(QUESTIONS[folder]):
        question = f"{folder}, problem {number}: start with {number}. a) add 15, b) subtract 8."
        for _ in range(8):
            steps = [f"{letter}) {number}+{draw.choice((15, 16))}" for letter in "abcd"[: draw.randrange(4)]]
            rows += [
                {
                    "question": question,
                    "reasoning_prefix": "\n\n".join(steps[:count]),
                    "success_prob": draw.randrange(9) / 8,
                }
                for count in range(len(steps) + 1)
            ]
    return rows


def put_into_cache(hub: Path, repository: str) -> Path:
    """Return the folder of a snapshot in the hub's cache."""
    model = hub / f"models--{repository.replace('/', '--')}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "snapshots" / COMMIT).mkdir(parents=True)
    return model / "snapshots" / COMMIT


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the data were downloaded, with a hub cache that has the PRM and the adapters."""
    folder = tmp_path_factory.mktemp("published")
    for data in (GRID["calibration"], *GRID["datasets"]):
        for seed, files in enumerate(data["arguments"]["files"].values()):
            for path in [files] if isinstance(files, str) else files:
                (folder / path).parent.mkdir(parents=True)
                rows = published_rows(Path(path).parts[1], seed)
                (folder / path).write_text(json.dumps(rows))
    hub = folder / "hub" / "hub"
    (prm,) = GRID["prms"]
    shutil.copytree(NANO_FOLDER / "prm", put_into_cache(hub, prm["arguments"]["checkpoint"]), dirs_exist_ok=True)
    (lora,) = (each for each in GRID["calibrators"] if isinstance(each, dict) and "plugin" in each)
    for seed, repository in enumerate(lora["arguments"]["adapter"].values()):
        as_published("nano:prm", put_into_cache(hub, repository), seed=seed)
    return folder


def run(prmcal: Prmcal, place: Path, *arguments: object, **variables: str) -> str:
    done = prmcal(*arguments, folder=place, COLUMNS="80", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cells(place: Path, prmcal: Prmcal) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The calibration leaderboard of the finished run, by data set, LLM and calibrator."""
    only = [word for name in LLMS for word in ("--only", f"llm={name}")]
    text = (ROOT / "grids" / "published.yaml").read_text().replace("replicates: 2000", "replicates: 200")
    (place / "fewer.yaml").write_text(text)
    run(prmcal, place, "run", "fewer.yaml", "--out", "run", "--workers", 1, *only, HF_HOME=str(place / "hub"))
    listed = json.loads(run(prmcal, place, "leaderboard", "run", "--table", "calibration", "--format", "json"))
    return {(each["dataset"], each["llm"], each["calibrator"]): each for each in listed if each["llm"] in LLMS}


def test_every_cell_is_measured_and_every_published_row_counts_once(
    cells: dict[tuple[str, str, str], dict[str, Any]], place: Path
) -> None:
    assert len(cells) == 2 * 2 * 6
    assert {each["status"] for each in cells.values()} == {"done"}
    for data in GRID["datasets"]:
        for llm in LLMS:
            files = data["arguments"]["files"][llm]
            paths = [files] if isinstance(files, str) else files
            rows = [row for path in paths for row in json.loads((place / path).read_text())]
            assert cells[data["name"], llm, "uncalibrated"]["rows"] == len(rows)


def test_errors_are_those_of_the_published_rows(cells: dict[tuple[str, str, str], dict[str, Any]], place: Path) -> None:
    """The authors' prompt, one marker behind the whole prefix, and the mean over all rows."""
    (data,) = (each for each in GRID["datasets"] if each["name"] == "math500")
    rows = json.loads((place / data["arguments"]["files"][LLM]).read_text())
    prm: Any = prms.create("qwen", checkpoint="nano:prm", device="cpu", system_prompt=PROMPT)
    text = prm.prefix_text("1+1?", ["a", "b"])
    assert f"{PROMPT}<|im_end|>" in text and text.endswith("a\n\nb")
    errors = []
    for row in rows:
        steps = tuple(step for step in row["reasoning_prefix"].split("\n\n") if step)
        errors.append(prm.score(row["question"], [steps])[0].reward[-1] - row["success_prob"])
    found = cells["math500", LLM, "uncalibrated"]
    assert found["brier"] == pytest.approx(np.mean(np.square(errors)), abs=1e-6)
    assert found["signed_error"] == pytest.approx(np.mean(errors), abs=1e-6)


def test_each_llm_has_its_own_adapter(cells: dict[tuple[str, str, str], dict[str, Any]], place: Path) -> None:
    assert len({cells["aime24-25", name, "quantile-lora"]["brier"] for name in LLMS}) == 2
    before = {name: cells["math500", LLM, name]["brier"] for name in ("uncalibrated", "quantile-lora")}
    assert len(set(before.values())) == 2


def test_the_report_has_the_papers_numbers_and_the_differences(
    cells: dict[tuple[str, str, str], dict[str, Any]], place: Path, prmcal: Prmcal
) -> None:
    run(prmcal, place, "report", "run", "--out", "report")
    with (place / "report" / "beside-the-paper.csv").open() as file:
        rows = list(csv.DictReader(file))
    titles = ["Before and after calibration", "All calibrators"]
    assert list(dict.fromkeys(row["Table"] for row in rows)) == titles
    assert {row["Numbers"] for row in rows} == {"4"}
    (shown,) = (row for row in rows if (row["Table"], row["Metric"], row["Of"]) == (titles[1], "Brier", "isotonic"))
    printed = reported(table="ats_comparison", metric="brier", calibrator="isotonic")
    differences = [
        cells[row.dataset, row.llm, "isotonic"]["brier"] - row.value for row in printed.itertuples() if row.llm in LLMS
    ]
    found = [float(shown[name]) for name in ("Mean", "Smallest", "Largest")]
    assert found == pytest.approx([np.mean(differences), min(differences), max(differences)])
    whole = (place / "report" / "table-5.tex").read_text()
    (row,) = (row for row in printed.itertuples() if (row.dataset, row.llm) == ("math500", LLM))
    assert f"paper {row.value:.3f}" in whole


def test_a_plan_needs_none_of_the_files(tmp_path: Path, prmcal: Prmcal) -> None:
    shown = run(prmcal, tmp_path, "plan", "published")
    assert max(map(len, shown.splitlines())) <= 80
    assert "imported" in shown and "72 cells" in shown
    assert "young-j-park/Qwen2.5-Math-PRM-7B-calibrated-Llama-3.2-1B-Instruct" in shown
    doctor = prmcal("doctor", "published", folder=tmp_path)
    assert doctor.returncode != 0
    said = " ".join(doctor.stdout.split())
    assert "hf download young-j-park/prm_calibration --repo-type dataset --local-dir prm_calibration" in said
    assert "hf download young-j-park/Qwen2.5-Math-PRM-7B-calibrated-DeepSeek-R1-Distill-Qwen-7B" in said
