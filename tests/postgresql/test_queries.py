"""All queries give the same in a server as in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.cell_names import find_cell, numbered
from prmcal.db.overview.order import ranking_order
from prmcal.db.postgresql.shared import writing
from prmcal.db.queries.differences.common_questions import (
    common_prefixes,
    question_differences,
    question_values,
)
from prmcal.db.queries.trajectories.thoughts import cut_off_thoughts
from prmcal.db.reader import Database, frame, reading
from prmcal.db.run_folder import published_path
from prmcal.db.tables import Base
from prmcal.errors import ArtifactError
from tests.db import merged_factory

CELL = "calibration/weak/qwen/temperature/nano-math"
OTHER = "calibration/weak/qwen/uncalibrated/nano-math"
SCALED = "scaling/weak/qwen/temperature/nano-math/best-of-n+ias/C=0.99/beta=0.1"
SIMPLE = "scaling/weak/nano-math/pass@1"

QUERIES: dict[str, Callable[[Database], Any]] = {
    **{
        name: getattr(catalog, name)
        for name in (
            "asking_others",
            "calibration_cells",
            "cell_provenance",
            "cells",
            "comparisons",
            "costs",
            "curve_areas",
            "curve_points",
            "datasets",
            "error_histograms",
            "frontier",
            "is_merged",
            "jobs",
            "leaderboard",
            "league",
            "measurements",
            "metrics",
            "other_names",
            "overview",
            "planned_shards",
            "plugins",
            "references",
            "reward_errors",
            "risk_points",
            "runs",
            "searches",
            "seed_spreads",
            "submissions",
        )
    },
    "beside_measured": lambda source: catalog.beside_measured(source, "cal_qwen"),
    "calibration_cell": lambda source: catalog.calibration_cell(source, SCALED),
    "cell": lambda source: catalog.cell(source, CELL),
    "compare_cells": lambda source: catalog.compare_cells(source, SCALED, SIMPLE),
    "exact_curves": lambda source: catalog.exact_curves(source, "nano-math", "weak", "qwen"),
    "job_page": lambda source: catalog.job_page(source, kind="score", limit=2, offset=1),
    "history": lambda source: catalog.history(source, CELL, "brier"),
    "submission_cells": lambda source: catalog.submission_cells(source, merged_factory.ADA),
    "verifications": lambda source: catalog.verifications(source, merged_factory.ADA),
    "league_points": lambda source: catalog.league_points(source, "nano-math", "weak", "qwen"),
    "prefixes": lambda source: catalog.prefixes(source, CELL, "q0"),
    "question_accuracies": lambda source: catalog.question_accuracies(source, [SCALED, SIMPLE]),
    "question_page": lambda source: catalog.question_page(
        source, CELL, order="reward_error", descending=True
    ),
    "question_page, search": lambda source: catalog.question_page(source, CELL, search="WHAT is"),
    "questions": lambda source: catalog.questions(source, CELL),
    "reliability": lambda source: catalog.reliability(source, CELL),
    "signed_errors": lambda source: catalog.signed_errors(source, CELL),
    "trajectories": lambda source: catalog.trajectories(source, CELL),
    "with_role": lambda source: catalog.with_role(source, "baseline"),
    "worst_prefixes": lambda source: catalog.worst_prefixes(source, CELL, column="calibrated_reward"),
    "scaling leaderboard": lambda source: catalog.leaderboard(source, "scaling"),
    "level": lambda source: catalog.measurements(source, question_level=2),
    "common_prefixes": lambda source: common_prefixes(source, CELL, OTHER),
    "question_differences": lambda source: question_differences(source, CELL, OTHER),
    "question_values": lambda source: question_values(source, SCALED),
    "cut_off_thoughts": cut_off_thoughts,
    "find_cell": lambda source: find_cell(source, "7"),
    "numbered": numbered,
    "ranking_order": ranking_order,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("merged")
    merged_factory.build(directory)
    return published_path(directory)


@pytest.fixture(scope="module")
def url(path: Path, new_database: Callable[[], sa.URL]) -> sa.URL:
    address = new_database()
    with writing(address, pytest.fail) as transaction, reading(path) as file:
        transaction.replace_content(file)
    return address


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_same_in_a_server(name: str, path: Path, url: sa.URL) -> None:
    expected = QUERIES[name](path)
    assert_same(QUERIES[name](url), expected)


def test_every_query_of_the_catalogue_is_compared() -> None:
    needs_two_databases = {"compare_runs"}
    assert set(catalog.__all__) - needs_two_databases <= set(QUERIES)


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_all_rows_are_the_same_in_a_server(table: sa.Table, path: Path, url: sa.URL) -> None:
    first, second = (frame(source, sa.select(table)) for source in (path, url))
    order = [name for name in first if not isinstance(first[name].iloc[0], dict)]
    assert len(first)
    assert_same(*(each.sort_values(order, ignore_index=True) for each in (second, first)))


def test_runs_are_compared_by_their_intervals(path: Path, url: sa.URL) -> None:
    in_file = catalog.compare_runs(path, path)
    found = catalog.compare_runs(url, path)
    assert found.both["p"].isna().all()
    assert list(found.both["overlap"]) == list(in_file.both["overlap"])


def test_what_needs_artifacts_says_so(url: sa.URL) -> None:
    with pytest.raises(ArtifactError, match=r"which a server does not have. Give the folder"):
        catalog.compare_cells(url, CELL, CELL.replace("weak", "strong"))


def assert_same(found: Any, expected: Any) -> None:
    """Sums may differ in the last digit, because a server adds in another order."""
    assert type(found) is type(expected)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, rtol=1e-12, atol=1e-12)
    elif dataclasses.is_dataclass(expected):
        assert_same(vars(found), vars(expected))
    elif isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found, expected, rtol=1e-12, atol=1e-12)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(
            found, expected
        ) if expected.dtype.kind == "f" else np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        assert len(found) == len(expected)
        for each, other in zip(found, expected, strict=True):
            assert_same(each, other)
    else:
        assert found == expected or found != found
