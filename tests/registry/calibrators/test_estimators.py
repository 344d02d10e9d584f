"""Calibrators that keep an estimator of scikit-learn are saved without a pickle and loaded with known types only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prmcal import Calibrator
from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.plugins import calibrators, load_plugin_file
from tests.conftest import ROOT

NAMES = ("boosted-trees", "gaussian-process")


@pytest.fixture(scope="module", autouse=True)
def _examples() -> Iterator[None]:
    before = dict(calibrators._registered)
    load_plugin_file(ROOT / "examples" / "sklearn_calibrators.py")
    yield
    calibrators._registered = before


def fitted(name: str) -> Calibrator:
    logits = np.linspace(-3, 3, 60)
    return calibrators.create(name).fit(logits, np.arange(60) // 12, np.full(60, 8))


@pytest.mark.parametrize("name", NAMES)
def test_they_conform(name: str) -> None:
    plugin = calibrators.create(name)
    for check in checks_of(plugin):
        check(plugin)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_one_predicts_the_same(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path)
    assert (tmp_path / "estimator_.skops").exists()
    logits = np.linspace(-5, 5, 40)
    loaded = calibrators.create(name).load(tmp_path)
    assert np.array_equal(loaded.predict(logits), fitted(name).predict(logits))


def test_a_file_of_a_stranger_calls_nothing(tmp_path: Path) -> None:
    fitted("boosted-trees").save(tmp_path)
    # They take a second, also of the processes that run other files.
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    skops.io.dump(FunctionTransformer(os.system), tmp_path / "estimator_.skops")
    with pytest.raises(DataError, match=r"has .*system., which is not of scikit-learn, so it is not loaded"):
        calibrators.create("boosted-trees").load(tmp_path)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(PluginFailedError, match="pip install skops"):
        fitted("boosted-trees").save(tmp_path)
