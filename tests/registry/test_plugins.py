"""The registry of plugins: names, arguments as data, entry points, plugin files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prmcal import Calibrator
from prmcal.errors import (
    DuplicatePluginError,
    InvalidArgumentsError,
    InvalidPluginError,
    UnknownPluginError,
)
from prmcal.registry.plugins import KINDS, Registry, calibrators, load_plugin_file

ROOT = Path(__file__).parents[2]


class Half(Calibrator):
    """Predicts one half, shifted."""

    def __init__(self, shift: float = 0.0, names: list[str] | None = None) -> None:
        self.shift = shift
        self.names = names

    def check_arguments(self) -> None:
        if abs(self.shift) > len(self.names or "x"):
            raise ValueError("The 'shift' parameter must not exceed the number of names.")

    def fit(self, features: np.ndarray, k: np.ndarray, n: np.ndarray) -> Half:
        return self

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.full((len(features), 1), 0.5 + self.shift)


class Needy(Half):
    def __init__(self, must: int) -> None:
        self.must = must


@pytest.fixture
def registry() -> Registry[Calibrator]:
    """A separate registry for each test, with two plugins."""
    built = Registry("calibrator", Calibrator)
    built._builtin = {"lazy": "no_such_module:Thing"}
    built.register("half")(Half)
    built.register("needy")(Needy)
    return built


def test_a_built_plugin_knows_its_name_and_arguments(registry: Registry[Calibrator]) -> None:
    plugin = registry.create("half", shift=0.25)
    assert isinstance(plugin, Half)
    assert plugin.plugin_name == "half"
    assert plugin.arguments == {"shift": 0.25, "names": None}
    assert plugin.identity()["arguments"] == plugin.arguments
    assert "source" in plugin.identity(), "an edited plugin from outside must be a new one"
    assert "source" not in calibrators.create("isotonic").identity()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("halv", r"no calibrator 'halv'\. Did you mean 'half'\?"),
        ("zzz", r"no calibrator 'zzz'\. Registered: half, lazy"),
    ],
)
def test_an_unknown_name(name: str, message: str, registry: Registry[Calibrator]) -> None:
    with pytest.raises(UnknownPluginError, match=message):
        registry.get(name)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("half", {"shfit": 0.1}, r"has no argument 'shfit'\. Did you mean 'shift'\?"),
        ("half", {"other": 0.1}, r"has no argument 'other'\. It takes: shift, names"),
        (
            "half",
            {"shift": "much"},
            "'shift' parameter of the calibrator 'half' must be a valid number.* Got 'much' instead",
        ),
        ("half", {"names": "one"}, "'names' parameter of the calibrator 'half' must be a valid list"),
        ("half", {"shift": 2}, "calibrator 'half': The 'shift' parameter must not exceed"),
        ("needy", {}, "The calibrator 'needy' needs the argument 'must'"),
    ],
)
def test_wrong_arguments(name: str, arguments: dict[str, object], message: str, registry: Registry[Calibrator]) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        registry.create(name, **arguments)


def test_a_taken_name(registry: Registry[Calibrator]) -> None:
    registry.register("half")(Half)
    with pytest.raises(DuplicatePluginError, match=r"'half' is already registered by .*:Half"):
        registry.register("half")(Needy)
    with pytest.raises(DuplicatePluginError, match="'lazy' is already registered by no_such_module:Thing"):
        registry.register("lazy")(Half)


def test_what_breaks_the_contract_is_refused_at_once(registry: Registry[Calibrator]) -> None:
    class Unfinished(Calibrator):
        pass

    with pytest.raises(InvalidPluginError, match=r"'unfinished' \(.*Unfinished\) lacks fit, predict"):
        registry.register("unfinished")(Unfinished)
    with pytest.raises(InvalidPluginError, match=r"must be a class that derives from prmcal\.Calibrator"):
        registry.register("number")(int)  # type: ignore[arg-type]


def test_a_module_that_does_not_import(registry: Registry[Calibrator]) -> None:
    assert registry.names()["lazy"] == "no_such_module:Thing"
    with pytest.raises(
        InvalidPluginError,
        match=r"'lazy' cannot be loaded from no_such_module:Thing: .*Check that its package",
    ):
        registry.get("lazy")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("installed_plugin", None)


def install(site: Path, distribution: str, name: str) -> None:
    metadata = site / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[prmcal.calibrators]\n{name} = installed_plugin:Zero\n")


PLUGIN = """
import numpy as np
from prmcal import Calibrator, calibrator

@calibrator("zero")
class Zero(Calibrator):
    def fit(self, features, k, n):
        return self

    def predict(self, features):
        return np.zeros((len(features), 1))
"""


def test_entry_points_of_an_installed_package(site: Path) -> None:
    (site / "installed_plugin.py").write_text(PLUGIN.replace('@calibrator("zero")', ""))
    install(site, "some-package", "zero")
    found = Registry("calibrator", Calibrator)
    found._builtin = {}
    assert found.names() == {"zero": "installed_plugin:Zero"}
    assert found.create("zero").predict(np.ones(2)).tolist() == [[0.0], [0.0]]


def test_an_entry_point_with_a_taken_name(site: Path) -> None:
    install(site, "rude-package", "isotonic")
    with pytest.raises(DuplicatePluginError, match=r"'isotonic' belongs to prmcal\.registry.*rude-package\. Uninstall"):
        calibrators.names()


@pytest.fixture
def plugin_file(tmp_path: Path) -> Iterator[Path]:
    """A plugin file whose registrations are undone after the test."""
    before = {kind: dict(registry._registered) for kind, registry in KINDS.items()}
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    yield path
    for kind, registry in KINDS.items():
        registry._registered.clear()
        registry._registered.update(before[kind])


def test_a_plugin_file_may_be_loaded_twice(plugin_file: Path) -> None:
    load_plugin_file(plugin_file)
    load_plugin_file(plugin_file)
    assert calibrators.create("zero").predict(np.ones(1)).tolist() == [[0.0]]
    copy = plugin_file.with_name("copy.py")
    copy.write_text(PLUGIN)
    with pytest.raises(DuplicatePluginError, match="'zero' is already registered"):
        load_plugin_file(copy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("def broken(", "SyntaxError"),
        (None, "no plugin file"),
    ],
)
def test_a_plugin_file_that_does_not_load(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_text(content)
    for _ in range(2):
        with pytest.raises(InvalidPluginError, match=message):
            load_plugin_file(path)


def test_listing_names_loads_nothing_heavy() -> None:
    code = (
        "import sys; from prmcal.registry.plugins import KINDS\n"
        "assert all(registry.names() for registry in KINDS.values())\n"
        "import prmcal.registry.conformance\n"
        "heavy = {'torch', 'transformers', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=600)
