"""Wrong values in the files of a bundle: each is refused when it is read, and what no reader accepts is not written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import BundleError, RunError
from prmcal.harness.share.bundle import About, read_submission
from prmcal.harness.share.checks import unpack
from prmcal.harness.share.merge import merge
from prmcal.harness.share.writing import write_bundle
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.harness.share.test_unpacking import Entries, forged


def with_value(file: str, *path: str | int, value: Any) -> Callable[[Entries], object]:
    """A change of one value in a JSON file, the first whose name ends so. Without a path it is the whole file."""

    def change(entries: Entries) -> None:
        name = next(each for each in sorted(entries) if each.endswith(file))
        data = json.loads(entries[name])
        place = data
        for each in path[:-1]:
            place = place[each]
        if path:
            place[path[-1]] = value
        entries[name] = json.dumps(data if path else value).encode()

    return change


def wrong_metric(name: str, value: Any) -> Callable[[Entries], object]:
    return with_value("plan.json", "metrics", 0, name, value=value)


def wrong_number(name: str, value: Any) -> Callable[[Entries], object]:
    return with_value("artifact.json", name, value=value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value("run.json", "finished_at", value="nonsense"), r"run\.json .*'finished_at' is no time"),
        (
            with_value("run.json", "finished_at", value="0001-01-01T00:00:00+14:00"),
            r"run\.json .*'finished_at' is no time",
        ),
        (with_value("run.json", "run_id", value="\udce9"), r"run\.json .*'run_id' has half of a surrogate"),
        (
            with_value("run.json", "environment", "hardware", value={"cpu": "\ud800"}),
            r"run\.json .*'environment' has half of a surrogate",
        ),
        (
            with_value("plan.json", "datasets", 0, "name", value="caf\udce9"),
            r"plan\.json .*'datasets' has half of a surrogate pair .*: .*caf\\udce9\. Ask the submitter",
        ),
        (wrong_metric("name", 5), r"plan\.json .*metrics\.0\.name.* Got 5"),
        (wrong_metric("title", None), r"plan\.json .*metrics\.0\.title.* Got None"),
        (wrong_metric("leaderboard", "x"), r"plan\.json .*metrics\.0\.leaderboard.* Got 'x'"),
        (wrong_metric("better", "sideways"), r"plan\.json .*metrics\.0\.better.* Got 'sideways'"),
        (wrong_metric("name", "brier_corrected"), r"plan\.json .*describes a metric twice"),
        (
            with_value("plan.json", "plugins", "llm", 0, "identity", "version", value=float("nan")),
            r"plan\.json is damaged: Out of range float values",
        ),
        (
            with_value("plan.json", "plugins", "llm", 0, "absent", value=5),
            r"plugins\.llm\.0\.absent: .* Got 5",
        ),
        (with_value("plan.json", "jobs", 0, "version", value="1"), r"jobs\.0\.2: .* Got '1'"),
        (with_value("plan.json", "jobs", 0, "model_seconds", 0, value=-1), r"model_seconds\.0: .* Got -1"),
        (
            with_value("plan.json", "datasets", 0, "questions", 0, 3, value=[5]),
            r"questions\.0\.3.* Got \[5\]",
        ),
        (wrong_number("samples", 10**30), "samples: .* Got 1000"),
        (wrong_number("seconds", float("inf")), "seconds: .* Got inf"),
        (wrong_number("seconds", float("nan")), "seconds: .* Got nan"),
        (wrong_number("generated_tokens", -1), "generated_tokens: .* Got -1"),
        (wrong_number("size", "5"), "size: .* Got '5'"),
        (with_value("failures.json", value=[1]), r"failures\.json cannot be read: .* Got \[1\]"),
        (with_value("failures.json", value=None), r"failures\.json cannot be read: .* Got None"),
        (with_value("failures.json", value=float("nan")), r"failures\.json cannot be read: .* Got nan"),
        (with_value("failures.json", value={"a": 5}), r"failures\.json cannot be read: a: .* Got 5"),
        (
            with_value("failures.json", value={"a": {"reason": [1], "cause": "error"}}),
            r"failures\.json cannot be read: a\.reason: .* Got \[1\]",
        ),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_merged(
    bundle: Path, tmp_path: Path, change: Callable[[Entries], object], message: str
) -> None:
    wrong = forged(bundle, tmp_path, change)
    with pytest.raises(BundleError, match=message) as raised:
        unpack(wrong, tmp_path / "out")
    told = str(raised.value)
    assert told.endswith("Ask the submitter for the bundle that `prmcal submit` wrote.") and "\n" not in told
    with pytest.raises(BundleError, match=message):
        merge(tmp_path / "merged", [wrong])
    assert not (tmp_path / "out").exists() and not (tmp_path / "merged").exists()


def test_a_submission_with_half_a_surrogate_pair_is_refused(bundle: Path, tmp_path: Path) -> None:
    content = (unpack(bundle, tmp_path / "out"), (tmp_path / "out" / "submission.json").read_bytes())[1]
    wrong = content.replace(b'"Lab A"', b'"caf\\udce9"')
    with pytest.raises(BundleError, match=r"submission\.json of x cannot be read: Invalid JSON"):
        read_submission(wrong, "x")


@pytest.mark.parametrize("name", ["submitter", "licence", "note"])
@pytest.mark.parametrize(
    ("text", "message"), [("x" * 20_000, "is too long: it has 20,000"), ("caf\udce9", r"caf\\udce9")]
)
def test_what_no_reader_accepts_is_not_written(name: str, text: str, message: str) -> None:
    with pytest.raises(BundleError, match=message) as raised:
        About(**{name: text})
    assert name in str(raised.value)


def test_the_command_refuses_a_long_note(prmcal: Prmcal, finished: Path, tmp_path: Path) -> None:
    told = prmcal("submit", finished, "--out", tmp_path / "a.bundle", "--note", "x" * 20_000)
    assert told.returncode == 2 and "The note is too long" in told.stderr
    assert not (tmp_path / "a.bundle").exists()


def test_a_bundle_without_texts_cannot_be_submitted_again(bundle: Path, tmp_path: Path) -> None:
    unpack(bundle, tmp_path / "unpacked")
    merge(tmp_path / "merged", [bundle])
    for folder in (tmp_path / "unpacked", tmp_path / "merged"):
        with pytest.raises(RunError, match=r"has no texts, .* Give others the bundle itself"):
            write_bundle(folder, None, tmp_path / "again.bundle", About())
    assert not (tmp_path / "again.bundle").exists()


def test_paths_of_this_machine_may_have_other_bytes(run: Path) -> None:
    data = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(data | {"plugin_files": ["/caf\udce9/a.py"]}))
    assert RunFolder(run).record().plugin_files == ["/caf\udce9/a.py"]
