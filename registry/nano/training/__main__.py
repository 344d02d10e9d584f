r"""Trains everything, from nothing, on one CPU core: `python -m registry.nano.training`.

Stages, each skipped if its output exists, so that an interrupted run goes on where it was:

    tokenizer -> base -> base-again -> solver -> polished -> strong, middle, weak -> labels -> prm
                               \--> verifier -> verifier-again -----------------------------/

The four folders to ship go to `build/nano/models`, all else to the work folder. To ship them, copy the four to
`registry/nano/models`: the shipped ones are never overwritten, nor taken for a finished stage.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from registry.nano.problems import generate_split
from registry.nano.training import base, policies, polish, reward_model
from registry.nano.training.cycles import CYCLES, Cycle
from registry.nano.training.examples import Encoder
from registry.nano.training.folders import load_policy, load_trained, save_policy, save_reward_model
from registry.nano.training.labels import label_prefixes, read_labels, sample_trajectories, write_labels
from registry.nano.training.model import SolverAndJudge, nano_config
from registry.nano.training.probe import Probe
from registry.nano.training.tokenizer import build_tokenizer
from registry.nano.training.trainer import train

REWARD_STEPS, REWARD_RATE, HINT_WEIGHT = 240, 3e-4, 0.5
LABELLED_QUESTIONS, LABELLED_TRAJECTORIES, FOLLOW_UPS = 320, 2, 8


class Pipeline:
    """The stages and where their outputs lie."""

    def __init__(self, work: Path, models: Path, seed: int, scale: float) -> None:
        self.work, self.models, self.seed, self.scale = work, models, seed, scale
        self.work.mkdir(parents=True, exist_ok=True)
        self.models.mkdir(parents=True, exist_ok=True)

    def stage(self, name: str, output: Path, make: Callable[[], None]) -> None:
        """Make an output unless it exists, and say how long it took."""
        if output.exists():
            print(f"{name}: {output} exists, skipped", flush=True)
            return
        started = time.time()
        make()
        print(f"{name}: {time.time() - started:.0f} s", flush=True)

    def run(self, until: str = "prm") -> None:
        """All stages, or those up to and including one."""
        self.stage("tokenizer", self.work / "tokenizer", lambda: build_tokenizer(self.work / "tokenizer"))
        self.encoder = Encoder(self.work / "tokenizer")
        for cycle in CYCLES:
            self.stage(cycle.name, self.work / cycle.name, lambda cycle=cycle: self.train_cycle(cycle))  # type: ignore[misc]
        if until == "base":
            return
        self.stage("polished", self.work / "polished", self.train_polished)
        for name in ("strong", "middle", "weak"):
            self.stage(name, self.models / name, lambda name=name: self.train_policy(name))  # type: ignore[misc]
        if until == "policies":
            return
        self.stage("labels", self.work / "labels.jsonl", self.make_labels)
        self.stage("prm", self.models / "prm", self.train_reward_model)

    def scaled(self, count: int) -> int:
        """A number of steps or questions, scaled down in tests."""
        return max(1, round(count * self.scale))

    def train_cycle(self, cycle: Cycle) -> None:
        """A base model, or a further cycle of one."""
        if cycle.source is None:
            torch.manual_seed(self.seed)
            vocabulary = -(-len(self.encoder.tokenizer) // 64) * 64
            model = SolverAndJudge(nano_config(vocabulary, self.encoder.pad, self.encoder.end))
        else:
            model = load_trained(self.work / cycle.source)
        if cycle.new_layers:
            model = model.deepened(cycle.new_layers, self.seed)
        model.hint_weight, model.balanced_hints = cycle.hint_weight, cycle.balanced_hints
        train(
            cycle.name,
            model,
            self.encoder.tokenizer,
            lambda number: base.draw_batch(self.encoder, self.seed + cycle.seed, number, cycle.lesson),
            self.scaled(cycle.steps),
            cycle.learning_rate,
            self.work / "scratch",
            self.seed,
            Probe(self.encoder, cycle.lesson),
        )
        model.save_pretrained(self.work / cycle.name)

    def train_polished(self) -> None:
        """The model that all policies start from."""
        model = load_trained(self.work / "solver")
        train(
            "polished",
            model,
            self.encoder.tokenizer,
            lambda number: polish.draw_batch(self.encoder, self.seed + polish.SEED, number),
            self.scaled(polish.STEPS),
            polish.LEARNING_RATE,
            self.work / "scratch",
            self.seed,
            Probe(self.encoder),
        )
        model.save_pretrained(self.work / "polished")

    def train_policy(self, name: str) -> None:
        """One policy from the polished solver."""
        noise = policies.POLICIES[name]
        model = load_trained(self.work / "polished")
        train(
            name,
            model,
            self.encoder.tokenizer,
            lambda number: policies.draw_batch(self.encoder, noise, self.seed, number),
            self.scaled(noise.steps),
            noise.learning_rate,
            self.work / "scratch",
            self.seed,
            Probe(self.encoder),
        )
        save_policy(model, self.encoder.tokenizer, self.models / name)

    def make_labels(self) -> None:
        """Trajectories of all policies, follow-ups of the strong one, on train questions of nano-math."""
        problems = generate_split("nano-math", "train", self.scaled(LABELLED_QUESTIONS))
        trajectories: list[list[list[str]]] = [[] for _ in problems]
        for index, name in enumerate(("weak", "middle", "strong")):
            model, tokenizer = load_policy(self.models / name)
            found = sample_trajectories(model, tokenizer, problems, LABELLED_TRAJECTORIES, self.seed + index)
            for all_of_one, more in zip(trajectories, found, strict=True):
                all_of_one.extend(more)
        model, tokenizer = load_policy(self.models / "strong")
        labelled = label_prefixes(model, tokenizer, problems, trajectories, FOLLOW_UPS, self.seed + 3)
        write_labels(self.work / "labels.jsonl", [row for rows in labelled for row in rows])

    def train_reward_model(self) -> None:
        """The reward model from the verifier and the labels."""
        labels = reward_model.group_by_question(read_labels(self.work / "labels.jsonl"))
        model = load_trained(self.work / "verifier-again")
        model.hint_weight, model.balanced_hints = HINT_WEIGHT, True
        train(
            "prm",
            model,
            self.encoder.tokenizer,
            lambda number: reward_model.draw_batch(self.encoder, labels, self.seed, number),
            self.scaled(REWARD_STEPS),
            REWARD_RATE,
            self.work / "scratch",
            self.seed,
            Probe(self.encoder),
        )
        save_reward_model(model, self.encoder.tokenizer, self.models / "prm")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, default=Path("build/nano"), help="folder for what is not shipped"
    )
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("build/nano/models"),
        help="folder for weak, middle, strong and prm",
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of all counts, to try it out")
    parser.add_argument(
        "--until", choices=("base", "policies", "prm"), default="prm", help="last stage to run"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    Pipeline(arguments.work, arguments.models, arguments.seed, arguments.scale).run(arguments.until)


if __name__ == "__main__":
    main()
