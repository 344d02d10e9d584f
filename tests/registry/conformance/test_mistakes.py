"""``prmcal check`` finds the mistakes of authors of plugins, and says what to write instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prmcal.registry.conformance import (
    CheckResult,
    calibrator,
    check_build,
    dataset,
    llm,
    metric,
    prm,
    run_checks,
)
from prmcal.registry.plugins import KINDS as REGISTRIES
from tests.conftest import Prmcal
from tests.registry.conformance.mistakes import calibrators, datasets, llms, metrics, prms, strategies

WIDTH = 80

KINDS = {
    "metric": (metrics, metric.CHECKS),
    "calibrator": (calibrators, calibrator.CHECKS),
    "prm": (prms, prm.CHECKS),
    "llm": (llms, llm.CHECKS),
    "dataset": (datasets, dataset.CHECKS),
    "strategy": (strategies, ()),
}
MISTAKES = [
    pytest.param(kind, cls, id=f"{kind} {name}")
    for kind, (module, _) in KINDS.items()
    for name, cls in vars(module).items()
    if "found_by" in vars(cls if isinstance(cls, type) else object)
]
FIT = "    def fit(self, features, k, n): return self\n"
PREDICT = "    def predict(self, features): return features[:, None]\n"


def report(kind: str, cls: type[Any]) -> list[CheckResult]:
    """The results of all checks of a plugin, which is registered meanwhile."""
    registry = REGISTRIES[kind]
    registry.register("mine")(cls)
    try:
        built = check_build(lambda: registry.create("mine"), cls)
    finally:
        registry.forget(cls.__module__)
    return [built] if isinstance(built, CheckResult) else run_checks(built)


@pytest.mark.parametrize(("kind", "cls"), MISTAKES)
def test_a_mistake_is_found_and_explained(kind: str, cls: type[Any]) -> None:
    check, explanation = cls.found_by
    failed = [each for each in report(kind, cls) if not each.passed and not each.skipped]
    assert any(check in each.name and re.search(explanation, each.message) for each in failed), failed


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_without_a_mistake_passes(kind: str) -> None:
    failed = [each for each in report(kind, KINDS[kind][0].NoMistake) if not each.passed]
    assert all(each.skipped for each in failed), failed


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_is_seen_to_fail(kind: str) -> None:
    names = [check.__name__.removeprefix("check_").replace("_", " ") for check in KINDS[kind][1]]
    seen = {each.found_by[0] for each in vars(KINDS[kind][0]).values() if hasattr(each, "found_by")}
    assert [name for name in names if not any(part in name for part in seen)] == []


def test_a_plugin_that_needs_arguments_does_not_end_the_check_of_its_file(prmcal: Prmcal, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    needy = "@calibrator('needy')\nclass Needy(Calibrator):\n    reads = 'reward'\n"
    needy += "    def __init__(self, folder: str) -> None:\n        self.folder = folder\n"
    content = "@calibrator('content')\nclass Content(Calibrator):\n"
    path.write_text(f"from prmcal import Calibrator, calibrator\n{needy}{FIT}{PREDICT}{content}{FIT}{PREDICT}")
    given = prmcal("check", path, "--argument", "folder=here")
    assert given.returncode == 0, given.stdout
    assert "2 plugins: 2 passed" in given.stdout
    without = prmcal("check", path).stdout
    assert "2 plugins: 1 passed, 1 needs arguments" in " ".join(without.split())
    assert re.search(r"needs arguments\. Run\n  prmcal check \S+ --argument folder=\.\.\.$", without, re.MULTILINE)
    wrong = prmcal("check", path, "--argument", "foldr=here")
    assert wrong.returncode == 2
    assert "has an argument 'foldr'. Did you mean 'folder'?" in wrong.stderr


WHOLE = f"class Mine(Calibrator):\n{FIT}{PREDICT}"
FILES = {
    "the decorator of another kind": (
        f"from prmcal import Calibrator, prm\n@prm('other')\n{WHOLE}",
        r'must be a class that derives from prmcal\.PRM. Write @calibrator\("other"\) above it',
    ),
    "a decorator without a name": (
        f"from prmcal import Calibrator, calibrator\n@calibrator\n{WHOLE}",
        r'The decorator needs a name. Write @calibrator\("my-calibrator"\) above the class',
    ),
    "no decorator": (
        f"from prmcal import Calibrator\n{WHOLE}",
        r"Put a decorator such as @calibrator\('name'\)",
    ),
}


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_in_a_file_is_explained(mistake: str, prmcal: Prmcal, tmp_path: Path) -> None:
    content, explanation = FILES[mistake]
    path = tmp_path / "mine.py"
    path.write_text(content)
    done = prmcal("check", path)
    assert done.returncode != 0
    assert all(len(line) <= WIDTH for line in done.stdout.splitlines())
    assert re.search(explanation, " ".join((done.stdout + done.stderr).split())), done.stdout + done.stderr
