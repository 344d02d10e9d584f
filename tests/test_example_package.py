"""The example of a package of plugins: it is found by its entry points, conforms, and does what was published."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from sklearn.isotonic import IsotonicRegression

from prmcal.calibrators import Isotonic
from tests.conftest import EXAMPLE_PACKAGE, environment_with_example

CHECK = """
import sys
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import calibrators
assert calibrators.names()["spline"] == "prmcal_curves.spline:SplineCalibration"
plugins = [calibrators.create(name) for name in ("spline", "venn-abers")]
assert all("source" in plugin.identity() for plugin in plugins)
failed = [(plugin.plugin_name, result) for plugin in plugins for result in run_checks(plugin) if not result.passed]
print(*failed, sep="\\n")
sys.exit(len(failed))
"""
ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.floats(0, 1)), min_size=1, max_size=15)


def test_the_installed_package_is_found_and_conforms(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK],
        env=environment_with_example(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_imports_only_public_names() -> None:
    lines = [line for file in EXAMPLE_PACKAGE.rglob("*.py") for line in file.read_text().splitlines()]
    of_prmcal = {line for line in lines if "prmcal" in line and line.startswith(("from ", "import "))}
    assert of_prmcal == {"from prmcal import Calibrator"}


@pytest.fixture(scope="module", autouse=True)
def importable() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE_PACKAGE)
        yield


def spline(**arguments: Any) -> Any:
    from prmcal_curves.spline import SplineCalibration  # type: ignore[import-not-found]

    return SplineCalibration(**arguments)


def venn_abers() -> Any:
    from prmcal_curves.venn_abers import VennAbers  # type: ignore[import-not-found]

    return VennAbers()


def test_a_spline_is_fitted_to_the_cumulative_error_by_weighted_least_squares() -> None:
    """Knots at 0, .2, ..., 1, and the weights of the points are their follow-ups."""
    random = np.random.default_rng(0)
    reward, n = np.sort(random.uniform(0.2, 0.8, 500)), random.integers(1, 30, 500)
    k = random.binomial(n, reward**2)
    shares = np.append(0, np.cumsum(n)) / n.sum()
    error = np.append(0, np.cumsum(k - n * reward)) / n.sum()
    weights = np.append(n.mean(), n)
    basis = CubicSpline(np.linspace(0, 1, 6), np.eye(6), bc_type="natural")(shares)
    knots = np.linalg.solve(basis.T @ (weights[:, None] * basis), basis.T @ (weights * error))
    slope = np.diff(basis @ knots) / np.diff(shares)
    fitted = spline().fit(reward, k, n)
    np.testing.assert_allclose(fitted.predict(reward)[:, 0], reward + slope, atol=1e-9)


def test_a_spline_corrects_an_order_that_is_wrong() -> None:
    random = np.random.default_rng(1)
    reward, n = random.uniform(0, 1, 5000), np.full(5000, 8)
    k = random.binomial(n, 0.8 - 0.6 * reward)
    found = spline().fit(reward, k, n).predict(np.array([0.1, 0.5, 0.9]))[:, 0]
    np.testing.assert_allclose(found, [0.74, 0.5, 0.26], atol=0.04)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.floats(0, 1))
def test_one_reward_gets_the_pooled_success_rate(k: list[int], reward: float) -> None:
    n = np.full(len(k), 8)
    fitted = spline().fit(np.full(len(k), reward), np.array(k), n)
    np.testing.assert_allclose(fitted.predict(np.array([0.0, reward, 1.0])), sum(k) / n.sum(), atol=1e-9)


@settings(max_examples=20)
@given(ROWS)
def test_venn_abers_is_isotonic_regression_with_one_more_outcome(rows: list[tuple[int, int, float]]) -> None:
    reward, n = np.array([row[0] for row in rows]) / 12, np.array([row[1] for row in rows])
    k = np.round(n * np.array([row[2] for row in rows])).astype(np.int64)
    new = np.arange(25) / 24
    fitted = venn_abers().fit(reward, k, n)
    pairs, point = fitted.pairs(new), fitted.predict(new)[:, 0]
    for outcome in (0, 1):
        expected = [
            IsotonicRegression()
            .fit(np.append(reward, at), np.append(k / n, outcome), sample_weight=np.append(n, 1))
            .predict([at])[0]
            for at in new
        ]
        np.testing.assert_allclose(pairs[:, outcome], expected, atol=1e-12)
    assert (pairs[:, 0] <= point + 1e-12).all() and (point <= pairs[:, 1] + 1e-12).all()
    assert (np.diff(point) >= -1e-12).all() and ((point > 0) & (point < 1)).all()


def test_much_data_makes_venn_abers_isotonic_regression() -> None:
    random = np.random.default_rng(0)
    reward, n = random.uniform(0, 1, 20_000), np.full(20_000, 16)
    k = random.binomial(n, 0.2 + 0.6 * reward)
    new = np.linspace(0.1, 0.9, 99)
    isotonic = Isotonic().fit(reward, k, n)
    np.testing.assert_allclose(venn_abers().fit(reward, k, n).predict(new)[:, 0], isotonic.predict(new), atol=0.01)
