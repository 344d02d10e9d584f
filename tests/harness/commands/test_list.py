"""`prmcal list` says what each calibrator reads, predicts, costs and is known by, and what any plugin takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prmcal.errors import UnknownPluginError
from prmcal.harness.cli.learning import render_plugins
from prmcal.registry.plugins import calibrators, load_plugin_file

BROKEN = "prmcal_no_such_module:Calibrator"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calibrators, "_registered", dict(calibrators._registered))
    monkeypatch.setattr(calibrators, "_builtin", dict(calibrators._builtin))
    monkeypatch.setenv("COLUMNS", "160")
    yield


def listed() -> str:
    return " ".join(render_plugins("calibrator").split())


def test_what_each_reads_and_which_levels_it_predicts() -> None:
    assert "temperature logit point no Guo et al. (2017), ICML, arXiv:1706.04599 uncalibrated" in listed()
    assert "isotonic reward point no Zadrozny" in listed()
    assert "beta-binomial hidden any no Li et al. (2026)" in listed()
    assert "arXiv:2605.06785 (abstract only; not a reproduction)" in listed()


def test_costs_and_levels_that_depend_on_arguments() -> None:
    text = listed()
    assert "quantile-lora prm 0.1, 0.5, 0.9 3 passes Park et al." in text
    assert "conformal reward 0.1, 0.5 no Romano et al." in text  # of `isotonic`, its default
    assert "quantile-adapter prm as given no Park et al." in text


def test_it_starts_fast_because_plugins_import_libraries_where_they_use_them() -> None:
    code = (
        "import sys; from prmcal.harness.cli.learning import render_plugins; from prmcal.registry.plugins import KINDS;"
        "list(map(render_plugins, [None, *KINDS]));"
        "heavy = {'torch', 'transformers', 'pandas', 'sklearn', 'sympy', 'duckdb'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_calibrator_that_cannot_be_loaded_does_not_hide_the_others() -> None:
    calibrators._builtin["not-loadable"] = BROKEN
    text = listed()
    assert "not-loadable ? ? ?" in text and "temperature logit" in text


def test_a_calibrator_of_a_file_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from prmcal import Calibrator, calibrator\n\n\n"
        '@calibrator("of-a-file")\nclass Mine(Calibrator):\n    levels = (0.25, 0.5)\n\n'
        "    def fit(self, features, k, n):\n        return self\n\n"
        "    def predict(self, features):\n        return features\n"
    )
    load_plugin_file(path)
    assert "of-a-file reward 0.25, 0.5 no" in listed()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert max(map(len, render_plugins("calibrator").splitlines())) <= width


def test_a_plugin_has_its_arguments_with_types_defaults_and_meanings() -> None:
    text = " ".join(render_plugins("dataset", "jsonl").split())
    assert text.startswith("Questions from files of JSON lines. prmcal.registry.datasets.jsonl:JsonlDataset")
    assert "path text or list of: text required The file or files of the test split" in text
    assert "calibration_share number, above 0 and below 1 null The share of the questions" in text
    assert render_plugins("calibrator", "isotonic").endswith("It takes no arguments.")
    with pytest.raises(UnknownPluginError, match="Did you mean 'isotonic'"):
        render_plugins("calibrator", "isotonc")
