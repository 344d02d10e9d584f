"""The plugins `recorded` replay recordings in order, and raise an error for anything that was not recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from prmcal import Prefix, Sampling
from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.plugins import llms, prms
from prmcal.steps import join_steps, split_steps

RIGHT = "a) 1+1=2\n\nb) 2+1=3\n\nso \\boxed{3}"
WRONG = "a) 1+1=2\n\nb) 2+1=4\n\nso \\boxed{4}"
OTHER = "a) one and one is two\n\nso \\boxed{3}"
RECORD = {
    "question": "1+1+1?",
    "solutions": [RIGHT, {"text": WRONG, "tokens": 17, "finish_reason": "length"}, OTHER],
    "logits": [2.5, -1.0, 0.25],
    "follow_ups": [{"prefix": ["a) 1+1=2", "b) 2+1=3"], "completions": ["so \\boxed{3}", "hm", "I stop."]}],
}


def write(folder: Path, *records: Any) -> str:
    path = folder / "recording.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def replay(path: str, steps: tuple[str, ...] = (), n: int = 1, **arguments: Any) -> list[Any]:
    llm = llms.create("recorded", path=path, **arguments)
    (found,) = llm.generate([Prefix("1+1+1?", steps)], n, Sampling(), 5)
    return list(found)


def test_solutions_come_in_their_order(tmp_path: Path) -> None:
    path = write(tmp_path, RECORD)
    assert [each.text for each in replay(path, n=3)] == [RIGHT, WRONG, OTHER]
    assert replay(path, n=2) == replay(path, n=3)[:2]
    assert (replay(path, n=2)[1].tokens, replay(path, n=2)[1].finish_reason) == (17, "length")


def test_a_whole_solution_ended_by_itself(tmp_path: Path) -> None:
    given = [{"text": RIGHT, "finish_reason": reason} for reason in ("end", "stop", "length")]
    path = write(tmp_path, {**RECORD, "solutions": [*given, OTHER], "logits": []})
    assert [each.finish_reason for each in replay(path, n=4)] == ["end", "end", "length", "end"]


def test_follow_ups_are_those_recorded_or_the_rest_of_solutions(tmp_path: Path) -> None:
    path = write(tmp_path, RECORD)
    recorded = replay(path, ("a) 1+1=2", "b) 2+1=3"), n=3)
    assert [each.text for each in recorded] == ["so \\boxed{3}", "hm", "I stop."]
    shared = replay(path, ("a) 1+1=2",), n=2)
    assert [f"a) 1+1=2\n\n{each.text}" for each in shared] == [RIGHT, WRONG]
    assert shared[1].tokens < 17
    assert [each.text for each in replay(path, split_steps(WRONG), n=4)] == [""] * 4


@pytest.mark.parametrize(
    ("steps", "n", "message"),
    [
        ((), 4, "line 1: the grid needs 4 completions of the question, but 3 are recorded"),
        (
            ("a) 1+1=2",),
            3,
            "needs 3 completions of the prefix of 1 steps that ends with 'a. 1.1=2', but 2 are recorded",
        ),
        (("nobody said this",), 1, "but 0 are recorded"),
    ],
)
def test_what_was_not_recorded_is_one_clear_error(steps: tuple[str, ...], n: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(PluginFailedError, match=message):
        replay(write(tmp_path, RECORD), steps, n)
    with pytest.raises(PluginFailedError, match=r"no recording of the question '7.7'"):
        llms.create("recorded", path=write(tmp_path, RECORD)).generate([Prefix("7+7")], 1, Sampling(), 0)


def test_outcome_rewards_belong_to_whole_solutions(tmp_path: Path) -> None:
    path = write(tmp_path, RECORD)
    prm = prms.create("recorded", path=path)
    for one_step in (False, True):
        replayed = [split_steps(each.text) for each in replay(path, n=3, one_step=one_step)]
        scores = prm.score("1+1+1?", replayed)
        assert [len(each.logit) for each in scores] == [len(steps) + 1 for steps in replayed]
        assert [each.logit[-1] for each in scores] == [2.5, -1.0, 0.25]
        assert all(each.reward[-1] == pytest.approx(expit(each.logit[-1])) for each in scores)
        assert all(each.over_long[:-1].all() and not each.over_long[-1] for each in scores)
        assert all(np.isnan(each.reward[:-1]).all() for each in scores)
    assert [len(steps) for steps in replayed] == [1, 1, 1]


def test_process_rewards_belong_to_prefixes(tmp_path: Path) -> None:
    path = write(tmp_path, {**RECORD, "logits": [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, -2.0, -3.0], [0.0, 0.5, 1.0]]})
    scores = prms.create("recorded", path=path).score("1+1+1?", [split_steps(RIGHT), split_steps(WRONG)[:2]])
    assert scores[0].logit.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert scores[1].logit.tolist() == [0.0, 1.0, -2.0]
    assert not any(each.over_long.any() for each in scores)


def test_the_bare_question_and_unread_prefixes_may_have_no_score(tmp_path: Path) -> None:
    scored = {**RECORD, "logits": [[1.0, None, 3.0], [1.0, -2.0, -3.0], [0.5, 1.0]]}
    (scores,) = prms.create("recorded", path=write(tmp_path, scored)).score("1+1+1?", [split_steps(RIGHT)])
    np.testing.assert_array_equal(scores.logit, np.array([np.nan, 1.0, np.nan, 3.0], np.float32))
    assert scores.over_long.tolist() == [True, False, True, False]


def test_scores_between_0_and_1_are_never_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, {**RECORD, "logits": [[0.5, 0.25, 1.0], [0.5, 0.75, 0.0], [0.5, 0.5]]})
    with pytest.raises(InvalidArgumentsError, match=r"probabilities or log-odds.*'scale: probability'"):
        prms.create("recorded", path=path)
    wanted = {"probability": [0.5, 0.25, 1.0], "logit": expit([0.5, 0.25, 1.0])}
    for scale, rewards in wanted.items():
        prm = prms.create("recorded", path=path, scale=scale)
        (scores,) = prm.score("1+1+1?", [split_steps(RIGHT)])
        np.testing.assert_allclose(scores.reward[1:], rewards, atol=1e-6)
    (tmp_path / "outside").mkdir()
    outside = prms.create("recorded", path=write(tmp_path / "outside", RECORD), scale="probability")
    with pytest.raises(DataError, match=r"Each is in \[0, 1\]"):
        outside.score("1+1+1?", [split_steps(RIGHT)])


def test_a_trajectory_without_a_score_is_an_error(tmp_path: Path) -> None:
    prm = prms.create("recorded", path=write(tmp_path, RECORD, {"question": "2+2?", "solutions": ["4"]}))
    with pytest.raises(PluginFailedError, match=r"no score for a trajectory.*that ends with 'a new one'"):
        prm.score("1+1+1?", [("a new one",)])
    with pytest.raises(PluginFailedError, match=r"no scores for the question '2.2.' in line 2"):
        prm.score("2+2?", [("4",)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": None}, "must have a 'question'"),
        ({"solutions": []}, "'solutions' must be a list with at least one solution"),
        ({"solutions": [3]}, "each of 'solutions' must be a text, a list of steps, or an object"),
        (
            {"solutions": [{"text": "x", "tokens": -1}], "logits": []},
            "the tokens or the cost of a solution",
        ),
        ({"logits": [1.0]}, "'logits' must be a list with an entry for each of its 3 solutions"),
        ({"follow_ups": [{"completions": ["x"]}]}, "'follow_ups' must be a list of objects with 'prefix'"),
        ({"follow_ups": [{"prefix": ["a"]}]}, "'completions' must be a list"),
    ],
)
def test_a_broken_recording_is_named_with_its_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, {**RECORD, "question": "another"}, {**RECORD, **change})
    with pytest.raises(DataError, match=rf"recording\.jsonl, line 2: .*{message}"):
        prms.create("recorded", path=path).score("1+1+1?", [split_steps(RIGHT)])


@pytest.mark.parametrize("logits", [[[1.0, 2.0], -1.0, 0.25], ["high", -1.0, 0.25], [float("nan"), -1.0, 0.25]])
def test_scores_that_fit_no_prefix_are_refused(logits: list[Any], tmp_path: Path) -> None:
    prm = prms.create("recorded", path=write(tmp_path, {**RECORD, "logits": logits}))
    with pytest.raises(DataError, match="a solution with 3 steps must have one score, 3 scores, or 4"):
        prm.score("1+1+1?", [split_steps(RIGHT)])


def test_a_recording_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = write(tmp_path, RECORD), write(tmp_path / "elsewhere", RECORD)
    changed = write(tmp_path, {**RECORD, "logits": [2.5, -1.0, 0.5]}) and tmp_path / "recording.jsonl"
    for registry, same in ((llms, True), (prms, False)):  # Samples do not depend on scores.
        again = registry.create("recorded", path=second).identity()
        assert (registry.create("recorded", path=str(changed)).identity() == again) == same
    write(tmp_path, {**RECORD, "answer": "7"})
    for registry in (llms, prms):
        again = registry.create("recorded", path=second).identity()
        assert registry.create("recorded", path=str(changed)).identity() == again
    write(tmp_path, {**RECORD, "solutions": ["Another text"], "logits": [[0.5]]})
    assert llms.create("recorded", path=str(changed)).identity() != llms.create("recorded", path=second).identity()
    write(tmp_path, RECORD)
    assert llms.create("recorded", path=first).identity() == llms.create("recorded", path=second).identity()
    assert (
        llms.create("recorded", path=first, one_step=True).identity() != llms.create("recorded", path=first).identity()
    )
    with pytest.raises(InvalidArgumentsError, match=r"There is no recording .*gone\.jsonl"):
        llms.create("recorded", path=str(tmp_path / "gone.jsonl"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no box and no end",
        "x" * 50_000 + "\\boxed{3}",
        "a <extra_0> b \u043a\u0438\n\n\\boxed{3}",
        "\n\n\n",
    ],
)
def test_odd_trajectories_are_replayed_and_scored_as_they_are(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "1+1+1?", "solutions": [text], "logits": [1.5]})
    for one_step in (False, True):
        (replayed,) = replay(path, one_step=one_step)
        assert join_steps(split_steps(replayed.text)).split() == text.split()
        (scores,) = prms.create("recorded", path=path).score("1+1+1?", [split_steps(replayed.text)])
        assert scores.logit[-1] == 1.5
