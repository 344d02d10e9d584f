"""``prmcal check`` finds the mistakes of authors of plugins, and says what to write instead."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
import yaml

from prmcal.registry.conformance import calibrator, dataset, llm, metric, prm
from tests.conftest import PLUGINS, ROOT, Prmcal

FAILED_CHECKS = 4
WIDTH = 80

# For each file in tests/plugins/mistakes, of each plugin: a check that fails, and what its explanation says.
MISTAKES: dict[str, dict[str, tuple[str, str]]] = {
    "metrics": {
        "mean of the prefixes": ("it measures prefixes", r"measure\(\) must return an array.* Got float64"),
        "unknown direction": ("words", "'better' must be one of 'lower', 'higher'.* Got 'smaller'"),
        "no words": ("words", "needs a 'description' or a docstring"),
        "random": ("the same prefixes give the same value", r"np\.random\.default_rng\(0\)"),
        "first rows of ties": ("the order of the prefixes does not matter", "Treat equal rewards alike"),
        "sorts in place": ("the prefixes are not changed", r"np\.sort\(rows\.reward\)"),
        "logarithm of 0": ("extreme prefixes", "must be finite"),
        "ignores weights": ("a question without weight does not count", "by their weights"),
        "one resample": ("it measures prefixes", "an array of shape .*resamples"),
        "sums of rows": ("it measures prefixes", r"Write rows\.totals\(\.\.\.\)"),
    },
    "calibrators": {
        "unknown features": ("reads and levels", 'Write reads = "logit"'),
        "levels in no order": ("reads and levels", r"ascend within \(0, 1\).* Sort them"),
        "one level as a number": ("reads and levels", r"Write levels = \(0\.1, 0\.5, 0\.9\)"),
        "version as a number": ("class attributes", 'Write version = "1"'),
        "no version": ("class attributes", 'Got None. Write version = "1"'),
        "packages as a text": ("class attributes", r'Write packages = \("torch",\), with the comma'),
        "renamed argument": ("arguments are stored", r"Write self\.bins = bins in __init__"),
        "changed argument": ("arguments are stored", r"Write self\.path = path in __init__"),
        "argument without annotation": ("arguments are annotated", "Write its type, such as int"),
        "any arguments": (
            "arguments are annotated",
            "must name its arguments.* such as bins: int = 10",
        ),
        "shared default": ("defaults are valid", r"Write names: list \| None = None"),
        "default of another type": (
            "defaults are valid",
            "'bins'.*must be a valid integer.* Got 2.5.* Change the default",
        ),
        "argument that hides a method": ("arguments are stored", "name of a method.* Choose another name"),
        "reads a file when it is built": (
            "it can be built",
            "line 116 of calibrators.py.* Move this work into the",
        ),
        "fit of another form": (
            "methods take the arguments of the contract",
            r"Write def fit\(self, features, k, n\)",
        ),
        "grouped without questions": (
            "methods take the arguments of the contract",
            r"Write def fit\(self, features, k, n, questions\)",
        ),
        "fit returns nothing": ("fit returns self", "Got NoneType. Write `return self` in its last line"),
        "no underscore": ("save and load", r"must end in an underscore: write self\.mean_ for self\.mean"),
        "private state": ("save and load", r"needs '_offset',.* Write self\.offset_ in fit\(\)"),
        "state of an object": ("save and load", r"self\.line_ is a Polynomial. Write its numbers as arrays"),
        "fit overwrites an argument": ("fit returns self", r"Store the result as self\.slope_"),
        "no check of the fit": (
            "prediction needs a fit",
            r"Write `self\.check_fitted\(\)` in the first line",
        ),
        "flat prediction": ("in range", r"\(rows,\) instead of .* such as rewards\[:, None\]"),
        "list as prediction": ("in range", r"Got a list. Write np\.asarray\("),
        "log-odds as prediction": ("in range", r"outside \[0, 1\].* probabilities instead of log-odds"),
        "NaN at the end": ("in range", "It returned NaN. Guard divisions by 0"),
        "crossing levels": ("in range", r"Write np\.sort\(rewards, axis=1\)"),
        "unused levels": (
            "quantiles differ",
            r"Use 'levels' in predict\(\), or write levels = \(0\.5,\)",
        ),
        "one column for three levels": (
            "in range",
            r"\(rows, 1\) instead of \(rows, 3\).* a column for each level",
        ),
        "random fit": (
            "a second fit forgets the first",
            r"random numbers from np\.random\.default_rng\(seed\)",
        ),
        "random prediction": ("in range", r"Draw no random numbers in predict\(\)"),
        "sorts its input": (
            "inputs are not changed",
            r"'features' changed. Work on a copy: features\.copy\(\)",
        ),
        "second fit goes on": ("a second fit forgets the first", "Set every fitted attribute anew"),
        "shared state": ("a second fit forgets the first", r"do not change a list or dict of the class"),
        "mean of the batch": ("rows are independent", r"Compute means and ranges in fit\(\)"),
        "not for one row": (
            "fit to one row",
            r"IndexError.* See line \d+ of calibrators.py",
        ),
        "array instead of hidden states": ("fit returns self", 'Write reads = "hidden" for HiddenStates'),
        "hidden states instead of an array": ("in range", r"Write features\.logit for the scores"),
        "wrong name of an attribute": ("in range", r"Did you mean self\.mean_\?"),
        "levels that depend on each other": (
            "any level",
            "its own levels among others the same as of predict",
        ),
        "ties by position": ("equal features get equal rewards", "not on the position of the row"),
        "not for equal labels": ("fit to equal labels", "raised ValueError: only one class"),
        "pickles": ("save and load", r"It wrote state\.pkl"),
        "remembers labels": ("permuted labels give no skill", "is 1.00, and must be below 0.5"),
        "identity with a path": ("identity is json data", "must be JSON data"),
        "identity that changes": ("identity is json data", "must not change between calls"),
    },
    "prms": {
        "lists of numbers": (
            "one score per prefix",
            r"Got \[0\.5,.* Write PrefixScores\(logit, reward, over_long, tokens\) for each trajectory",
        ),
        "one array": ("one score per prefix", r"Got array.* Write PrefixScores\("),
        "scores in lists": (
            "one score per prefix",
            r"'logit' .* Write np\.asarray\(\.\.\., dtype=np\.float32\)",
        ),
        "only the steps": (
            "one score per prefix",
            "3 steps and the bare question instead of 4. Return one for each",
        ),
        "equal trajectories once": (
            "one score per prefix",
            "Return one for each, in their order.* and for equal ones",
        ),
        "rewards above 1": ("one score per prefix", r"Write reward = scipy\.special\.expit\(logit\)"),
        "NaN for the bare question": (
            "one score per prefix",
            "Set over_long where a prefix cannot be read",
        ),
        "probability as logit": ("logit is the log odds", r"Write logit = scipy\.special\.logit\(reward\)"),
        "random scores": ("scoring is repeatable", r"Draw no random numbers, and call model\.eval\(\)"),
        "looks ahead": ("later steps do not matter", "Read the score at the last token of the prefix"),
        "sorted trajectories": (
            "one score per prefix",
            "3 steps and the bare question instead of 4. Return one for each",
        ),
        "equal lengths exchanged": (
            "batches do not matter",
            r"put sorted trajectories back in their order \(scored\[i\]",
        ),
        "depends on the batch": ("batches do not matter", "Mask the padding"),
        "cuts long input": ("too long input is flagged", "do not cut the input"),
        "raises for long input": (
            "too long input is flagged",
            "Write over_long = True and NaN for this prefix",
        ),
        "adds a step": ("one score per prefix", r"arguments are tuples.* Make a copy with list\(\.\.\.\)"),
        "yields scores": ("methods take", "Write return, not yield"),
        "package that is not there": (
            "one score per prefix",
            "Install no_such_package, and name it in 'packages'",
        ),
        "hidden states without the bare question": (
            "hidden states",
            "Write one row for each prefix, the bare",
        ),
        "mixes up questions": ("batches do not matter", r"score_batch\(\) differs"),
        "loses requests": ("batches do not matter", "It returned 1 lists of scores instead of 2"),
        "bare question for the whole": ("whole only requests", "must be that of the whole trajectory"),
        "scores flagged prefixes": ("too long input is flagged", "must be scored NaN. Got reward 0.5"),
    },
    "llms": {
        "texts": ("n completions", r"Got '.* Write Completion\(text, tokens, finish_reason\)"),
        "flat list": ("n completions", "18 lists of completions instead of 3. Return one for each"),
        "ignores the seed": ("the seed decides the texts", "Check that the seed is used"),
        "reason of the engine": ("finish reasons", "Got 'eos'. Translate the reasons of the engine"),
        "greedy": ("samples differ", "turn greedy decoding off"),
        "runs over stop strings": ("stop strings", "cut the text before its first match"),
        "repeats the prefix": ("a prefix is continued", "Return only the new tokens"),
        "ignores the steps": (
            "a prefix is continued",
            "same with and without its steps. Check that they are used",
        ),
        "counts no tokens": ("token counts", "Got .None, 0.. Count the tokens with the LLM's tokenizer"),
        "one completion too few": ("n completions", "5 completions of a prefix instead of 6"),
        "ignores the limit": ("token counts", "at most max_tokens = 4. Got"),
        "stops without a stop string": ("finish reasons", "Without stop strings, .* Got 'stop'"),
        "always cut off": ("finish reasons", "Only a completion of max_tokens tokens ends with 'length'"),
        "hides stop strings": ("stop strings", "must have the finish_reason 'stop'"),
        "repeats samples": ("samples differ", "got the same samples in the same order"),
        "no seed": ("the seed decides the texts", "The same seed must give the same texts"),
        "starts again": (
            "a prefix is continued",
            "start again with its first step|repeat the prefix's steps",
        ),
        "one seed for a batch": ("a batch equals its requests", "6 of 6 texts differ"),
    },
    "datasets": {
        "equal ids": ("every split has questions", "the same id, '1'. Number the questions"),
        "overlapping splits": ("splits are disjoint", "Leave it out of one of them"),
        "dicts": ("every split has questions", r"Got \{'id'.* Write Question\(id, text, answer\)"),
        "answers as numbers": (
            "every split has questions",
            r"are strings, .* answer=1.* Write str\(\.\.\.\) around",
        ),
        "answers in boxes": ("every split has questions", "Write what is in the box only"),
        "level as a list": ("every split has questions", "its level is a number or a word"),
        "ignores the count": ("questions keep their order", r"Got 10. Write `return found\[:count\]`"),
        "another order each time": (
            "questions keep their order",
            "Draw no random numbers, or use a fixed seed",
        ),
        "KeyError for a split": ("unknown splits", r"Got KeyError.* Write `raise DataError\(\.\.\.\)`"),
        "takes any split": ("unknown splits", "Compare split with self.splits"),
        "splits as a text": ("splits and grading", r'Write splits = \("test",\), with the comma'),
        "unknown grading": ("splits and grading", 'Write grading = "symbolic"'),
        "verdict alone": ("grading", 'Write `return "correct", answer`'),
        "last questions": ("questions keep their order", "must also be the first of more questions"),
        "nothing is right": ("grading", "must be 'correct'. Got 'incorrect'"),
        "questions without a count": ("methods take", r"Write def questions\(self, split, count=None\)"),
    },
    "strategies": {
        "more than the pool": ("it works", r"Write np\.clip\(\.\.\., 0, 16\)"),
        "reads more than it declares": ("it works", "Add 'scores' to its 'reads'"),
        "stops by the truth": ("the truth decides no budget", r"Choose thresholds in tune\(\)"),
        "a curve of one point": ("the curve begins", "Vary the argument that decides how many samples"),
        "reads as a text": ("reads are known", r'Write reads = \("scores",\), with the comma'),
        "reads what is not there": ("reads are known", "may contain scores, .* Got reward"),
        "a pair": ("it works", r"Got tuple. Write `return Answered\(accuracy, samples\)`"),
        "one mean": (
            "it works",
            r"Give every question its own value, such as np\.full\(pool\.questions, value\)",
        ),
        "random choice": ("the same pool gives the same answer", "Use a closed form"),
        "sorts the pool": ("the pool is not changed", r"Work on a copy: np\.sort\(pool\.correct\)"),
        "target without targeted": ("it works", "Write targeted = True"),
        "knows the answers": ("accuracy does not exceed", "choice does not depend on 'correct'"),
        "first trajectory": ("the order of the pool", "Write the mean over all draws"),
        "fewer samples for a higher target": ("a higher target", "rise with setting.target"),
        "width as a float": ("the width is in its range", r"Got 4\.0. Write int\(np\.clip\(\.\.\., 1, 8\)\)"),
        "width above the largest": ("the width is in its range", r"Got 16. Write int\("),
        "width from earlier calls": ("the same rewards give the same width", "Keep no state between calls"),
    },
}
SOUND = "no mistake"
FIT = "    def fit(self, features, k, n): return self\n"
PREDICT = "    def predict(self, features): return features[:, None]\n"


@pytest.fixture(scope="module")
def checked(prmcal: Prmcal) -> Checked:
    return Checked(prmcal)


class Checked:
    """The report on each plugin of a file of mistakes. Each file is checked once."""

    def __init__(self, prmcal: Prmcal) -> None:
        self.run = cache(lambda name: prmcal("check", PLUGINS / "mistakes" / f"{name}.py"))

    def report(self, name: str) -> dict[str, str]:
        blocks = self.run(name).stdout.strip().split("\n\n")
        return {re.split(r": (?=\d|needs)", block)[0].partition(" ")[2]: block for block in blocks[:-1]}


@pytest.mark.parametrize(
    ("file", "plugin"), [(file, plugin) for file, plugins in MISTAKES.items() for plugin in plugins]
)
def test_a_mistake_is_found_and_explained(file: str, plugin: str, checked: Checked) -> None:
    check, explanation = MISTAKES[file][plugin]
    report = checked.report(file)[plugin]
    paragraphs = re.split(r"\n  (?=FAILED|skipped)", report)[1:]
    texts = [" ".join(each.split()) for each in paragraphs if each.startswith("FAILED")]
    assert any(check in text and re.search(explanation, text) for text in texts), report


@pytest.mark.parametrize("file", MISTAKES)
def test_a_report_is_narrow_and_complete(file: str, checked: Checked) -> None:
    done = checked.run(file)
    report = checked.report(file)
    assert done.returncode == FAILED_CHECKS
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if len(line) > WIDTH and "--argument" not in line] == []
    assert report.keys() - {SOUND, "needs arguments"} == MISTAKES[file].keys()
    assert SOUND not in report or "FAILED" not in report[SOUND]


KINDS = {"metrics": metric, "calibrators": calibrator, "prms": prm, "llms": llm, "datasets": dataset}


@pytest.mark.parametrize("file", KINDS)
def test_every_check_is_seen_to_fail(file: str) -> None:
    names = [check.__name__.removeprefix("check_").replace("_", " ") for check in KINDS[file].CHECKS]
    seen = {check for check, _ in MISTAKES[file].values()}
    assert [name for name in names if not any(part in name for part in seen)] == []


def test_a_plugin_that_needs_arguments_does_not_end_the_check_of_its_file(
    prmcal: Prmcal, tmp_path: Path, checked: Checked
) -> None:
    assert re.search(
        r"^calibrator needs arguments: needs arguments\. Run\n  prmcal check \S+ --argument folder=\.\.\.$",
        checked.report("calibrators")["needs arguments"],
    )
    path = tmp_path / "mine.py"
    needy = "@calibrator('needy')\nclass Needy(Calibrator):\n    reads = 'reward'\n"
    needy += "    def __init__(self, folder: str) -> None:\n        self.folder = folder\n"
    content = "@calibrator('content')\nclass Content(Calibrator):\n"
    path.write_text(
        f"from prmcal import Calibrator, calibrator\n{needy}{FIT}{PREDICT}{content}{FIT}{PREDICT}"
    )
    given = prmcal("check", path, "--argument", "folder=here")
    assert given.returncode == 0, given.stdout
    assert "2 plugins: 2 passed" in given.stdout
    assert "2 plugins: 1 passed, 1 needs arguments" in " ".join(prmcal("check", path).stdout.split())
    wrong = prmcal("check", path, "--argument", "foldr=here")
    assert wrong.returncode == 2
    assert "has an argument 'foldr'. Did you mean 'folder'?" in wrong.stderr


WHOLE = f"class Mine(Calibrator):\n{FIT}{PREDICT}"
FILES = {
    "a method that is not there": (
        f"from prmcal import Calibrator, calibrator\n@calibrator('half')\nclass Half(Calibrator):\n{FIT}",
        r"'half' \(Half\) lacks predict. Write def predict\(self, features\)",
    ),
    "the decorator of another kind": (
        f"from prmcal import Calibrator, prm\n@prm('other')\n{WHOLE}",
        r'must be a class that derives from prmcal\.PRM. Write @calibrator\("other"\) above it',
    ),
    "a decorator without a name": (
        f"from prmcal import Calibrator, calibrator\n@calibrator\n{WHOLE}",
        r'The decorator needs a name. Write @calibrator\("my-calibrator"\) above the class',
    ),
    "no decorator": (
        f"from prmcal import Calibrator\n{WHOLE}",
        r"Put a decorator such as @calibrator\('name'\)",
    ),
    "a class of nothing": (
        "from prmcal import calibrator\n@calibrator('alone')\nclass Alone: pass",
        r"'alone' \(Alone\) must be a class that derives from prmcal\.Calibrator",
    ),
    "a name twice": (
        f"from prmcal import Calibrator, calibrator\n@calibrator('isotonic')\n{WHOLE}",
        r"'isotonic' is already registered by .* Choose another name",
    ),
}


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_in_a_file_is_explained(mistake: str, prmcal: Prmcal, tmp_path: Path) -> None:
    content, explanation = FILES[mistake]
    path = tmp_path / "mine.py"
    path.write_text(content)
    done = prmcal("check", path)
    assert done.returncode != 0
    assert re.search(explanation, " ".join((done.stdout + done.stderr).split())), done.stdout + done.stderr


def test_each_mistake_of_the_table_is_used_and_filled_in() -> None:
    folder = ROOT / "registry" / "conformance"
    kinds = yaml.safe_load((folder / "mistakes.yaml").read_text(encoding="utf-8"))
    entries = [(name, entry) for kind in kinds.values() for name, entry in kind.items()]
    table, used = dict(entries), set()
    assert len(table) == len(entries)
    for function in (
        each
        for path in folder.glob("*.py")
        for each in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef)
    ):
        names = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
        names |= {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
        names |= {str(each.name) for each in ast.walk(function) if isinstance(each, ast.ExceptHandler)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("expect", "failed"):
                name = next((each for each in node.args if isinstance(each, ast.Constant)), None)
                if name is not None:
                    entry = table[str(name.value)]
                    used.add(name.value)
                    fields = {field for _, field, _, _ in Formatter().parse(entry) if field}
                    given = {keyword.arg for keyword in node.keywords}
                    local = names if any(isinstance(each, ast.Call) for each in node.args[-1:]) else set()
                    used_fields = {re.split(r"[.\[]", field)[0] for field in fields}
                    assert given <= used_fields <= given | local, name.value
    assert used == set(table)
