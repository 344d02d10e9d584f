"""Which edits of a plugin's code give it a new identity, and which files it needs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prmcal import Calibrator
from prmcal.errors import InvalidPluginError
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.plugins import KINDS, calibrators, load_plugin_file
from prmcal.registry.sources import local_files, source_hash

FILES = {
    "plug.py": '''
"""Two calibrators."""

from __future__ import annotations

import json

import numpy as np
import helpers.text as text
import patches
from prmcal import Calibrator, calibrator, prm

SCALE = 2.0
OFFSET = SCALE + 1
OTHER = 5.0

def clip(x):
    return np.clip(x * OFFSET, 0, 1)


def unused(x):
    return json.dumps(x * OTHER)


class Base(Calibrator):
    levels = (0.5,)

    def fit(self, features, k, n):
        """Learn nothing."""
        return self


@calibrator("mine")
class Mine(Base):
    def predict(self, features):
        from lazy import late

        return text.clean(clip(late(features)))[:, None]


@calibrator("its neighbour")
class Neighbour(Base):
    def predict(self, features):
        return unused(features)


if __name__ == "__main__":
    print("mine")
''',
    "helpers/__init__.py": "SETTING = 1\n",
    "helpers/text.py": "from . import words\n\n\ndef clean(x):\n    return words.tidy(x)\n",
    "helpers/words.py": "def tidy(x):\n    return x\n",
    "helpers/apart.py": "UNSEEN = 1\n",
    "patches.py": "import numpy\n",
    "lazy.py": "import importlib\n\nlate = importlib.import_module('later').late\n",
    "later.py": "def late(x):\n    return x\n",
    "apart.py": "UNSEEN = 1\n",
}


def load(file: Path, name: str) -> type:
    """Execute a file as a module and return a class of it."""
    spec = importlib.util.spec_from_file_location("sources_under_test", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sources_under_test"] = module
    exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
    found: type = getattr(module, name)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files, in a folder that modules are imported from. What the test registers and imports is undone."""
    before = {kind: dict(registry._registered) for kind, registry in KINDS.items()}
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for kind, registry in KINDS.items():
        registry._registered.clear()
        registry._registered.update(before[kind])
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def edit(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / file
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("plug.py", "SCALE = 2.0", "# Measured in May.\nSCALE = 2.0"),
        ("plug.py", "SCALE = 2.0", 'SCALE = (\n    2.0\n)\n"""Measured in May."""'),
        ("plug.py", '"""Learn nothing."""', '"""Learn it all."""'),
        ("plug.py", '"""Two calibrators."""', ""),
        ("plug.py", 'print("mine")', 'print("yours")'),
        ("helpers/text.py", "def clean(x):", "def clean(x):  # twice"),
        ("apart.py", "UNSEEN = 1", "UNSEEN = 2"),
        ("helpers/apart.py", "UNSEEN = 1", "UNSEEN = 2"),
    ],
)
def test_an_edit_that_changes_nothing_keeps_the_identity(folder: Path, file: str, old: str, new: str) -> None:
    before = source_hash(load(folder / "plug.py", "Mine"))
    edit(folder, file, old, new)
    assert source_hash(load(folder / "plug.py", "Mine")) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("plug.py", "return text.clean(", "return 2 * text.clean("),
        ("plug.py", "x * OFFSET, 0, 1", "x * OFFSET, 0, 2"),
        ("plug.py", "SCALE = 2.0", "SCALE = 3.0"),
        ("plug.py", "levels = (0.5,)", "levels = (0.1, 0.5)"),
        ("plug.py", "import numpy as np", "import cupy as np"),
        ("plug.py", "import json", "from apart import *\nimport json"),
        ("helpers/__init__.py", "SETTING = 1", "SETTING = 2"),
        ("helpers/text.py", "words.tidy(x)", "words.tidy(2 * x)"),
        ("helpers/words.py", "return x", "return x + 1"),
        ("patches.py", "import numpy", "import numpy\n\nnumpy.seterr(all='raise')"),
        ("lazy.py", ".late", ".early"),
        ("later.py", "return x", "return x + 1"),
    ],
)
def test_an_edit_of_used_code_changes_the_identity(folder: Path, file: str, old: str, new: str) -> None:
    cls = load(folder / "plug.py", "Mine")
    before = source_hash(cls)
    edit(folder, file, old, new)
    assert source_hash(cls) != before


def test_docstrings_count_if_the_code_reads_them(folder: Path) -> None:
    edit(folder, "plug.py", "return text.clean(", "print(self.fit.__doc__)\n        return text.clean(")
    cls = load(folder / "plug.py", "Mine")
    before = source_hash(cls)
    edit(folder, "plug.py", "Learn nothing", "Learn it all")
    assert source_hash(cls) != before


def test_the_place_of_the_files_does_not_count(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "renamed.py"
    other.write_text((folder / "plug.py").read_text())
    assert source_hash(load(other, "Mine")) == source_hash(load(folder / "plug.py", "Mine"))


def test_the_files_of_a_plugin_are_those_that_it_imports(folder: Path) -> None:
    expected = {
        "plug", "helpers", "helpers.text", "helpers.words", "patches", "lazy", "later",
    }  # fmt: skip
    found = local_files(folder / "plug.py")
    assert set(found) == expected
    assert next(iter(found.items())) == ("plug", folder / "plug.py")
    assert found["helpers"] == folder / "helpers" / "__init__.py"
    of_class = local_files(load(folder / "plug.py", "Mine"))
    assert set(of_class.values()) == set(found.values())
    assert local_files(Calibrator) == {}


def test_a_module_beside_the_plugin_is_found_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "only_beside_the_plugin.py").write_text("X = 1\n")
    (tmp_path / "plug.py").write_text("def f():\n    from only_beside_the_plugin import X\n    return X\n")
    assert set(local_files(tmp_path / "plug.py")) == {"plug", "only_beside_the_plugin"}


def test_a_helper_that_is_not_python_is_named(folder: Path) -> None:
    (folder / "later.py").write_text("def late(\n")
    with pytest.raises(InvalidPluginError, match=r"later\.py cannot be loaded: SyntaxError"):
        local_files(folder / "plug.py")


def test_a_class_without_a_file_says_what_to_do() -> None:
    made = type("Made", (Plugin,), {"__module__": "no_such_module"})
    with pytest.raises(InvalidPluginError, match="Write it into a file of its own"):
        made().identity()


def test_an_installed_package_counts_with_its_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = folder / "site-packages"
    package = site / "some_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class Shared:\n    x = 1\n")

    def installed(version: str) -> None:
        about = site / "some_package-1.0.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some-package\nVersion: {version}\n")
        (about / "top_level.txt").write_text("some_package\n")

    installed("1.0")
    monkeypatch.syspath_prepend(site)
    from prmcal.registry import sources

    sources._distributions.cache_clear()
    (folder / "mine.py").write_text("from some_package import Shared\n\nclass Mine(Shared): pass\n")
    cls = load(folder / "mine.py", "Mine")
    shared = cls.__mro__[1]
    before = source_hash(cls), source_hash(shared)
    (package / "__init__.py").write_text("class Shared:\n    x = 2\n")
    assert (source_hash(cls), source_hash(shared)) == before
    assert local_files(shared) == {}
    assert set(local_files(cls).values()) == {folder / "mine.py"}
    installed("1.1")
    assert all(new != old for new, old in zip((source_hash(cls), source_hash(shared)), before, strict=True))
    monkeypatch.undo()
    sources._distributions.cache_clear()


def test_an_edited_helper_is_seen_in_the_same_process(folder: Path) -> None:
    (folder / "shifted.py").write_text("SHIFT = 0.25\n")
    (folder / "simple.py").write_text(
        "import numpy as np\nfrom prmcal import Calibrator, calibrator\nfrom shifted import SHIFT\n\n"
        '@calibrator("shifted")\nclass Shifted(Calibrator):\n'
        "    def fit(self, features, k, n): return self\n"
        "    def predict(self, features): return np.full((len(features), 1), SHIFT)\n"
    )
    for value in (0.25, 0.75, 0.50):  # The same size and perhaps the same second.
        (folder / "shifted.py").write_text(f"SHIFT = {value:.2f}\n")
        load_plugin_file(folder / "simple.py")
        plugin = calibrators.create("shifted")
        assert plugin.predict([0.0]).tolist() == [[value]]
