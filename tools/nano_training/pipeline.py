r"""The stages of the training, and the folders of their outputs.

tokenizer -> base -> base-again -> solver -> weak, middle, strong -> labels
                           \--> verifier -> verifier-again
verifier-again + labels -> prm, shepherd, reasoneval
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.nano.problems import generate_split
from prmcal.registry.plugins import KINDS
from tools.nano_training import lessons, teaching
from tools.nano_training.judge import FORMATS, Judge, save_judge, scored, written
from tools.nano_training.labels import label_prefixes, labels_by_length, read_labels, sample_trajectories, write_labels
from tools.nano_training.misconceptions import HABITS
from tools.nano_training.model import SolverAndJudge, load_trained, nano_config, save_policy
from tools.nano_training.settle import settle
from tools.nano_training.token_trees import Encoder, Example, Judged
from tools.nano_training.tokenizer import build_tokenizer
from tools.nano_training.trainer import train

LABELLED_QUESTIONS, LABELLED_TRAJECTORIES, FOLLOW_UPS = 640, 2, 8
SETTLED_EVERY = 3
"""Only every third label is used: it suffices for the two numbers that settling fits."""


class Pipeline:
    """The training from nothing to the final models.

    Parameters
    ----------
    work, models : Path
        The folders of intermediate outputs, and of the final models.
    seed : int
        The seed of all stages.
    scale : float
        Factor for all numbers of steps and questions.
    """

    encoder: Encoder

    def __init__(self, work: Path, models: Path, seed: int, scale: float) -> None:
        self.work, self.models, self.seed, self.scale = work, models, seed, scale
        self.labels = work / "labels.jsonl"
        self.work.mkdir(parents=True, exist_ok=True)
        self.models.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Run all stages whose outputs do not exist."""
        self.stage("tokenizer", self.work / "tokenizer", lambda: build_tokenizer(self.work / "tokenizer"))
        self.encoder = Encoder(self.work / "tokenizer")
        for cycle in lessons.CYCLES:
            self.stage(cycle.name, self.work / cycle.name, partial(self.train_cycle, cycle))
        for name in HABITS:
            self.stage(name, self.models / name, partial(self.train_policy, name))
        self.stage("labels", self.labels, self.make_labels)
        for name in FORMATS:
            self.stage(name, self.models / name, partial(self.train_prm, name))

    def stage(self, name: str, output: Path, make: Callable[[], None]) -> None:
        """Make an output unless it exists, and print how long it took."""
        if output.exists():
            print(f"{name}: {output} exists, skipped", flush=True)
            return
        print(f"{name} begins", flush=True)
        started = time.time()
        make()
        print(f"{name}: {time.time() - started:.0f} s", flush=True)

    def scaled(self, count: int) -> int:
        """Scale a number of steps or questions."""
        return max(1, round(count * self.scale))

    def train(self, model: Any, draw: Callable[[int], Sequence[Example]], steps: int, learning_rate: float) -> None:
        """Train a model in place."""
        tokenizer, scratch = self.encoder.tokenizer, self.work / "scratch"
        train(model, tokenizer, draw, self.scaled(steps), learning_rate, scratch, self.seed)

    def train_cycle(self, cycle: lessons.Cycle) -> None:
        """Train a base model, or continue to train one."""
        if cycle.source is None:
            torch.manual_seed(self.seed)
            vocabulary = -(-len(self.encoder.tokenizer) // 64) * 64
            model = SolverAndJudge(nano_config(vocabulary, self.encoder.pad, self.encoder.end))
        else:
            model = load_trained(self.work / cycle.source)
        if cycle.new_layers:
            model = model.deepened(cycle.new_layers, self.seed)
        model.hint_weight, model.balanced_hints = cycle.hint_weight, cycle.first_mistakes
        self.train(
            model,
            lambda number: lessons.draw_batch(self.encoder, cycle, self.seed, number),
            cycle.steps,
            cycle.learning_rate,
        )
        model.save_pretrained(self.work / cycle.name)

    def train_policy(self, name: str) -> None:
        """Fine-tune the solver on chains with the mistakes of a policy."""
        model = load_trained(self.work / "solver")
        self.train(
            model,
            lambda number: lessons.draw_habits(self.encoder, HABITS[name], self.seed, number),
            lessons.POLICY_STEPS,
            lessons.POLICY_RATE,
        )
        save_policy(model, self.encoder.tokenizer, self.models / name)

    def make_labels(self) -> None:
        """Label trajectories of all policies with follow-ups of the strong policy, on train questions of nano-math."""
        problems = generate_split("nano-math", "train", self.scaled(LABELLED_QUESTIONS))
        trajectories: list[list[tuple[str, ...]]] = [[] for _ in problems]
        for index, name in enumerate(HABITS):
            llm = TransformersLLM(str(self.models / name), dtype="float32")
            sampled = sample_trajectories(llm, problems, LABELLED_TRAJECTORIES, self.seed + index)
            for of_problem, more in zip(trajectories, sampled, strict=True):
                of_problem.extend(more)
        strong = TransformersLLM(str(self.models / "strong"), dtype="float32")
        write_labels(self.labels, label_prefixes(strong, problems, trajectories, FOLLOW_UPS, self.seed + 3))

    def train_prm(self, name: str) -> None:
        """Train a PRM in one format from the verifier, and rescale it to the labels if it learned from them."""
        judge_format, lesson, labels = FORMATS[name], teaching.TEACHINGS[name], read_labels(self.labels)
        # Only the tokenizer of the adapter is used. The policies have the same tokenizer.
        adapter = KINDS["prm"].create(judge_format.plugin, checkpoint=str(self.models / "strong"))
        torch.manual_seed(self.seed)
        judge = Judge.from_verifier(load_trained(self.work / "verifier-again"), judge_format, adapter)
        by_length = labels_by_length(labels)

        def encode(question: str, chains: Sequence[Judged]) -> Example:
            if chains[0].scores:
                return scored(adapter, question, chains)
            return written(adapter, question, chains[0].steps)

        self.train(
            judge,
            lambda number: [
                encode(question, chains)
                for question, chains in teaching.draw_questions(lesson, by_length, self.seed, number)
            ],
            lesson.steps,
            lesson.learning_rate,
        )
        if lesson.labelled:
            unsettled = self.work / "unsettled"
            save_judge(judge, judge_format, self.encoder.tokenizer, unsettled)
            prm = KINDS["prm"].create(judge_format.plugin, checkpoint=str(unsettled), dtype="float32")
            settle(judge.last_layer, judge_format.negative, prm, labels[::SETTLED_EVERY])
        save_judge(judge, judge_format, self.encoder.tokenizer, self.models / name)
