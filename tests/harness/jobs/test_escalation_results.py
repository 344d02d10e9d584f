"""A run with two LLMs, of which one asks the other: results, costs of both, and what the strategy gets to see."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

from prmcal.db import catalog
from prmcal.db.queries.leaderboard import costs
from prmcal.registry.contracts.pool import READS, Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.thresholds import Escalation
from tests.conftest import PLUGINS, Prmcal
from tests.registry.create import create_as

QUESTIONS, POOL, MEASURED, OWN, OTHER = 40, 8, 4, 2, 3
THRESHOLD = 0.6

# An LLM with longer texts and prompts than the synthetic one, and a strategy that writes what it is given.
BESIDE = """
from dataclasses import replace
from pathlib import Path

import numpy as np

from prmcal import Answered, PoolStrategy, llm, strategy
from prmcal.registry.contracts.pool import READS
from prmcal.registry.contracts.strategy import Asked
from prmcal.registry.plugins import llms


@llm("wordy-llm")
class Wordy(llms.get("synthetic-llm")):
    def generate(self, prefixes, n, sampling, seed):
        found = super().generate(prefixes, n, sampling, seed)
        return [[replace(each, tokens=3 * each.tokens, prompt_tokens=20) for each in one] for one in found]


def write(path, pool):
    np.savez(path, correct=pool.correct, levels=pool.levels, **{name: getattr(pool, name) for name in READS})


@strategy("witness of two")
class Witness(PoolStrategy):
    reads, tuned = READS, True

    def __init__(self, folder: str, to: str) -> None:
        self.folder, self.to = folder, to
        self.others = (to,)

    def tune(self, pool, setting):
        write(Path(self.folder) / "own-tuning.npz", pool)
        write(Path(self.folder) / "other-tuning.npz", pool.others[self.to])

    def answer(self, pool, setting):
        write(Path(self.folder) / "own-test.npz", pool)
        write(Path(self.folder) / "other-test.npz", pool.others[self.to])
        one, none = np.ones(pool.questions), np.zeros(pool.questions)
        return Answered(none, one, asked=(Asked("", one, one, none), Asked(self.to, none, none, none)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    folder = tmp_path_factory.mktemp("escalation")
    for name in ("weak", "strong"):
        (folder / name).mkdir()
    arguments = {"to": "strong", "samples": OWN, "to_samples": OTHER, "threshold": THRESHOLD}
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": [
            {"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7}},
            {"name": "strong", "plugin": "wordy-llm", "arguments": {"skill": 0.9}},
        ],
        "calibrators": [
            {"name": "quantiles", "plugin": "conformal", "arguments": {"calibrator": "isotonic"}}
        ],
        "strategies": [
            "pass@1",
            {"name": "own alone", "plugin": "best-of-n", "arguments": {"samples": OWN}},
            {"name": "other alone", "plugin": "best-of-n", "arguments": {"samples": OTHER}},
            {"name": "by answer", "plugin": "escalation", "arguments": arguments},
            {"name": "by question", "plugin": "escalation", "arguments": {**arguments, "by": "question"}},
            *(
                {
                    "name": f"witness of {name}",
                    "plugin": "witness of two",
                    "arguments": {"folder": str(folder / name), "to": other},
                }
                for name, other in (("weak", "strong"), ("strong", "weak"))
            ),
        ],
        "datasets": [{"name": "synthetic-questions", "questions": QUESTIONS}],
        "measurement": {"measured": MEASURED, "follow_ups": 4, "replicates": 200},
        "scaling": {"samples": POOL, "levels": [0.5]},
        "league": True,
    }
    (folder / "beside.py").write_text(BESIDE)
    (folder / "grid.yaml").write_text(yaml.safe_dump(data))
    plugins = ["--plugin", PLUGINS / "synthetic.py", "--plugin", folder / "beside.py"]
    done = prmcal("run", folder / "grid.yaml", "--out", folder / "out", "--workers", 1, *plugins)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def database(folder: Path) -> Path:
    return folder / "out" / "leaderboard.duckdb"


@pytest.fixture(scope="module")
def board(database: Path) -> pd.DataFrame:
    table = catalog.leaderboard(database, "scaling")
    return table.set_index(["llm", "strategy"])


@pytest.fixture(scope="module")
def questions(database: Path) -> pd.DataFrame:
    """A row for each question in the order of the pools, and a column for each strategy and metric of the weak LLM."""
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.sql(
            "SELECT strategy, llm, metric, question_id, value FROM question_results JOIN cells USING (cell_id) "
            "WHERE leaderboard = 'scaling'"
        ).df()
    return (
        rows.pivot(index="question_id", columns=["llm", "strategy", "metric"], values="value")
        .sort_index()
        .sort_index(axis=1)
    )


@pytest.fixture(scope="module")
def trajectories(database: Path) -> pd.DataFrame:
    """All trajectories of the test questions, with their LLM."""
    with duckdb.connect(str(database), read_only=True) as connection:
        found: pd.DataFrame = connection.sql(
            "SELECT llm, question_id, trajectory, tokens, steps FROM trajectories JOIN jobs USING (job_key) "
            "WHERE split = 'test'"
        ).df()
    return found


def pool_of(folder: Path, llm: str, split: str) -> Pool:
    saved = np.load(folder / llm / f"own-{split}.npz")
    return Pool(
        saved["correct"],
        np.zeros(saved["correct"].shape, np.int64),
        scores=saved["scores"],
        rewards=saved["rewards"],
    )


@pytest.mark.parametrize("split", ["test", "tuning"])
@pytest.mark.parametrize(("llm", "other"), [("weak", "strong"), ("strong", "weak")])
def test_the_pool_of_the_other_llm_is_its_own(folder: Path, llm: str, other: str, split: str) -> None:
    shown, own = (
        np.load(folder / llm / f"other-{split}.npz"),
        np.load(folder / other / f"own-{split}.npz"),
    )
    for name in ("correct", "levels", *READS):
        np.testing.assert_array_equal(shown[name], own[name])
    assert (shown["scores"] != np.load(folder / llm / f"own-{split}.npz")["scores"]).any()


@pytest.mark.parametrize("by", ["answer", "question"])
def test_results_are_those_of_the_strategy(folder: Path, questions: pd.DataFrame, by: str) -> None:
    weak, strong = pool_of(folder, "weak", "test"), pool_of(folder, "strong", "test")
    pool = Pool(
        weak.correct, weak.answers, scores=weak.scores, rewards=weak.rewards, others={"strong": strong}
    )
    strategy = create_as(
        Escalation,
        strategies,
        "escalation",
        to="strong",
        by=by,
        samples=OWN,
        to_samples=OTHER,
        threshold=THRESHOLD,
    )
    strategy.tune(pool_of(folder, "weak", "tuning"), Setting(POOL))
    expected = strategy.answer(pool, Setting(POOL))
    found = questions["weak", f"by {by}"]
    np.testing.assert_allclose(found["accuracy"], expected.accuracy)
    np.testing.assert_allclose(found["samples"], expected.samples)
    assert expected.pass_at_samples is not None
    np.testing.assert_allclose(found["pass_at_n"], expected.pass_at_samples)
    np.testing.assert_allclose(found["escalated"], expected.asked[1].chance)
    assert 0 < expected.asked[1].chance.mean() < 1


@pytest.mark.parametrize("by", ["answer", "question"])
def test_gains_are_those_over_each_llm_alone_and_over_chance(questions: pd.DataFrame, by: str) -> None:
    found = questions["weak", f"by {by}"]
    own = questions["weak", "own alone", "accuracy"]
    other = questions["strong", "other alone", "accuracy"]
    np.testing.assert_allclose(found["gain_over_own"], found["accuracy"] - own, atol=1e-12)
    np.testing.assert_allclose(found["gain_over_other"], found["accuracy"] - other, atol=1e-12)
    share = found["escalated"].mean()
    by_chance = (1 - share) * own.mean() + share * other.mean()
    assert found["routing_gain"].mean() == pytest.approx(found["accuracy"].mean() - by_chance)
    assert found["routing_gain"].mean() > 0.02  # the scores say who needs help


@pytest.mark.parametrize("by", ["answer", "question"])
def test_costs_of_both_llms_add_up(
    database: Path, questions: pd.DataFrame, trajectories: pd.DataFrame, by: str
) -> None:
    escalated = questions["weak", f"by {by}", "escalated"]
    first = pd.Series(1.0, escalated.index) if by == "answer" else 1 - escalated
    drawn = {"weak": OWN * first, "strong": OTHER * escalated}
    means = trajectories.groupby(["llm", "question_id"])[["tokens", "steps"]].mean()
    spent = {
        llm: {name: (samples * means.loc[llm][name]).sum() for name in means}
        for llm, samples in drawn.items()
    }
    # The synthetic PRM reads 7 tokens for each step. Prompts have 8 tokens, and those of the wordy LLM 20.
    row = costs(database).set_index(["llm", "strategy"]).loc["weak", f"by {by}"]
    assert row["samples_total"] == pytest.approx(drawn["weak"].sum() + drawn["strong"].sum())
    assert row["generated_tokens_total"] == pytest.approx(spent["weak"]["tokens"] + spent["strong"]["tokens"])
    assert row["prm_tokens_total"] == pytest.approx(7 * (spent["weak"]["steps"] + spent["strong"]["steps"]))
    assert row["prefill_tokens_total"] == pytest.approx(8 * first.sum() + 20 * escalated.sum())
    other = questions["weak", f"by {by}", "other_tokens"]
    assert other.sum() == pytest.approx(spent["strong"]["tokens"])
    # Seconds are those of each LLM's own tokens.
    jobs = catalog.jobs(database)
    behind = (
        jobs if by == "answer" else jobs[jobs["split"] == "test"]
    )  # it learns from the calibration questions
    rates = {}
    for kind, amount in (("rollout", "generated_tokens"), ("score", "scored_tokens")):
        for llm in ("weak", "strong"):
            own = behind[(behind["kind"] == kind) & (behind["llm"] == llm)]
            rates[kind, llm] = own["seconds"].sum(), own[amount].sum()
    seconds = sum(spent[llm]["tokens"] * rates["rollout", llm][0] / rates["rollout", llm][1] for llm in drawn)
    read = np.sum([rates["score", llm] for llm in drawn], axis=0)
    seconds += row["prm_tokens_total"] * read[0] / read[1]
    assert row["seconds_total"] == pytest.approx(seconds)


def test_the_leaderboard_compares_it_with_both_llms(
    folder: Path, database: Path, board: pd.DataFrame, prmcal: Prmcal
) -> None:
    cell = board.loc["weak", "by answer"]
    assert cell["gain_over_own_low"] < cell["gain_over_own"] < cell["gain_over_own_high"]
    assert cell["samples_low"] < cell["samples"] < cell["samples_high"] <= OWN + OTHER
    pair = [str(board.loc[place, "number"]) for place in (("weak", "by answer"), ("strong", "other alone"))]
    done = prmcal("compare", *pair, "--dir", folder / "out", "--metric", "accuracy", "--format", "json")
    (row,) = json.loads(done.stdout)["metrics"]
    assert row["difference"] == pytest.approx(cell["gain_over_other"])
    shown = prmcal("show", pair[0], "--dir", folder / "out").stdout
    assert "routing_gain" in shown and "other_tokens" in shown
    text = prmcal("leaderboard", folder / "out", "--table", "costs", "--wide").stdout
    assert "by question" in text


def test_strategies_that_ask_another_llm_are_told_apart(database: Path) -> None:
    both = {"by answer", "by question"}
    cells = catalog.cells(database)
    asking = cells[cells["cell_id"].isin(catalog.with_other_samples(database))]
    assert set(asking["strategy"]) == {*both, "witness of weak", "witness of strong"}
    assert not both & set(cells[cells["leaderboard"] == "league"]["strategy"])


def test_what_belongs_to_the_other_llm_is_not_shown_as_its_own(
    database: Path, trajectories: pd.DataFrame
) -> None:
    cells = catalog.cells(database)
    (cell_id,) = cells[(cells["strategy"] == "by answer")]["cell_id"]
    detail = catalog.cell(database, cell_id, samples=QUESTIONS * POOL * 2)
    assert len(detail.samples) == QUESTIONS * POOL
    assert set(detail.jobs["llm"].dropna()) == {"weak", "strong"}
