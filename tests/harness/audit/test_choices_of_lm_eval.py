"""Logs of multiple choice of lm-evaluation-harness: the share of the chosen option is its score."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prmcal.errors import DataError
from prmcal.harness.audit.audit import Audit, audit
from prmcal.registry.reading.fields import Fields
from tests.conftest import Prmcal

TEXTS = ["an old river", "sun", "the whole of the sky", "a stone"]


def log(sharpness: float = 1.0) -> list[dict[str, Any]]:
    """Return a log in which options are right as often as their shares say, if the sharpness is 1."""
    random, rows = np.random.default_rng(0), []
    for place in range(60):
        shares = random.dirichlet([0.5] * len(TEXTS))
        target = int(random.choice(len(TEXTS), p=shares))
        values = [sharpness * math.log(share) - 30 for share in shares]
        by_length = [value / len(text) for value, text in zip(values, TEXTS, strict=True)]
        rows.append(
            {
                "doc_id": place,
                "doc": {"question": "Which one is true?", "choices": TEXTS, "place": place},
                "target": str(target),
                "arguments": {f"gen_args_{i}": {"arg_0": "Q:", "arg_1": f" {text}"} for i, text in enumerate(TEXTS)},
                "resps": [[[str(value), "False"]] for value in values],
                "filtered_resps": [[str(value), "False"] for value in values],
                "filter": "none",
                "metrics": ["acc", "acc_norm"],
                "acc": float(values.index(max(values)) == target),
                "acc_norm": float(by_length.index(max(by_length)) == target),
            }
        )
    return rows


def read(folder: Path, rows: list[dict[str, Any]], label: str | None = None) -> Audit:
    path = folder / "samples_task.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return audit(path, Fields(label=label))


def shares(row: dict[str, Any], *lengths: int) -> Any:
    values = np.array([float(value) for value, _ in row["filtered_resps"]]) / (lengths or 1)
    return np.exp(values) / np.exp(values).sum()


def test_the_score_is_the_share_of_the_choice_and_overconfidence_is_seen(tmp_path: Path) -> None:
    sound = read(tmp_path, log())
    assert sound.prefixes["reward"].to_numpy() == pytest.approx(np.array([shares(row).max() for row in log()]))
    assert sound.prefixes["label"].tolist() == [row["acc"] for row in log()]
    assert len(sound.scored.questions) == 60  # They have the same text, and are other documents.
    error, sharp = sound.measured.signed_error, read(tmp_path, log(sharpness=4)).measured.signed_error
    assert error.low < 0 < error.high and sharp.low > 0
    assert "Score: the softmax of the log-likelihoods of the options" in sound.scored.reading[0]


def test_the_choice_by_length_has_its_own_score_and_label(tmp_path: Path) -> None:
    by_length = read(tmp_path, log(), "acc_norm").prefixes
    assert by_length["label"].tolist() == [row["acc_norm"] for row in log()]
    assert by_length["reward"][0] == pytest.approx(shares(log()[0], *map(len, TEXTS)).max())


def test_logs_of_other_versions_and_tasks_are_read_alike(tmp_path: Path) -> None:
    old, without_metric, mutual = log(), log(), log()
    for row, bare, twice in zip(old, without_metric, mutual, strict=True):
        row["arguments"] = [*([*request.values()] for request in row["arguments"].values()), None]
        row["resps"] = [[[float(value), False]] for value, _ in row.pop("filtered_resps")]
        del bare["acc"], bare["acc_norm"]
        twice["filtered_resps"] = twice["filtered_resps"] + [["-1.0", "False"]] * len(TEXTS)
        twice["arguments"] |= {f"gen_args_{4 + i}": {"arg_0": "", "arg_1": text} for i, text in enumerate(TEXTS)}
    for rows in (old, without_metric, mutual):
        assert read(tmp_path, rows).prefixes.equals(read(tmp_path, log()).prefixes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"acc": 0.31}, r"'acc' is 0\.31, a share of the likelihoods and no verdict"),
        ({"filtered_resps": [["-1.5", "True"]], "arguments": {}}, "log-likelihood of one text for each document"),
        ({"filtered_resps": ["-310.2"], "word_perplexity": [-310.2, 50]}, "log-likelihood of one text"),
    ],
)
def test_what_is_no_choice_is_one_error(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path, [{**row, **change} for row in log()])
    assert len(str(error.value)) < 400
    with pytest.raises(DataError, match=r"'f1' .*--label acc or --label acc_norm"):
        read(tmp_path, log(), "f1")
    with pytest.raises(DataError, match=r"line 61: it must be an object"):
        read(tmp_path, [*log(), ["no log"]])  # type: ignore[list-item]


def test_the_shares_of_a_log_are_calibrated_by_the_audit_of_another(tmp_path: Path, prmcal: Prmcal) -> None:
    read(tmp_path, log(3), "acc_norm").save(tmp_path / "audit")
    applied = prmcal("apply", tmp_path / "audit", tmp_path / "samples_task.jsonl")
    rows = [json.loads(line) for line in applied.stdout.splitlines()]
    expected = [shares(row, *map(len, TEXTS)).max() for row in log(3)]
    assert [row["softmax for acc_norm"] for row in rows] == pytest.approx(expected)
    assert all(0 <= row["calibrated"] <= 1 for row in rows)
