"""Texts are split into steps by the LLM's own rule, and only then."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Completion, Prefix
from prmcal.errors import InvalidArgumentsError
from prmcal.harness.jobs.stepping import in_steps
from prmcal.registry.grading import extract_answer
from prmcal.registry.llms.prompts import PromptFormat
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.plugins import llms
from prmcal.registry.splitting import StepSplitting, split_text
from prmcal.steps import behind_thought, join_steps, split_steps, stored_text, text_so_far

THOUGHT = (
    "<think>\nOkay, x is 3.14 or so. Let me see.\n\nSo it is 4. Wait, no.\n\nBut $y$ is 5, butter. Hmm, fine.\n</think>"
)
TEXT = f"{THOUGHT}\n\nThe answer follows.\n\nIt is \\boxed{{5}}."
PIECES = ["a", "Wait", " ", ". ", "\n", "\n\n", "<think>", "</think>", "?", "But "]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
RULES = st.sampled_from(["blank-line", "lines", "sentences", "markers", "after-think"])
LIMITS = st.none() | st.integers(1, 6)


def words(text: str) -> int:
    return len(text.split())


def split(splitting: Any, text: str = TEXT, thinking: bool = False) -> list[str]:
    return list(split_text(text, StepSplitting.of(splitting), thinking, words))


def test_a_step_ends_at_a_blank_line() -> None:
    assert split("blank-line") == list(split_steps(TEXT))


def test_a_step_ends_before_a_marker_at_the_beginning_of_a_sentence() -> None:
    assert split("markers") == [
        "<think>\nOkay, x is 3.14 or so. Let me see.\nSo it is 4.",
        "Wait, no.",
        "But $y$ is 5, butter.",
        "Hmm, fine.\n</think>",
        "The answer follows.",
        "It is \\boxed{5}.",
    ]
    assert split({"rule": "markers", "markers": ["So"]})[:2] == [
        "<think>\nOkay, x is 3.14 or so. Let me see.",
        "So it is 4. Wait, no.\nBut $y$ is 5, butter. Hmm, fine.\n</think>",
    ]


def test_a_thought_is_one_step() -> None:
    one = THOUGHT.replace("\n\n", "\n")
    assert split("after-think") == [one, "The answer follows.", "It is \\boxed{5}."]
    # A completion that begins or ends inside a thought.
    rest = TEXT.removeprefix("<think>\nOkay, x is 3.14 or so. Let me see.\n\n")
    assert split("after-think", rest, thinking=True)[0] == one.partition("see.\n")[2]
    assert split("after-think", rest.partition("</think>")[0], thinking=True) == [
        one.partition("see.\n")[2].removesuffix("\n</think>")
    ]


def test_short_steps_are_joined_and_long_ones_cut_at_ends_of_sentences() -> None:
    assert split({"least_tokens": 6}) == [
        "<think>\nOkay, x is 3.14 or so. Let me see.",
        "So it is 4. Wait, no.",
        "But $y$ is 5, butter. Hmm, fine.\n</think>",
        "The answer follows.\nIt is \\boxed{5}.",
    ]
    assert split({"rule": "after-think", "most_tokens": 8})[:3] == [
        "<think>\nOkay, x is 3.14 or so.",
        "Let me see.\nSo it is 4.",
        "Wait, no.\nBut $y$ is 5, butter.",
    ]


@given(TEXTS, RULES, LIMITS, LIMITS, st.booleans())
def test_no_word_is_lost_and_the_stored_text_has_the_same_steps(
    text: str, rule: str, least: int | None, most: int | None, thinking: bool
) -> None:
    limits = {"least_tokens": least, "most_tokens": most if most and most >= (least or 0) else None}
    steps = split_text(text, StepSplitting.of({"rule": rule, **limits}), thinking, words)
    assert split_steps(join_steps(steps)) == steps
    assert split_steps(stored_text(steps)) == steps
    assert "".join(step.sampled for step in steps) == text.rstrip() or not text.strip() or text[-1].isspace()
    # Nothing may stand behind the end of a thought.
    if all(step.sampled[-1].isspace() for step in steps[:-1]):
        assert text.startswith(text_so_far(steps[:-1]))
    assert pickle.loads(pickle.dumps(steps))[-1:] == steps[-1:]
    assert "".join("".join(steps).split()) == "".join(text.split())


@given(st.lists(st.sampled_from(["a", "b c", "d. e", "\n", "\r\n", "\r", " ", "\t", "\u00a0", "\u2003"]), max_size=30))
def test_white_space_on_a_blank_line_hides_no_step(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    visible = ["\n".join(line.rstrip() for line in block) for block in blocks(plain)]
    found = ["\n".join(line.rstrip() for line in step.splitlines()) for step in split_steps(text)]
    assert found == visible
    assert list(split("lines", text)) == [line.rstrip() for line in plain.splitlines() if line.strip()]


@pytest.mark.parametrize("rule", ["sentences", "markers"])
def test_white_space_without_end_is_divided_at_once(rule: str) -> None:
    assert split(rule, f"Go on.{' ' * 50_000}But{chr(10) * 50_000}5") == ["Go on.", "But", "5"]


def blocks(text: str) -> list[list[str]]:
    """Return the lines between blank lines."""
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


@pytest.mark.parametrize(
    "splitting",
    [
        "paragraphs",
        {"rule": "markers", "markers": []},
        {"rule": "after-think", "markers": ["Wait"]},
        {"least_tokens": 9, "most_tokens": 8},
        {"least": 3},
        {"most_tokens": 0},
    ],
)
def test_a_wrong_splitting_is_refused_in_one_sentence(splitting: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"The 'splitting' parameter .* must be blank-line, lines"):
        llms.create("transformers", checkpoint="nano:weak", splitting=splitting)


def test_a_splitting_is_part_of_the_identity_as_it_is_understood() -> None:
    def identity(**arguments: Any) -> dict[str, Any]:
        return llms.create("transformers", checkpoint="nano:weak", **arguments).identity()

    assert identity() == identity(splitting="blank-line") == identity(splitting={"rule": "blank-line"})
    variants = ["markers", "after-think", {"least_tokens": 4}, {"rule": "markers", "markers": ["So"]}]
    assert len({str(identity(splitting=each)) for each in variants}) == len(variants)


def test_an_answer_is_read_behind_the_thought() -> None:
    assert extract_answer("<think>\n\\boxed{3}\n</think>\n\nSo \\boxed{4}") == "4"
    assert extract_answer("<think>\nso \\boxed{3}") is None
    assert extract_answer("so \\boxed{3}\n</think>\n\nDone.") is None
    assert behind_thought("no thought") == "no thought"


OPENED = "{{ bos_token }}{{ messages[-1]['content'] }}\n<think>\n"


@pytest.fixture(scope="module")
def thinker() -> TransformersLLM:
    built = llms.create("transformers", checkpoint="nano:weak", chat_template=OPENED, splitting="after-think")
    assert isinstance(built, TransformersLLM)
    return built


def test_a_completion_that_begins_inside_a_thought_gets_its_tag(thinker: TransformersLLM) -> None:
    bare = Prefix("What is 2 + 3?")
    drawn = [Completion("5 it is.\n\nYes.\n</think>\n\n\\boxed{5}", 9, "end"), Completion("Hmm", 1, "length")]
    whole, cut_off = in_steps(thinker, bare, drawn)
    assert split_steps(whole.text) == ("<think>\n5 it is.\nYes.\n</think>", "\\boxed{5}")
    assert (cut_off.text, cut_off.finish_reason) == ("<think>\nHmm", "thought")
    # What the model reads when it goes on has the tag of the prompt, and no second one.
    read = PromptFormat(OPENED, None).text(thinker._tokenizer, Prefix(bare.question, split_steps(whole.text)))
    assert read.endswith("What is 2 + 3?\n<think>\n5 it is.\n\nYes.\n</think>\n\n\\boxed{5}\n\n")
    assert read.count("<think>") == 1


def test_a_follow_up_of_a_cut_off_thought_is_told_too(thinker: TransformersLLM) -> None:
    begun = Prefix("What is 2 + 3?", ("<think>\nHmm",))
    on, ended = in_steps(thinker, begun, [Completion("so", 1, "length"), Completion("</think>\n\nNo", 1, "length")])
    assert (on.finish_reason, ended.finish_reason) == ("thought", "length")


def test_tokens_are_those_of_the_model(thinker: TransformersLLM) -> None:
    assert thinker.count_tokens("37+15=52") > words("37+15=52") == 1


def test_without_a_rule_a_text_stays_as_it_is() -> None:
    plain = llms.create("transformers", checkpoint="nano:weak")
    text = "a) 1\n\n\n b) \n\n"
    assert in_steps(plain, Prefix("q"), [Completion(text, 5, "length")]) == [Completion(text, 5, "length")]


def test_an_llm_behind_a_server_has_the_same_rules() -> None:
    server: dict[str, Any] = {"base_url": "http://localhost:1/v1", "model": "m"}
    completions = llms.create("openai", chat_template=OPENED, **server)
    assert completions.opens_thought("q") and completions.count_tokens("37+15=52 so") == 2
    counted = llms.create("openai", tokenizer="nano:weak", **server)
    assert not counted.opens_thought("q") and counted.count_tokens("37+15=52 so") > 2
    chat = llms.create("openai-chat", continues="vllm", splitting="after-think", **server)
    assert chat.identity()["splitting"] == {"rule": "after-think"}
    # A chat server returns thoughts apart, and the plugin puts the tags back.
    drawn = Completion(f"{THOUGHT}\n\nIt is 5.", 9, "end")
    assert len(split_steps(in_steps(chat, Prefix("q"), [drawn])[0].text)) == 2
