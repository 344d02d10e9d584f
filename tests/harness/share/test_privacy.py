"""Nothing of the machine gets into a bundle."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

import pytest
import yaml

import prmcal as package
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import BundleError
from prmcal.harness.share.bundle import About
from prmcal.harness.share.checks import Machine, public_environment, unpack
from prmcal.harness.share.writing import write_bundle
from tests.conftest import PLUGINS
from tests.harness.share.conftest import ABOUT, PATH
from tests.harness.share.test_writing import CELL, FAILED

MACHINE = Machine("ada", ("/scratch/ada", "wolke7", "wolke7.intern.example", "hf_0123456789"))


@pytest.mark.parametrize(
    "text",
    [
        "/home/ada/models/Qwen",
        "weights=/opt/models/a.safetensors, dtype=bf16",
        "/data",
        "~/models",
        "see ~bob/models/x",
        r"C:\Users\Ada\models",
        "D:/models/x",
        r"\\server\share\models",
        "file:///srv/x",
        "https://me:secret@api.example.com/v1",
        "https://api.example.com/v1?key=hf_0123456789",
        "runs/ada/checkpoints",
        "on wolke7: out of memory",
        "ada@login: no space",
    ],
)
def test_what_tells_of_a_machine_is_found_and_can_be_cut_out(text: str) -> None:
    assert MACHINE.traces(text)
    assert not MACHINE.traces(MACHINE.cleaned(text))


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen2.5-Math-PRM-7B",
        "ada/my-prm",  # a name on the hub
        "data/own.jsonl",
        "nano:weak",
        "https://api.openai.com/v1",
        "http://localhost:8000/v1",
        "http://127.0.0.1:8000/v1",
        "<think>\n1/2/3 and/or/not </think></s>",
        "Problem: {question}\n\n/no_think",
        r"\boxed{3/4} \\ \frac{a}{b}/2",
        "Step 1: a/b, Q: x/y",
        "wolke77 and canada",
        "~5/6 of them",
    ],
)
def test_ordinary_arguments_pass(text: str) -> None:
    assert MACHINE.traces(text) == []
    assert MACHINE.cleaned(text) == text


def test_planted_secrets_are_not_in_the_bytes_of_a_bundle(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "wolke7.intern.example")
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setenv("HF_TOKEN", "hf_planted_secret")
    record = json.loads((run / RECORD_FILE).read_text())
    assert record["plugin_files"] and record["log"]
    record["environment"]["hardware"] |= {
        "system": "Linux 6.1-wolke7",
        "gpus": ["nvidia-smi failed: /home/ada/bin/nvidia-smi"],
        "serial": "ada-serial",
    }
    record["environment"]["user"] = "ada"
    record["only"] = {"llm": ["/home/ada"]}
    (run / RECORD_FILE).write_text(json.dumps(record))
    failures = run / "failures.json"
    failures.write_text(failures.read_text().replace("There is no file", "hf_planted_secret: no file"))
    assert getpass.getuser() == "ada" and PATH in failures.read_text()

    for texts in (False, True):
        write_bundle(run, [CELL, FAILED], tmp_path / "bundle", ABOUT, texts=texts)
        content = (tmp_path / "bundle").read_bytes()
        hidden = ["ada@", PATH, "secret-project", "wolke7", "hf_planted", "gone.py", "serial", "run.log"]
        for secret in [*hidden, str(run), str(Path.home()) + "/", str(PLUGINS), "/home/"]:
            assert secret.encode() not in content, secret
    unpack(tmp_path / "bundle", tmp_path / "unpacked")
    reasons = (tmp_path / "unpacked/failures.json").read_text()
    assert "no file (left out)" in reasons


def test_an_argument_that_tells_of_the_machine_needs_consent(tmp_path: Path) -> None:
    log = tmp_path / "drawn.log"
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "llms": [
            {"name": "weak", "plugin": "synthetic-llm"},
            {"name": "logged", "plugin": "synthetic-llm", "arguments": {"log": str(log)}},
        ],
        "calibrators": ["uncalibrated"],
        "calibration": {"name": "synthetic-questions", "questions": 2, "trajectories": 1, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 2}],
        "strategies": ["pass@1"],
        "scaling": {"samples": 2},
        "measurement": {"measured": 1, "follow_ups": 2, "replicates": 100},
    }
    package.run(grid, tmp_path / "run", workers=1, plugins=[PLUGINS / "synthetic.py"])
    with pytest.raises(BundleError, match=r"would tell of this machine: .*arguments\.log'.*--with-paths"):
        write_bundle(tmp_path / "run", None, tmp_path / "bundle", About())
    assert not (tmp_path / "bundle").exists()
    # Cells that do without this plugin need no consent, although the grid of the run has it.
    own = "calibration/weak/verifier/uncalibrated/synthetic-questions"
    write_bundle(tmp_path / "run", [own], tmp_path / "bundle", About())
    assert b"drawn.log" not in (tmp_path / "bundle").read_bytes()
    write_bundle(tmp_path / "run", None, tmp_path / "bundle", About(), with_paths=True)
    assert str(log).encode() in (tmp_path / "bundle").read_bytes()


def test_of_the_environment_only_versions_and_hardware_stay() -> None:
    given = {
        "prmcal_version": "1",
        "packages": {"torch": "2"},
        "hardware": {"cores": 2, "uuid": "x"},
        "home": "/x",
    }
    assert public_environment(given, MACHINE) == {
        "prmcal_version": "1",
        "packages": {"torch": "2"},
        "hardware": {"cores": 2, "system": "", "gpus": []},
    }
    assert public_environment({}, MACHINE)["packages"] == {}  # and not those of this machine
