"""Beam search in a world where every reward is known: what goes on, what it costs, what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from prmcal.db import catalog
from prmcal.db.queries.curves import searches
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.jobs.search import Searched, StepSearch
from prmcal.registry.contracts.data import (
    Completion,
    FinishReason,
    Prefix,
    PrefixScores,
    Question,
    Sampling,
)
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.strategy import First, SearchStrategy
from prmcal.registry.plugins import datasets, llms, load_plugin_file, prms, strategies
from prmcal.registry.strategies.scaling import beams_needed, expansions_needed
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here
from tests.registry.create import create_as

load_plugin_file(PLUGINS / "synthetic.py")
QUESTIONS: list[Question] = datasets.create("synthetic-questions").questions("test", 12)
SAMPLING = Sampling(max_tokens=200)
Steps = tuple[str, ...]


def calibrate(prefixes: Sequence[Prefix], logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return expit(logits), 0.8 * expit(logits)


def search(
    name: str = "beam search",
    questions: Sequence[Question] = tuple(QUESTIONS),
    skill: float = 0.7,
    seed: int = 5,
    prm: Any = None,
    sampling: Sampling = SAMPLING,
    **arguments: Any,
) -> list[Searched]:
    strategy = create_as(SearchStrategy, strategies, name, **arguments)
    target = 0.9 if strategy.targeted else None
    llm = llms.create("synthetic-llm", skill=skill)
    prm = prm or prms.create("synthetic-prm")
    return StepSearch(llm, prm, strategy, calibrate, sampling, target, seed).run(questions)


def right(found: Sequence[Searched]) -> float:
    return float(np.mean(["boxed{1}" in each.answer.steps[-1] for each in found]))


def test_a_prm_that_sees_mistakes_leads_around_them() -> None:
    alone = search(width=1, expansions=1)
    led = search(width=4, expansions=4)
    assert right(alone) < 0.6 < right(led) == 1.0


def test_a_question_searched_alone_comes_to_the_same() -> None:
    together = search(width=3, expansions=2)
    for each, question in zip(together, QUESTIONS, strict=True):
        assert search(questions=[question], width=3, expansions=2) == [each]


def test_the_seed_decides() -> None:
    assert search(width=2, expansions=2) == search(width=2, expansions=2)
    assert search(width=2, expansions=2) != search(width=2, expansions=2, seed=6)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 20))
def test_costs_and_ends_add_up(width: int, expansions: int, every: int, seed: int) -> None:
    for each in search(width=width, expansions=expansions, every=every, seed=seed):
        steps = int(each.question.text.split()[-2]) + 1
        assert not each.live and each.finished
        assert [beam.rank for beam in each.finished] == sorted(beam.rank for beam in each.finished)
        assert each.generations <= width * expansions * steps
        assert each.generations >= len(each.finished)
        assert -(-steps // every) == each.rounds
        assert each.answer.tokens <= each.generated_tokens <= 10 * each.generations
        # A step of the chain is 10 tokens, the answer 5.
        assert all(beam.tokens == 10 * (steps - 1) + 5 for beam in each.finished)


def test_without_anything_to_save_all_variants_are_the_fixed_search() -> None:
    """A PRM that gives no hope asks for everything: the same beams, to the last one."""
    fixed = search(width=3, expansions=2)
    hopeless = lambda prefixes, logits: (expit(logits), np.zeros(len(logits)))  # noqa: E731
    llm, prm = llms.create("synthetic-llm", skill=0.7), prms.create("synthetic-prm")
    for name in ("beam search + IAS-of-K", "beam search + IAS-of-M"):
        strategy = create_as(SearchStrategy, strategies, name, width=3, expansions=2)
        found = StepSearch(llm, prm, strategy, hopeless, SAMPLING, 0.9, 5).run(QUESTIONS)
        chosen = [(each.answer.steps, each.generations) for each in found]
        assert chosen == [(each.answer.steps, each.generations) for each in fixed]


@pytest.mark.parametrize("name", ["beam search + IAS-of-K", "beam search + IAS-of-M"])
def test_ias_spends_less_where_there_is_hope(name: str) -> None:
    fixed, adaptive = search(width=4, expansions=4), search(name, width=4, expansions=4)
    spent = [sum(each.generations for each in found) for found in (adaptive, fixed)]
    assert spent[0] < 0.8 * spent[1]
    assert right(adaptive) > 0.8


@pytest.mark.parametrize("first", ["full", "adaptive"])
def test_every_round_draws_what_the_paper_says(first: First) -> None:
    """The strategy is asked with the rewards of the kept prefixes, and what it says is done."""
    asked: list[tuple[str, int, int]] = []

    class Watched(SearchStrategy):
        reads = ("scores", "rewards")
        targeted = True

        def expand(self, rewards: np.ndarray, target: float | None) -> int:
            assert target == 0.9
            asked.append(
                (
                    "expand",
                    len(rewards),
                    expansions_needed(rewards, target, self.expansions),
                )
            )
            return asked[-1][2]

        def keep(self, rewards: np.ndarray, target: float | None) -> int:
            assert target == 0.9
            assert np.all(np.diff(rewards) <= 0)
            asked.append(("keep", len(rewards), beams_needed(rewards, target, self.expansions, self.width)))
            return asked[-1][2]

    llm, prm = llms.create("synthetic-llm", skill=0.7), prms.create("synthetic-prm")
    watched = Watched(width=4, expansions=3, first=first)
    (found,) = StepSearch(llm, prm, watched, calibrate, SAMPLING, 0.9, 1).run(QUESTIONS[4:5])
    expands = [each for each in asked if each[0] == "expand"]
    keeps = [each for each in asked if each[0] == "keep"]
    asked_of_question = first == "adaptive"  # of its copies, in place of a full first round
    assert len(keeps) == found.rounds + asked_of_question
    assert [kept for _, kept, _ in expands] == [kept for _, _, kept in keeps][: len(expands)]
    # All prefixes of this world end after the same number of steps.
    drawn = sum(kept * times for _, kept, times in expands)
    assert found.generations == drawn + (0 if asked_of_question else 4 * 3)


def test_a_finished_trajectory_keeps_its_place() -> None:
    """One that finished early with the best score is the answer, whatever comes later."""

    class Early(type(prms.create("synthetic-prm"))):  # type: ignore[misc]
        def _score(self, question: str, steps: Sequence[str]) -> Any:
            scores = super()._score(question, steps)
            done = np.array([t > 0 and "boxed" in steps[t - 1] for t in range(len(steps) + 1)])
            scores.logit[done] = 9.0
            return scores

    found = search(prm=Early(), questions=QUESTIONS[:5], width=2, expansions=2)
    for each in found:
        assert each.answer.logit == 9.0
        assert "boxed" in each.answer.steps[-1]


def test_an_endless_trajectory_ends() -> None:
    found = search(questions=QUESTIONS[4:5], width=2, expansions=2, most_steps=3)
    assert found[0].rounds == 3
    assert {len(beam.steps) for beam in found[0].finished} == {3}
    cut = search(questions=QUESTIONS[4:5], width=2, expansions=2, sampling=Sampling(max_tokens=20))
    assert {beam.tokens for beam in cut[0].finished} == {20}


def test_states_and_scores_come_from_one_pass() -> None:
    """A calibrator that reads hidden states costs no second pass. Prefixes that are too long have no reward."""

    class Once(type(prms.create("qwen", checkpoint="nano:prm"))):  # type: ignore[misc]
        def score_batch(self, requests: Any) -> Any:
            raise AssertionError("The PRM read the prefixes a second time.")

    def by_state(states: Any, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        read = ~np.isnan(logits)
        too_long.append(not read.all())
        assert np.array_equal(states.logit, logits[read])
        assert len(states.states[states.leaves]) == read.sum()
        return calibrate([], logits)

    too_long: list[bool] = []
    strategy = create_as(SearchStrategy, strategies, "beam search", width=2, expansions=2)
    llm = llms.create("synthetic-llm", skill=0.7)
    for most in (400, 60):
        too_long.clear()
        plain, once = (cls(checkpoint="nano:prm", max_tokens=most) for cls in (Once.__base__, Once))
        pair = [
            StepSearch(llm, prm, strategy, read, SAMPLING, None, 5, from_states).run(QUESTIONS[:3])
            for prm, read, from_states in ((plain, calibrate, False), (once, by_state, True))
        ]
        for first, second in zip(*pair, strict=True):
            assert first.answer.steps == second.answer.steps
            assert first.answer.logit == pytest.approx(second.answer.logit, abs=1e-4, nan_ok=True)
            assert second.scored_tokens > 0
        assert any(too_long) is (most == 60)


class Script(LLM):
    """Each prefix has its continuations, given as (text, finish_reason)."""

    def __init__(self, continuations: Mapping[Steps, Sequence[tuple[str, FinishReason]]]) -> None:
        self.continuations = continuations

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        return [
            [Completion(text, 1, reason) for text, reason in self.continuations[each.steps][:n]] for each in prefixes
        ]


class Marks(PRM):
    """The last step is a number, or has one in a box: the log-odds."""

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        marks = [float(steps[-1].strip("\\boxed{} ")) if steps else 0.0 for steps in trajectories]
        logits = [np.array([mark], dtype=np.float32) for mark in marks]
        return [PrefixScores(each, expit(each), np.zeros(1, dtype=bool), 1) for each in logits]


def scripted(continuations: Mapping[Steps, Sequence[tuple[str, FinishReason]]], **arguments: Any) -> Searched:
    strategy = create_as(SearchStrategy, strategies, "beam search", width=1, **arguments)
    models = (Script(continuations), Marks(), strategy, calibrate)
    return StepSearch(*models, SAMPLING, None, 1).run(QUESTIONS[:1])[0]


@pytest.mark.parametrize(("finished", "answer"), [("kept", "\\boxed{1}"), ("pruned", "\\boxed{-2}")])
def test_a_finished_answer_comes_back_unless_it_was_pruned(finished: str, answer: str) -> None:
    """What looks better in the first round ends badly in the second."""
    found = scripted(
        {
            (): [("\\boxed{1}", "end"), ("3", "stop")],
            ("3",): [("\\boxed{-2}", "end"), ("\\boxed{-3}", "end")],
        },
        expansions=2,
        finished=finished,
    )
    assert found.answer.steps[-1] == answer
    assert [beam.logit for beam in found.finished] == [1, -2, -3]


def test_a_text_that_ends_without_a_box_has_ended() -> None:
    ends: dict[FinishReason, Steps] = {"end": ("1",), "length": ("1",), "stop": ("1", "\\boxed{2}")}
    for reason, steps in ends.items():
        found = scripted({(): [("1", reason)], ("1",): [("\\boxed{2}", "end")]}, expansions=1)
        assert found.answer.steps == steps


def test_an_empty_step_has_not_ended() -> None:
    """The prefix after it is the best one, so the search goes on from it, until it is as long as it may be."""
    worse: list[tuple[str, FinishReason]] = [("", "stop"), ("\\boxed{0}", "end")]
    found = scripted({(): [("1", "stop")] * 2, ("1",): worse}, expansions=2, most_steps=4)
    assert (found.answer.steps, found.answer.drawn, found.rounds) == (("1",), 4, 4)
    assert scripted({(): [("", "end")]}, expansions=1).rounds == 1


@pytest.mark.parametrize("every", [1, 3])
def test_empty_steps_for_ever_end(every: int) -> None:
    found = scripted({(): [("", "stop")] * 2}, expansions=2, every=every, most_steps=7)
    assert (found.answer.steps, found.answer.drawn, found.answer.tokens) == ((), 7, 7)
    assert found.rounds == -(-7 // every)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a grid with searches."""
    folder = tmp_path_factory.mktemp("search")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    wide = {"width": 4, "expansions": 4}
    data |= {
        "llms": data["llms"][:1],
        "calibrators": ["uncalibrated", "isotonic"],
        "strategies": [
            "pass@1",
            *(
                {"name": name, "arguments": wide}
                for name in ("beam search", "beam search + IAS-of-K", "beam search + IAS-of-M")
            ),
            {
                "name": "by medians",
                "plugin": "beam search",
                "arguments": {**wide, "rank": "calibrated"},
                "calibrators": ["isotonic"],
            },
        ],
        "calibration": {"name": "synthetic-questions", "questions": 20, "trajectories": 2, "follow_ups": 4},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "datasets": [{"name": "synthetic-questions", "questions": 20}],
        "scaling": {"samples": 16, "targets": [0.9]},
        "shards": {"questions": 10, "trajectories": 8},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    assert run_here(path, folder / "out").failed_cells == 0
    # One shard of a search is lost: only it, and what rests on it, is computed again, to the same bytes.
    shard = sorted((folder / "out" / "artifacts" / "search").iterdir())[0] / "searched.parquet"
    before = shard.read_bytes()
    shard.unlink()
    assert run_here(path, folder / "out").computed == 1
    assert shard.read_bytes() == before
    return folder / "out"


def test_searches_are_on_the_leaderboard(finished: Path, prmcal: Prmcal) -> None:
    rows = json.loads(render_leaderboard(finished, "scaling", "json"))
    by_strategy: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        assert row["status"] == "done"
        by_strategy.setdefault(row["strategy"], []).append(row)
    (fixed,) = by_strategy["beam search"]
    assert fixed["budget_ratio"] == pytest.approx(1.0)
    assert fixed["accuracy"] > by_strategy["pass@1"][0]["accuracy"]
    for name in ("beam search + IAS-of-K", "beam search + IAS-of-M"):
        assert {row["calibrator"] for row in by_strategy[name]} == {"uncalibrated", "isotonic"}
        for row in by_strategy[name]:
            assert row["budget_ratio"] < 1
            assert row["budget_ratio"] == pytest.approx(row["samples"] / fixed["samples"])
            assert row["accuracy"] <= row["pass_at_n"]


def test_increasing_rewards_rank_as_the_score_does(finished: Path, prmcal: Prmcal) -> None:
    rows = json.loads(render_leaderboard(finished, "scaling", "json"))
    fixed, by_medians = (next(row for row in rows if row["strategy"] == name) for name in ("beam search", "by medians"))
    assert (fixed["calibrator"], by_medians["calibrator"]) == (None, "isotonic")
    assert fixed["level"] is by_medians["level"] is None
    assert all(fixed[name] == by_medians[name] for name in ("accuracy", "samples", "budget_ratio"))


def test_a_search_of_fixed_width_is_made_once_and_costs_are_those_of_the_search(finished: Path) -> None:
    # 2 shards of each fixed search, and of each of 2 variants with each of 2 calibrators.
    assert len(list((finished / "artifacts" / "search").iterdir())) == 2 * (1 + 1 + 2 * 2)
    assert len(searches(finished / "leaderboard.duckdb")) == 1 + 1 + 2 * 2
    board = catalog.leaderboard(finished / "leaderboard.duckdb", "scaling").set_index("strategy")
    assert (board.loc["beam search", ["prm_tokens", "prefill_tokens"]] > 0).all()


def test_the_chosen_trajectory_can_be_read(finished: Path) -> None:
    import duckdb

    with duckdb.connect(str(finished / "leaderboard.duckdb"), read_only=True) as connection:
        texts = connection.execute("SELECT text, correct FROM searches").fetchall()
    assert len(texts) == 20 * 6
    assert all(("boxed{1}" in text) == correct for text, correct in texts)
