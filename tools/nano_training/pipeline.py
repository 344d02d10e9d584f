"""What the stages of both editions need: folders, the trainer, and Monte Carlo labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.nano.problems import generate_split
from prmcal.registry.plugins import KINDS
from tools.nano_training.examples.labels import (
    Labelled,
    label_prefixes,
    sample_trajectories,
    write_labels,
)
from tools.nano_training.examples.token_trees import Encoder, Example
from tools.nano_training.fitting.folders import save_reward_model
from tools.nano_training.fitting.model import SolverAndJudge
from tools.nano_training.fitting.trainer import train
from tools.nano_training.stages import twins
from tools.nano_training.stages.settle import settle

LABELLED_TRAJECTORIES, FOLLOW_UPS = 2, 8
SETTLED_EVERY = 3
"""Only every third label is used: it suffices for the two numbers that settling fits."""


class Pipeline:
    """Training stages, and the folders of their outputs."""

    encoder: Encoder

    def __init__(self, work: Path, models: Path, seed: int, scale: float) -> None:
        self.work, self.models, self.seed, self.scale = work, models, seed, scale
        self.work.mkdir(parents=True, exist_ok=True)
        self.models.mkdir(parents=True, exist_ok=True)

    def stage(self, name: str, output: Path, make: Callable[[], None]) -> None:
        """Make an output unless it exists, and print how long it took."""
        if output.exists():
            print(f"{name}: {output} exists, skipped", flush=True)
            return
        started = time.time()
        make()
        print(f"{name}: {time.time() - started:.0f} s", flush=True)

    def scaled(self, count: int) -> int:
        """Scale a number of steps, questions or batches. Tests scale it down."""
        return max(1, round(count * self.scale))

    def train(
        self,
        name: str,
        model: Any,
        draw: Callable[[int], Sequence[Example]],
        steps: int,
        learning_rate: float,
        probe: Callable[[Any], dict[str, float]] | None = None,
        probe_every: int = 250,
    ) -> None:
        """Train a model in place. The caller scales `steps`."""
        scratch = self.work / "scratch"
        tokenizer = self.encoder.tokenizer
        train(name, model, tokenizer, draw, steps, learning_rate, scratch, self.seed, probe, probe_every)

    def make_labels(self, folder: Path, questions: int, output: Path) -> None:
        """Label trajectories of all policies with follow-ups of the strong policy, on train questions of nano-math."""
        problems = generate_split("nano-math", "train", self.scaled(questions))
        trajectories: list[list[tuple[str, ...]]] = [[] for _ in problems]
        for index, name in enumerate(("weak", "middle", "strong")):
            llm = TransformersLLM(str(folder / name), dtype="float32")
            found = sample_trajectories(llm, problems, LABELLED_TRAJECTORIES, self.seed + index)
            for all_of_one, more in zip(trajectories, found, strict=True):
                all_of_one.extend(more)
        strong = TransformersLLM(str(folder / "strong"), dtype="float32")
        write_labels(output, label_prefixes(strong, problems, trajectories, FOLLOW_UPS, self.seed + 3))

    def ship_reward_model(self, model: SolverAndJudge, labels: Sequence[Labelled]) -> None:
        """Rescale a reward model in Qwen's format to labels, and write it as a checkpoint of its format."""
        save_reward_model(model, self.encoder.tokenizer, self.work / "unsettled")
        unsettled = KINDS["prm"].create("qwen", checkpoint=str(self.work / "unsettled"), dtype="float32")
        settle(model.score[2], 0, unsettled, labels[::SETTLED_EVERY])
        save_reward_model(model, self.encoder.tokenizer, self.models / "prm")

    def ship_twin(self, name: twins.Format, twin: twins.Twin, labels: Sequence[Labelled]) -> None:
        """Rescale a reward model in another format to labels, and write it as a checkpoint of its format."""
        twins.save_twin(twin, name, self.encoder.tokenizer, self.work / "unsettled")
        unsettled = KINDS["prm"].create(name, checkpoint=str(self.work / "unsettled"), dtype="float32")
        settle(twin.head, twins.NEGATIVE[name], unsettled, labels[::SETTLED_EVERY])
        twins.save_twin(twin, name, self.encoder.tokenizer, self.models / name)
