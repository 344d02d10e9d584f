"""The overview: means over settings, ranks and gains against brute force, and the whole query on a small run."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from prmcal.db.html import boards
from prmcal.db.metrics import RANKING_METRIC, SETTING
from prmcal.db.overview.competition import competition, competition_frame, of_calibrators
from prmcal.db.overview.query import league, overview
from prmcal.db.overview.ranking import (
    mean_over_settings,
    means_over_settings,
    rank_by_means,
    reduction_of_chosen,
    relative_reduction,
)
from prmcal.db.overview.reading import against_equal_cost
from prmcal.db.overview.types import Overview
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.statistics.intervals import bounded_interval, error_interval, skewed_interval
from prmcal.db.text.answer import answer, winner
from prmcal.db.text.bars import bars
from prmcal.db.text.overview import cards, measured, ranking_board, ranking_legend
from tests.db import factory

CALIBRATORS = ("none", "good", "best")
QUESTIONS = {"math": 40, "aime": 25}


@pytest.fixture(scope="module")
def whole(published: Path) -> Overview:
    """The overview of the small run."""
    return overview(published)


def values_of(seed: int, **shift: float) -> pd.DataFrame:
    """Values of two LLMs and two data sets, which share the difficulty of their questions."""
    draw = np.random.default_rng(seed)
    rows = []
    for dataset, count in QUESTIONS.items():
        difficulty = draw.gamma(2.0, 0.1, count)
        for llm, calibrator in itertools.product(("weak", "strong"), shift):
            noise = draw.normal(0, 0.02, count)
            rows += [
                (dataset, llm, "prm", calibrator, f"q{i}", difficulty[i] + noise[i] + shift[calibrator])
                for i in range(count)
            ]
    return pd.DataFrame(rows, columns=[*SETTING, "calibrator", "question_id", "value"])


def test_a_mean_over_settings_is_the_mean_of_their_means() -> None:
    values = values_of(1, none=0.2)
    # One setting has half of its questions only. It counts as much as the others.
    values = values[(values["llm"] != "weak") | (values["question_id"].str[1:].astype(int) % 2 == 0)]
    found = mean_over_settings(values, error_interval)
    assert found.value == pytest.approx(values.groupby(SETTING)["value"].mean().mean())
    assert found.low < found.value < found.high


def test_several_means_at_once_are_those_of_each() -> None:
    values = values_of(1, none=0.2, good=0.1, best=0.0)
    # One calibrator has half of the questions at one setting, and another one has no values on one data set.
    odd = values["question_id"].str[1:].astype(int) % 2 == 1
    values = values[~((values["calibrator"] == "good") & (values["llm"] == "weak") & odd)]
    values = values[~((values["calibrator"] == "best") & (values["dataset"] == "aime"))]
    found = means_over_settings(values, "calibrator", error_interval)
    assert set(found) == set(CALIBRATORS)
    for name, own in values.groupby("calibrator"):
        alone = mean_over_settings(own, error_interval)
        assert (found[name].low, found[name].value, found[name].high) == pytest.approx(
            (alone.low, alone.value, alone.high)
        )


def test_the_interval_of_one_setting_is_that_of_its_rule() -> None:
    values = values_of(2, none=0.2).query("dataset == 'math' and llm == 'weak'")
    right = values.assign(value=1.0)
    low, high = bounded_interval(np.ones(QUESTIONS["math"]))
    found = mean_over_settings(right, bounded_interval)
    assert (found.low, found.value, found.high) == pytest.approx((float(low), 1.0, float(high)))


def test_settings_of_one_data_set_are_not_independent() -> None:
    one = values_of(3, none=0.2).query("llm == 'weak'")
    copies = pd.concat([one, one.assign(llm="copy")])
    assert mean_over_settings(copies, error_interval) == mean_over_settings(one, error_interval)


def test_intervals_over_two_data_sets_contain_the_truth() -> None:
    draw = np.random.default_rng(4)
    inside = 0
    for _ in range(60):
        parts = [
            pd.DataFrame({"dataset": name, "llm": "l", "prm": "p", "question_id": range(n), "value": drawn})
            for name, n in (("a", 60), ("b", 30))
            for drawn in [draw.gamma(1.0, 0.1, n)]
        ]
        found = mean_over_settings(pd.concat(parts), skewed_interval)
        inside += found.low <= 0.1 <= found.high
    assert inside >= 0.9 * 60


def test_the_cut_is_one_minus_the_ratio_of_the_means() -> None:
    values = values_of(5, none=0.2, good=0.05)
    base, good = (values[values["calibrator"] == name] for name in ("none", "good"))
    means = [each.groupby(SETTING)["value"].mean().mean() for each in (good, base)]
    found = relative_reduction(good, base)
    assert found.value == pytest.approx(1 - means[0] / means[1])
    draw = np.random.default_rng(6)
    resampled = []
    for _ in range(100):
        parts = []
        for dataset, count in QUESTIONS.items():
            chosen = [f"q{i}" for i in draw.integers(0, count, count)]
            parts.append(
                values[values["dataset"] == dataset]
                .set_index("question_id")
                .groupby("calibrator")[["value"]]
                .apply(lambda each, chosen=chosen: each.loc[chosen].mean())["value"]
            )
        mean = sum(parts) / len(parts)
        resampled.append(1 - mean["good"] / mean["none"])
    # The interval is a little wider, since it corrects for the skewness and for the small samples.
    assert 1.0 < (found.high - found.low) / (3.92 * np.std(resampled)) < 1.5


def test_ranks_are_those_of_every_setting() -> None:
    values = values_of(7, none=0.2, good=0.001, best=0.0)
    found = rank_by_means(values, "calibrator")
    means = values.groupby([*SETTING, "calibrator"])["value"].mean().unstack()
    ranks = pd.DataFrame(rankdata(means, axis=1), columns=means.columns)
    assert {name: each.mean_rank.value for name, each in found.items()} == ranks.mean().to_dict()
    assert {name: each.lowest for name, each in found.items()} == (ranks == 1).sum().to_dict()
    assert list(found)[-1] == "none"
    assert (found["none"].rank_low, found["none"].rank_high) == (3, 3)
    # The other two differ by less than their noise.
    assert (found["good"].rank_low, found["good"].rank_high) == (1, 2)
    assert [each.bracket for each in found.values()] == [1, 1, 2]
    for each in found.values():
        assert each.mean_rank.low <= each.mean_rank.value <= each.mean_rank.high


def test_equal_calibrators_share_their_ranks() -> None:
    values = values_of(8, good=0.1)
    both = pd.concat([values, values.assign(calibrator="same")])
    found = rank_by_means(both, "calibrator")
    assert [each.mean_rank.value for each in found.values()] == [1.5, 1.5]
    assert [each.rank for each in found.values()] == [1, 1]
    assert [(each.rank_low, each.rank_high, each.lowest) for each in found.values()] == [(1, 2, 4), (1, 2, 4)]
    assert [(each.mean_rank.low, each.mean_rank.high) for each in found.values()] == [(1, 2), (1, 2)]


def test_the_true_mean_rank_of_calibrators_that_are_close_lies_in_its_interval() -> None:
    """Ranks in the resamples themselves contain it in seven of ten cases."""
    inside = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        rows = [
            ("math", llm, "prm", name, f"q{question}", shift + draw.normal())
            for llm in ("a", "b", "c", "d")
            for question in range(30)
            for name, shift in zip(CALIBRATORS, (0.1, 0.05, 0.0), strict=True)
        ]
        values = pd.DataFrame(rows, columns=[*SETTING, "calibrator", "question_id", "value"])
        found = rank_by_means(values, "calibrator")
        for name, true in zip(CALIBRATORS, (3, 2, 1), strict=True):
            inside.append(found[name].mean_rank.low <= true <= found[name].mean_rank.high)
    assert np.mean(inside) > 0.93


def test_a_setting_with_one_calibrator_has_no_ranks() -> None:
    assert rank_by_means(values_of(9, good=0.1), "calibrator") == {}


def test_the_difference_to_equal_cost_is_that_of_the_accuracies() -> None:
    draw = np.random.default_rng(10)
    count, most = 30, 8
    curve = np.sort(draw.random((count, most)), axis=1)
    samples = draw.integers(1, most + 1, count)
    setting = {"dataset": "math", "llm": "weak", "prm": "prm"}
    questions = [f"q{i}" for i in range(count)]
    spent = pd.DataFrame({**setting, "calibrator": "good", "question_id": questions, "value": samples})
    right = spent.assign(value=curve[np.arange(count), samples - 1])
    curves = pd.DataFrame(
        [(*setting.values(), f"q{i}", n + 1, curve[i, n]) for i, n in itertools.product(range(count), range(most))],
        columns=[*SETTING, "question_id", "samples", "accuracy"],
    )
    found = against_equal_cost(spent, curves)
    cost = samples.mean()
    fixed = np.interp(cost, np.arange(1, most + 1), curve.mean(axis=0))
    assert found["value"].mean() == pytest.approx(right["value"].mean() - fixed)
    # Resampled questions have another mean cost. To first order, the values say how the difference changes.
    close = 0
    for _ in range(100):
        drawn = draw.integers(0, count, count)
        exact = right["value"].to_numpy()[drawn].mean() - np.interp(
            samples[drawn].mean(), np.arange(1, most + 1), curve[drawn].mean(axis=0)
        )
        close += abs(found["value"].to_numpy()[drawn].mean() - exact) < 0.02
    assert close >= 90


def test_the_whole_budget_costs_as_much_as_itself() -> None:
    setting = {"dataset": "math", "llm": "weak", "prm": "prm"}
    spent = pd.DataFrame({**setting, "calibrator": "c", "question_id": ["a", "b"], "value": [4.0, 4.0]})
    curves = pd.DataFrame(
        {
            **setting,
            "question_id": ["a"] * 4 + ["b"] * 4,
            "samples": [1, 2, 3, 4] * 2,
            "accuracy": [0.1, 0.2, 0.2, 0.25, 0.5, 0.7, 0.9, 1.0],
        }
    )
    assert list(against_equal_cost(spent, curves)["value"]) == [0.0, 0.0]


def test_the_overview_agrees_with_the_leaderboard(published: Path, whole: Overview) -> None:
    found = whole
    table = leaderboard(published).set_index("cell_id")
    done = found.cells[found.cells["status"] == "done"].set_index("cell_id")
    assert len(done) == (table["status"] == "done").sum()
    assert done["value"].to_dict() == table.loc[done.index, RANKING_METRIC].to_dict()
    for cell, standing in done["standing"].dropna().items():
        assert standing == table.loc[cell, f"{RANKING_METRIC}_standing"]
    for row in found.ranking:
        own = done[done["calibrator"] == row.calibrator]
        assert row.settings == len(own)
        assert row.brier.value == pytest.approx(own["value"].mean())
        assert row.errors["signed_error"].value == pytest.approx(table.loc[own.index, "signed_error"].mean())
        assert row.gain is not None
        assert row.gain.samples.value == pytest.approx(20.0)
        assert row.gain.to_best_of_n is not None
        assert row.gain.to_best_of_n.value == pytest.approx(row.gain.accuracy.value - 0.62)
    assert [row.calibrator for row in found.ranking] == ["isotonic", "temperature", "uncalibrated"]
    assert [str(row.outcomes) for row in found.ranking] == ["3-3-0", "4-3-0", "0-0-7"]


def test_a_grid_without_best_of_n_has_no_share_of_it(published: Path, tmp_path: Path) -> None:
    shutil.copy(published, tmp_path / "copy.duckdb")
    with duckdb.connect(str(tmp_path / "copy.duckdb")) as connection:
        connection.execute("DELETE FROM cells WHERE strategy = 'best-of-n'")
    found = overview(tmp_path / "copy.duckdb")
    for row in found.ranking:
        assert row.gain is not None and (row.gain.share, row.gain.to_best_of_n) == (None, None)
        assert row.gain.samples.low < 20.0 < row.gain.samples.high


def test_settings_with_other_budgets_have_their_own_share(published: Path, whole: Overview, tmp_path: Path) -> None:
    shutil.copy(published, tmp_path / "copy.duckdb")
    with duckdb.connect(str(tmp_path / "copy.duckdb")) as connection:
        connection.execute(
            "UPDATE question_results SET value = 32 WHERE metric = 'samples' AND cell_id IN "
            "(SELECT cell_id FROM cells WHERE strategy = 'best-of-n' AND llm = 'weak')"
        )
    before, found = whole, overview(tmp_path / "copy.duckdb")
    for old, row in zip(before.ranking, found.ranking, strict=True):
        assert old.gain is not None and row.gain is not None
        assert row.gain.share is not None and old.gain.share is not None
        assert old.gain.share.value == pytest.approx(20 / 64)
        assert row.gain.share.value == pytest.approx((20 / 64 + 20 / 32) / 2)
        assert row.gain.share.low < row.gain.share.value < row.gain.share.high
        assert row.gain.to_best_of_n == old.gain.to_best_of_n


def test_findings_are_about_settings_of_the_best_calibrator(published: Path, whole: Overview, tmp_path: Path) -> None:
    shutil.copy(published, tmp_path / "copy.duckdb")
    with duckdb.connect(str(tmp_path / "copy.duckdb")) as connection:
        connection.execute("DELETE FROM cells WHERE calibrator = 'isotonic' AND llm = 'strong'")
        connection.execute(
            "UPDATE question_results SET value = 32 WHERE metric = 'samples' AND cell_id IN "
            "(SELECT cell_id FROM cells WHERE strategy = 'best-of-n' AND llm = 'weak')"
        )
    found = overview(tmp_path / "copy.duckdb")
    weak = overview(tmp_path / "copy.duckdb", llm=["weak"])
    assert found.ranking[0].calibrator == whole.ranking[0].calibrator == "isotonic"
    uncalibrated = next(each for each in weak.ranking if each.calibrator == "uncalibrated")
    assert uncalibrated is not None and found.before == uncalibrated.errors != whole.before
    assert cards(found)[0] == cards(weak)[0]
    # The questions that rank the calibrators say nothing of the error that the first one leaves.
    before = found.before["signed_error"]
    assert cards(found)[0].figure == f"{abs(before.value):.3f}"
    assert "only in some settings" in ranking_legend(found)
    assert "only in some settings" not in ranking_legend(weak)


def test_filters_recompute_the_ranking(published: Path, whole: Overview) -> None:
    part = overview(published, llm=["strong"], dataset=["nano-aime"])
    assert (whole.settings, part.settings) == (4, 1)
    assert set(part.cells["llm"]) == {"strong"}
    # The cell of isotonic regression failed at this setting.
    assert [row.calibrator for row in part.ranking] == ["temperature", "uncalibrated"]
    assert part.counts["failed"] == 1


def test_names_without_settings_give_an_empty_overview(published: Path) -> None:
    empty = overview(published, prm=["no such PRM"])
    assert empty.ranking == ()
    assert cards(empty) == ()
    assert "<table" not in boards.ranking_html(empty, of_calibrators(empty), str)
    assert answer(empty).startswith("Not known yet")


def test_a_bar_without_uncalibrated_scores_has_no_number(whole: Overview) -> None:
    *_, reductions, _ = bars(whole)
    ranked = {row.calibrator: text for row, text in zip(whole.ranking, reductions.values, strict=True)}
    assert whole.baseline is not None and ranked[whole.baseline] == "0"
    ranking = [replace(row, brier_reduction=None) for row in whole.ranking if row.calibrator != whole.baseline]
    *_, unknown, _ = bars(replace(whole, ranking=tuple(ranking), baseline=None))
    assert set(unknown.values) == {""}


def test_every_number_of_the_ranking_has_its_interval(whole: Overview) -> None:
    table = ranking_board(whole)
    assert table.head[:2] == ["Rank", "Calibrator"]
    for row in table.rows:
        for title, value in zip(table.head, row, strict=True):
            if (
                title in ("Mean rank", "Brier reduction", "Adaptive CE, corrected", "Signed error", "IAS accuracy")
                and value
            ):
                assert "[" in value, title
    assert all(column.about for column in table.columns)


def test_the_page_says_what_was_measured(whole: Overview) -> None:
    found = whole
    assert measured(found).startswith("3 calibrators in 4 settings: 2 LLMs and 1 PRM on 2 data sets")
    assert "provisional" in measured(found)  # The run of the fixture has not ended.
    board = of_calibrators(found)
    page = boards.competition_html(board, board.rows, cell=lambda cell: f"#{cell}", row=lambda name: f"?{name}")
    assert f'href="#{factory.FAILED_CELL}"' in page
    for name in factory.CALIBRATORS:
        assert f'<th scope="row"><a href="?{name}"' in page


def test_a_name_is_the_best_only_if_no_other_may_be(whole: Overview) -> None:
    def said(*lowest: int) -> str:
        rows = [replace(row, rank_low=low) for row, low in zip(whole.ranking, lowest, strict=True)]
        return winner(of_calibrators(replace(whole, ranking=tuple(rows))))

    assert [row.calibrator for row in whole.ranking] == ["isotonic", "temperature", "uncalibrated"]
    assert said(1, 2, 2) == "isotonic is the best."
    assert said(1, 1, 3) == "No clear winner: 2 of 2 calibrators may be the best."
    assert said(1, 1, 1) == "No calibrator is clearly better than the uncalibrated scores."


def test_the_repair_is_judged_on_other_questions_than_those_that_choose_it() -> None:
    cuts = []
    for seed in range(30):
        draw = np.random.default_rng(seed)
        # No calibrator repairs anything: all differ from the baseline by noise alone.
        values = pd.concat(
            values_of(seed, none=0.2).assign(
                calibrator=name, value=lambda rows, draw=draw: rows["value"] + draw.normal(0, 0.3, len(rows))
            )
            for name in ("none", *"abcdefgh")
        )
        cut = reduction_of_chosen(values, "none")
        assert cut is not None
        cuts.append((cut.value, cut.low <= 0 <= cut.high))
    means, inside = np.array(cuts).T
    # The best of eight on the same questions would seem to remove 5 standard errors of this mean.
    assert abs(means.mean()) < 3 * means.std() / 30**0.5
    assert inside.mean() >= 0.9
    assert reduction_of_chosen(values, "no such calibrator") is None


def test_models_and_strategies_are_ranked_as_calibrators_are(published: Path) -> None:
    table = leaderboard(published).set_index("cell_id")
    found = competition(published, "llm", dataset=["nano-math"])
    assert (found.kinds, found.settings) == (("dataset", "prm"), (("nano-math", "qwen"),))
    cells = {row.name: row.cells["nano-math", "qwen"] for row in found.rows}
    assert {name: cell.value for name, cell in cells.items()} == {
        name: table.loc[cell.cell_id, RANKING_METRIC] for name, cell in cells.items()
    }
    assert all(cell.cell_id.endswith(f"{name}/qwen/uncalibrated/nano-math") for name, cell in cells.items())
    assert [row.mean.value for row in found.rows if row.mean] == sorted(cell.value for cell in cells.values())
    assert [row.rank.rank for row in found.rows if row.rank] == [1, 2]
    frame = competition_frame(found)
    assert list(frame["nano-math/qwen"]) == [row.cells["nano-math", "qwen"].value for row in found.rows]
    assert competition(published, "prm").rows[0].rank is None  # without a rival
    strategies, entries = competition(published, "strategy"), league(published)
    assert [row.rank for row in strategies.rows] == [row.rank for row in entries.rows]
    stored = leaderboard(published, "league").set_index("cell_id")["area_gain"]
    cells_of = [cell for row in strategies.rows for cell in row.cells.values() if cell.status == "done"]
    assert {cell.cell_id: cell.value for cell in cells_of} == stored.dropna().to_dict()
