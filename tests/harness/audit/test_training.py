"""`prmcal train-prm` writes a PRM that plugins load with the scores of its fit, and none that cannot rank."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoModelForTokenClassification, AutoTokenizer

from prmcal import ScoringRequest
from prmcal.errors import DataError, PluginFailedError
from prmcal.harness.audit.training import HeadlessPRM, fit_value_head, labelled, write_checkpoint
from prmcal.registry.models.checkpoints import NANO_FOLDER
from prmcal.registry.nano.problems import MODULUS, generate_split, render_step
from prmcal.registry.plugins import prms
from prmcal.registry.reading.fields import Fields
from tests.conftest import Prmcal
from tests.served_run import shared_run

# Its states know of wrong steps, unlike those of the policies. It reads other texts as a PRM.
MODEL = "nano:shepherd"
TAG = "\u043a\u0438"
Record = dict[str, Any]


def solutions(questions: int) -> list[Record]:
    """Questions with two right and two wrong solutions each, with the marks of their steps."""
    generator = random.Random(5)
    found: list[Record] = []
    for problem in generate_split("nano-math", "train", 20 * questions):
        if problem.level > 2 or len(found) == questions:
            continue
        solved = []
        for wrong in (False, True, False, True):
            broken = generator.randrange(len(problem.operations)) if wrong else -1
            value, steps, marks = problem.start, [], []
            for index, operation in enumerate(problem.operations):
                read = (value + generator.choice((10, 20, 30))) % MODULUS if index == broken else value
                value = operation.apply(read)
                steps.append(render_step(index, read, operation, value, index == len(problem.operations) - 1))
                marks.append(not wrong or index < broken)
            solved.append({"steps": steps, "marks": marks})
        found.append({"question": problem.text, "solved": solved})
    return found


def as_outcomes(each: Record) -> list[Record]:
    """A record for each question, which says which solutions are right."""
    lists = {"steps": [own["steps"] for own in each["solved"]], "correct": [own["marks"][-1] for own in each["solved"]]}
    return [{"question": each["question"], **lists}]


def as_shepherd(each: Record) -> list[Record]:
    """A record of Math-Shepherd for each solution."""

    def text(steps: Sequence[str], ends: Sequence[str]) -> str:
        lines = [f"Step {n + 1}: {step} {end}" for n, (step, end) in enumerate(zip(steps, ends, strict=True))]
        return f"{each['question']} " + "\n".join(lines)

    return [
        {
            "input": text(own["steps"], [TAG] * len(own["steps"])),
            "label": text(own["steps"], ["+" if mark else "-" for mark in own["marks"]]),
            "task": "MATH",
        }
        for own in each["solved"]
    ]


def as_openr(each: Record) -> list[Record]:
    """A tree of openr, with a branch for each solution."""

    def branch(steps: Sequence[str], rates: Sequence[float]) -> list[Record]:
        if not steps:
            return []
        children = branch(steps[1:], rates[1:])
        return [{"text": steps[0], "mc_value": rates[0], "children": children}]

    nodes = [branch(own["steps"], [float(mark) for mark in own["marks"]])[0] for own in each["solved"]]
    return [{"question": each["question"], "reasoning_steps": {"text": "", "mc_value": 0.5, "children": nodes}}]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes questions into a file of a shape."""

    def write(shape: Callable[[Record], list[Record]], questions: Sequence[Record]) -> Path:
        file = tmp_path / "solutions.jsonl"
        records = [record for each in questions for record in shape(each)]
        file.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
        return file

    return write


def test_a_run_becomes_a_prm_with_the_scores_of_its_fit(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal
) -> None:
    run, folder = shared_run(tmp_path_factory), tmp_path / "trained"
    done = prmcal("train-prm", run, "--model", MODEL, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "12 questions, 24 solutions" in done.stdout
    (entry,) = yaml.safe_load(done.stdout[done.stdout.index("prms:") :])["prms"]
    assert f'prms:\n  - name: "{entry["name"]}"' in (folder / "README.md").read_text()

    prm = HeadlessPRM.of(MODEL)
    data = labelled(run, Fields(), {})
    head = fit_value_head(data, prm)
    request = ScoringRequest(data.solutions[0]["asked"], tuple(tuple(each["steps"]) for each in data.solutions[:2]))
    expected = [states @ head.weight + head.bias for states in prm.states(request)]
    found = prms.create(entry["plugin"], **entry["arguments"]).score_batch([request])[0]
    assert np.ptp(np.concatenate(expected)) > 1
    for scores, logits in zip(found, expected, strict=True):
        np.testing.assert_allclose(scores.logit, logits, atol=1e-4)

    alone = tmp_path / "head.safetensors"
    weights = load_file(folder / "model.safetensors")
    save_file({name: weights[name] for name in ("score.weight", "score.bias")}, alone)
    assert alone.stat().st_size < 20_000
    given = {"checkpoint": MODEL, "max_tokens": entry["arguments"]["max_tokens"]}
    same = [prms.create("token-classifier", head=str(file), **given) for file in (alone, folder / "model.safetensors")]
    for scores, own in zip(found, same[0].score_batch([request])[0], strict=True):
        np.testing.assert_allclose(own.logit, scores.logit, atol=1e-4)
    assert same[0].identity() == same[1].identity()


def test_the_checkpoint_is_that_of_the_model_with_a_head_for_transformers(
    tmp_path: Path, written: Callable[..., Path]
) -> None:
    prm, folder = HeadlessPRM.of(MODEL), tmp_path / "trained"
    data = labelled(written(as_openr, solutions(14)), Fields(), {})
    head = fit_value_head(data, prm)
    assert head.refusal == ""
    assert head.figures["best-of-4"].value > head.figures["one sample"].value == 0.5
    request = ScoringRequest(data.solutions[0]["asked"], (tuple(data.solutions[0]["steps"]),))
    expected = prm.states(request)[0][-1] @ head.weight + head.bias
    write_checkpoint(head, prm, folder)

    base, own = (load_file(NANO_FOLDER / "shepherd" / "model.safetensors"), load_file(folder / "model.safetensors"))
    trunk = {name: weight for name, weight in own.items() if not name.startswith("score.")}
    assert trunk.keys() == base.keys() - {"lm_head.weight"}
    assert all(weight.dtype == base[name].dtype and weight.equal(base[name]) for name, weight in trunk.items())
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype="float32").eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    parts = [request.question, *(part for step in request.trajectories[0] for part in (step, "\n"))]
    ids = [token for part in parts for token in tokenizer(part, add_special_tokens=False)["input_ids"]]
    bad, good = model(model.dummy_inputs["input_ids"].new_tensor([ids])).logits[0, -1].tolist()
    assert good - bad == pytest.approx(expected, abs=1e-3)

    card = (folder / "README.md").read_text()
    assert "File solutions.jsonl. Shape: success rates of openr." in card
    assert all(f"| {name} | {each.value:.3f} [" in card for name, each in head.figures.items())
    assert "Qwen2ForSequenceClassification" in card


def test_labels_that_say_nothing_are_refused(tmp_path: Path, written: Callable[..., Path], prmcal: Prmcal) -> None:
    """The head has more weights than there are labels, so on the questions of its fit it would rank perfectly."""
    generator, questions = random.Random(3), solutions(14)
    for each in questions:
        marks = [own["marks"] for own in each["solved"]]
        generator.shuffle(marks)
        each["solved"] = [{**own, "marks": mark} for own, mark in zip(each["solved"], marks, strict=True)]
    file, out = written(as_outcomes, questions), tmp_path / "trained"
    done = prmcal("train-prm", file, "--model", MODEL, "--out", out)
    assert done.returncode == 4
    assert "No checkpoint was written. The AUC within questions is 0." in done.stderr
    assert "and a PRM needs 0.7." in " ".join(done.stderr.split())
    assert not out.exists()


def test_math_shepherd_has_the_outcome_in_its_last_mark(written: Callable[..., Path]) -> None:
    questions = solutions(12)
    data = labelled(written(as_shepherd, questions), Fields(), {})
    assert "Math-Shepherd" in data.reading[0]
    marks = [own["marks"] for each in questions for own in each["solved"]]
    assert [each["rates"] for each in data.solutions] == marks
    assert [each["label"] for each in data.solutions] == [own[-1] for own in marks]
    head = fit_value_head(data, HeadlessPRM.of(MODEL))
    assert head.figures["one sample"].questions == 12
    assert "Read: 12 questions, 48 solutions" in head.reading[1]


def test_a_prefix_that_is_too_long_has_no_score(written: Callable[..., Path]) -> None:
    data = labelled(written(as_openr, solutions(12)), Fields(), {})
    prm = HeadlessPRM.of(MODEL)
    asked = ScoringRequest(data.solutions[0]["asked"], (tuple(data.solutions[0]["steps"]),))
    whole = prm.states(asked)[0]
    prm.max_tokens = len(prm.tokenize_prefix(asked.question, asked.trajectories[0][:1]))
    cut = prm.states(asked)[0]
    np.testing.assert_allclose(cut[:2], whole[:2], atol=1e-5)
    assert np.isnan(cut[2:]).all()
    read = [fit_value_head(data, each).reading[1] for each in (prm, HeadlessPRM.of(MODEL))]
    few, many = (int(words.rpartition(" scored prefixes")[0].rpartition(" ")[2]) for words in read)
    assert 0 < few < many


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: [{"question": each["question"], "reasoning_steps": []}], "has no labels"),
        (lambda each: [{**as_outcomes(each)[0], "steps": [[""], [""], [""], [""]]}], "has no texts of steps"),
        (lambda each: as_outcomes(each) if each["question"] < "C" else [], "A fit needs at least 10"),
    ],
)
def test_what_it_cannot_learn_from_is_named(
    change: Callable[[Record], list[Record]], message: str, written: Callable[..., Path]
) -> None:
    questions = solutions(12)
    for number, each in enumerate(questions):
        each["question"] = f"{'ABCDEFGHIJKL'[number]} {each['question']}"
    with pytest.raises(DataError, match=message):
        labelled(written(change, questions), Fields(), {})


def test_a_model_without_a_language_model_is_an_error(
    written: Callable[..., Path], prmcal: Prmcal, tmp_path: Path
) -> None:
    file = written(as_outcomes, solutions(10))
    done = prmcal("train-prm", file, "--model", "nano:prm", "--out", tmp_path / "trained")
    assert done.returncode == 2
    assert "checkpoint nano:prm" in done.stderr
    done = prmcal("train-prm", file, "--model", MODEL, "--out", tmp_path)
    assert (done.returncode, "already exists" in done.stderr) == (2, True)


def test_a_type_without_a_token_classifier_is_an_error(tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 8, "d_model": 8, "n_layer": 1, "state_size": 2, "num_hidden_layers": 1, "hidden_size": 8}
    AutoModelForCausalLM.from_config(AutoConfig.for_model("mamba", **sizes)).save_pretrained(tmp_path)
    with pytest.raises(PluginFailedError, match="no token classifier of the type 'mamba'"):
        HeadlessPRM(str(tmp_path)).modules  # noqa: B018  (It loads the model.)
