"""The same four solutions in files of public shapes, with the fields and the nesting that their writers give them.

    python -m tests.harness.audit.public

writes the table of these shapes, and what is read from each, into ``docs/how-to/audit.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.scored import ScoredSolutions, Target
from prmcal.registry.reading.fields import Fields
from tests.harness.audit import public_samples, public_steps
from tests.harness.audit.solutions import SOLUTIONS, Files

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "audit.md"
_NO_OPTIONS = Fields()


@dataclass(frozen=True)
class Public:
    """A public shape."""

    name: str
    fields: str
    """The fields that are read."""
    files: Callable[[], Files]
    target: Target
    options: Fields = _NO_OPTIONS
    is_whole: bool = False
    """True if there is one score for each solution."""
    names: tuple[str, ...] = tuple(dict.fromkeys(each.question for each in SOLUTIONS))
    real: tuple[str, ...] = ()
    """A file of the recorded public data, and what a test adds scores to. No name: one was read by hand."""

    def read(self, folder: Path) -> ScoredSolutions:
        """Write the files into a folder and read them."""
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
        return audit([folder / name for name in self.files()], self.options).scored


SHAPES = (
    Public(
        "search-and-learn: data sets of completions",
        "`problem`, `completions`, `scores`; the answers are graded against `answer`",
        *(public_samples.search_and_learn, "outcome"),
        real=("",),
    ),
    Public(
        "openr: `record.jsonl`",
        "`question`, `output` with `text` and `value`; graded against the box in `groundtruth`",
        *(public_samples.openr_paths, "outcome"),
        real=("openr_train_data.json",),
    ),
    Public(
        "compute-optimal-tts: `record.jsonl`",
        "the same; each step ends in a tag",
        *(public_samples.compute_optimal_tts, "outcome"),
        real=("compute_optimal_tts_record.jsonl",),
    ),
    Public(
        "Qwen2.5-Math: recorded solutions with a reward model",
        "`question`, `response`, `pred_score`; `score` says which are right",
        *(public_samples.qwen_math, "outcome", _NO_OPTIONS, True),
        real=("math_cot_100_8samples.jsonl",),
    ),
    Public(
        "lm-evaluation-harness: `samples_*.jsonl`, and a file of scores",
        "`doc`, `resps`, `exact_match`; `doc_id`, `scores`; `--label flexible-extract` of several filters",
        *(public_samples.lm_eval_alone, "outcome", Fields(label="flexible-extract")),
    ),
    Public(
        "lm-evaluation-harness: the same with repeats",
        "`doc`, `resps`, `scores`; one metric for all, so they are graded against `target`",
        *(public_samples.lm_eval_repeats, "outcome"),
    ),
    Public(
        "inspect: `.eval`",
        "samples with `input`, `output`, the value of the first scorer, `metadata` with `prm_scores`",
        *(public_samples.inspect_archive, "outcome"),
    ),
    Public("inspect: log as JSON", "the same", public_samples.inspect_json, "outcome"),
    Public(
        "ProcessBench, and a file of scores",
        "`problem`, `steps`, `label`; `id`, `scores`",
        *(public_steps.processbench, "first error"),
        real=("processbench_math.json", "steps"),
    ),
    Public(
        "PRMBench, and a file of scores",
        "`original_question`, `modified_process`, `error_steps`, `classification`; `idx`, `scores`",
        *(public_steps.prmbench, "step"),
    ),
    Public(
        "PRM800K",
        "`question`, `label.steps` with the `rating` of the chosen completion",
        *(public_steps.prm800k, "first error"),
    ),
    Public(
        "Math-Shepherd",
        "`input` with a tag behind each step, `label` with + and -",
        *(public_steps.math_shepherd, "success rate"),
        real=("openr_samples_math-shepherd.jsonl", "tags"),
    ),
    Public(
        "TRL: stepwise supervision",
        "`prompt`, `completions` (the steps), `labels` of the steps",
        *(public_steps.trl, "step"),
    ),
    Public(
        "openr: success rates as lists",
        "`question`, `reasoning_steps` with `solution_prefix` and `mc_value`",
        *(public_steps.openr_lists, "success rate"),
        real=("openr_samples_math-aps_mcvalues.jsonl", "nodes"),
    ),
    Public(
        "openr: success rates as trees",
        "`question`, `reasoning_steps` with `text`, `mc_value` and `children`",
        *(public_steps.openr_trees, "success rate"),
        real=("openr_samples_math-aps-tree_mcvalues.jsonl", "nodes"),
    ),
    Public(
        "HumanEval: results of programs",
        "`task_id`, `completion`, `passed`, `verifier_score`",
        *(public_samples.human_eval, "outcome", _NO_OPTIONS, True, ("HumanEval/0", "HumanEval/1")),
    ),
    Public(
        "Trials of agents",
        "`task`, `resolved`, `verifier_score`",
        *(public_samples.agents, "outcome", _NO_OPTIONS, True, ("sum-0", "sum-1")),
    ),
)
"""Those of other projects. Shapes of one's own are in `files`."""


_TRIED = ("no", "yes", "scores added")


def table() -> str:
    """Return what is read from each shape, as the rows of a table."""
    rows = ["| file | what is read | labels | published file tried |", "| --- | --- | --- | --- |"]
    rows += [f"| {shape.name} | {shape.fields} | {shape.target} | {_TRIED[len(shape.real)]} |" for shape in SHAPES]
    return "\n".join(rows)


_PLACE = re.compile(r"(<!-- shapes -->\n).*?(<!-- end -->)", re.DOTALL)


def written(text: str) -> str:
    """Return the page with the table of today."""
    return _PLACE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table() + "\n")
