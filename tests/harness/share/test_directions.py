"""Which values of a metric are better: prmcal says it of its own metrics, and submissions agree on the others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prmcal.db.queries.cells import metrics
from prmcal.db.run_folder import PLAN_FILE, RECORD_FILE, published_path
from prmcal.errors import BundleError
from prmcal.harness.share.merge import merge

OTHER = {"lower": "higher", "higher": "lower"}


def altered(run: Path, out: Path, **changes: Any) -> Path:
    """A run that claims to be ten years older, with metrics whose directions are exchanged, and a further one."""
    shutil.copytree(run, out)
    record = json.loads((out / RECORD_FILE).read_text())
    for name in ("started_at", "finished_at"):
        record[name] = f"201{record[name][3:]}"
    (out / RECORD_FILE).write_text(json.dumps(record))
    plan = json.loads((out / PLAN_FILE).read_text())
    for each in plan["metrics"]:
        each["better"] = OTHER.get(each["better"], each["better"])
    plan["metrics"].append({**plan["metrics"][0], "name": "unknown", **changes})
    (out / PLAN_FILE).write_text(json.dumps(plan))
    return out


def test_own_metrics_have_their_own_directions(parts: Mapping[str, Path], tmp_path: Path) -> None:
    merge(tmp_path / "honest", [parts["llm"]])
    older = altered(parts["llm"], tmp_path / "older", better="higher", title="Unknown")
    merge(tmp_path / "both", [older, parts["llm"]])
    honest, both = (metrics(published_path(tmp_path / each)) for each in ("honest", "both"))
    assert {name: both[name] for name in honest} == dict(honest)
    assert (both["unknown"].better, both["unknown"].title) == ("higher", "Unknown")


def test_submissions_that_disagree_on_another_metric_are_refused(
    parts: Mapping[str, Path], tmp_path: Path
) -> None:
    first = altered(parts["llm"], tmp_path / "first", better="higher")
    second = altered(parts["dataset"], tmp_path / "second", better=None)
    merge(tmp_path / "out", [first])
    before = published_path(tmp_path / "out").read_bytes()
    with pytest.raises(BundleError, match="disagree which values of the metric 'unknown' are better"):
        merge(tmp_path / "out", [second])
    assert published_path(tmp_path / "out").read_bytes() == before
    merge(tmp_path / "out", [parts["dataset"]])
