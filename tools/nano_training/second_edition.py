"""The second edition of the nano models, the shipped one: each model is fine-tuned from one of the first edition.

strong of the first edition -> three policies -> labels
prm, shepherd, reasoneval of the first edition + labels -> prm, shepherd, reasoneval
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prmcal.registry.plugins import KINDS
from tools.nano_training.examples.labels import read_labels
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.examples.tokenizer import build_tokenizer
from tools.nano_training.fitting.folders import load_trained, save_policy
from tools.nano_training.pipeline import Pipeline
from tools.nano_training.stages import habitual, sharing, twins
from tools.nano_training.stages.reward_model import group_by_question


class SecondEdition(Pipeline):
    """The stages of the second edition."""

    def run(self, first: Path) -> None:
        """Run all stages, from the models of the first edition in a folder."""
        self.first = first
        self.stage("tokenizer", self.work / "tokenizer", lambda: build_tokenizer(self.work / "tokenizer"))
        self.encoder = Encoder(self.work / "tokenizer")
        for name in habitual.HABITS:
            self.stage(name, self.models / name, partial(self.train_policy, name))
        self.labels = self.work / "second-labels.jsonl"
        self.stage(
            "labels", self.labels, lambda: self.make_labels(self.models, sharing.QUESTIONS, self.labels)
        )
        self.stage("prm", self.models / "prm", self.train_prm)
        for name in twins.OUTPUTS:
            self.stage(name, self.models / name, partial(self.train_twin, name))

    def train_policy(self, name: str) -> None:
        """Fine-tune the strong policy of the first edition on chains with the mistakes of a policy."""
        model = load_trained(self.first / "strong")
        self.train(
            name,
            model,
            lambda number: habitual.draw_batch(self.encoder, habitual.HABITS[name], self.seed, number),
            self.scaled(habitual.STEPS),
            habitual.LEARNING_RATE,
        )
        save_policy(model, self.encoder.tokenizer, self.models / name)

    def train_prm(self) -> None:
        """Fine-tune the PRM in Qwen's format."""
        model: Any = load_trained(self.first / "prm")
        self.teach(
            "prm",
            model,
            lambda question, chains: self.encoder.example(question, chains, system=True, hinted=False),
        )
        self.ship_reward_model(model, read_labels(self.labels))

    def train_twin(self, name: twins.Format) -> None:
        """Fine-tune a PRM in another format."""
        adapter = KINDS["prm"].create(name, checkpoint=str(self.first / name))
        twin = twins.load_twin(name, self.first / name, adapter.log_odds)

        def encode(question: str, chains: Sequence[Judged]) -> Example:
            if chains[0].scores:
                return twins.scored(adapter, question, chains)
            return twins.written(adapter, question, chains[0].steps)

        self.teach(name, twin, encode)
        if sharing.TEACHINGS[name].labelled:
            self.ship_twin(name, twin, read_labels(self.labels))
        else:
            twins.save_twin(twin, name, self.encoder.tokenizer, self.models / name)

    def teach(self, name: str, model: Any, encode: Callable[[str, Sequence[Judged]], Example]) -> None:
        """Fine-tune a PRM on its share of labels and chains."""
        teaching = sharing.TEACHINGS[name]
        labels = group_by_question(read_labels(self.labels))
        self.train(
            name,
            model,
            lambda number: [
                encode(question, chains)
                for question, chains in sharing.draw_questions(teaching, labels, self.seed, number)
            ],
            self.scaled(teaching.steps),
            teaching.learning_rate,
        )
