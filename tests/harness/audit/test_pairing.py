"""A file whose solutions answer other questions is named before any number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prmcal.harness.audit.audit import audit
from tests.conftest import ROOT

SLICE = ROOT / "tests" / "recorded" / "openr_train_data.json"


def records(shift: int) -> list[dict[str, Any]]:
    """Solutions that repeat half of the words of a question: of their own one, or of another one."""
    random = np.random.default_rng(0)
    words = [["".join(random.choice(list("abcdefgh"), 5)) for _ in range(40)] for _ in range(40)]
    return [
        {
            "question": " ".join(words[place]),
            "steps": [" ".join(words[(place + shift) % 40][::2]), *("so it is", "and then " * 9)],
            "scores": [0.5, 0.5, float(random.random())],
            "correct": bool(random.random() < 0.5),
        }
        for place in range(40)
    ]


def test_the_first_words_say_that_solutions_belong_to_other_questions() -> None:
    sound, wrong = (audit(pd.DataFrame(records(shift))) for shift in (0, 1))
    assert sound.scored.wins is not None and sound.scored.wins.value > 0.95
    assert not sound.scored.alarm
    assert str(wrong).startswith("Stop: the solutions do not answer their questions.")
    assert "do not answer their questions" in wrong._repr_html_()


def test_a_published_file_is_sound_and_is_not_after_its_outputs_are_exchanged(tmp_path: Path) -> None:
    content = json.loads(SLICE.read_text(encoding="utf-8"))
    assert not audit(SLICE).scored.alarm
    outputs = [each["output"] for each in content]
    moved = [{**each, "output": outputs[place - 1]} for place, each in enumerate(content)]
    (tmp_path / "moved.json").write_text(json.dumps(moved), encoding="utf-8")
    assert audit(tmp_path / "moved.json").scored.alarm.startswith("Stop")
