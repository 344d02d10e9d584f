r"""The first edition of the nano models, trained from scratch. The second edition starts from its models.

The stages are as follows:

    tokenizer -> base -> base-again -> solver -> polished -> three policies, each mended
                               \--> verifier -> verifier-again -> first-prm -> drilled -> seeing -> prm

    shepherd and reasoneval, the twins: PRMs in other formats, which start from the trunk of prm

Its policies make random mistakes, and its PRMs detect nearly all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from prmcal.registry.plugins import KINDS
from tools.nano_training.examples.facts import Facts, wrong_shares
from tools.nano_training.examples.labels import read_labels
from tools.nano_training.examples.token_trees import Encoder
from tools.nano_training.examples.tokenizer import build_tokenizer
from tools.nano_training.fitting.folders import load_trained, save_policy
from tools.nano_training.fitting.model import SolverAndJudge, nano_config
from tools.nano_training.fitting.probe import BATCHES, Probe
from tools.nano_training.pipeline import Pipeline
from tools.nano_training.stages import base, drill, policies, polish, reward_model, twins
from tools.nano_training.stages.cycles import CYCLES, Cycle

POLICIES = ("strong", "middle", "weak")
REWARD_RATE, HINT_WEIGHT = 4e-4, 0.5
FIRST_REWARD_STEPS, SEEING_STEPS, REMEMBERING_STEPS = 240, 800, 950
FIRST_QUESTIONS, QUESTIONS = 320, 640
REFRESH = 150
"""Training steps between two measurements of what the model gets wrong."""


class FactProbe:
    """Measures during training which facts the model gets wrong."""

    def __init__(self, encoder: Encoder, model: Any, scale: float) -> None:
        self.encoder = encoder
        self.every = max(1, round(min(1 / scale, 100)))
        self(model)

    def __call__(self, model: Any) -> dict[str, float]:
        """Measure all facts again, and return the mean probability of a wrong result."""
        shares = wrong_shares(model, self.encoder, every=self.every)
        self.facts = Facts(shares)
        return {"wrong": sum(shares.values()) / len(shares)}


class FirstEdition(Pipeline):
    """The stages of the first edition."""

    def run(self, until: str = "prm") -> None:
        """Run all stages, or those up to and including `until`."""
        work, models = self.work, self.models
        self.stage("tokenizer", work / "tokenizer", lambda: build_tokenizer(work / "tokenizer"))
        self.encoder = Encoder(work / "tokenizer")
        for cycle in CYCLES:
            self.stage(cycle.name, work / cycle.name, partial(self.train_cycle, cycle))
        if until == "base":
            return
        self.stage("polished", work / "polished", self.train_polished)
        for name in POLICIES:
            self.stage(f"{name}-first", work / name, partial(self.train_policy, name))
            self.stage(name, models / name, partial(self.mend_policy, name))
        if until == "policies":
            return
        self.stage(
            "first-labels",
            work / "first-labels.jsonl",
            lambda: self.make_labels(work / "policies", FIRST_QUESTIONS, work / "first-labels.jsonl"),
        )
        self.stage("first-prm", work / "first-prm", self.train_first_reward_model)
        self.stage("drilled", work / "drilled", self.train_drilled)
        self.stage(
            "labels",
            work / "labels.jsonl",
            lambda: self.make_labels(models, QUESTIONS, work / "labels.jsonl"),
        )
        self.stage(
            "seeing",
            work / "seeing",
            lambda: self.train_reward_model("seeing", "drilled", False, SEEING_STEPS),
        )
        self.stage(
            "remembering",
            work / "remembering",
            lambda: self.train_reward_model("remembering", "seeing", True, REMEMBERING_STEPS),
        )
        self.stage(
            "prm",
            models / "prm",
            lambda: self.ship_reward_model(
                load_trained(work / "remembering"), read_labels(work / "labels.jsonl")
            ),
        )
        for name in twins.OUTPUTS:
            self.stage(name, models / name, partial(self.train_twin, name))

    def train_cycle(self, cycle: Cycle) -> None:
        """Train a base model, or continue to train one."""
        if cycle.source is None:
            torch.manual_seed(self.seed)
            vocabulary = -(-len(self.encoder.tokenizer) // 64) * 64
            model = SolverAndJudge(nano_config(vocabulary, self.encoder.pad, self.encoder.end))
        else:
            model = load_trained(self.work / cycle.source)
        if cycle.new_layers:
            model = model.deepened(cycle.new_layers, self.seed)
        model.hint_weight, model.balanced_hints = cycle.hint_weight, cycle.balanced_hints
        self.train(
            cycle.name,
            model,
            lambda number: base.draw_batch(self.encoder, self.seed + cycle.seed, number, cycle.lesson),
            self.scaled(cycle.steps),
            cycle.learning_rate,
            Probe(self.encoder, cycle.lesson, self.scaled(BATCHES)),
        )
        model.save_pretrained(self.work / cycle.name)

    def train_polished(self) -> None:
        """Train the model that all policies start from."""
        model = load_trained(self.work / "solver")
        self.train(
            "polished",
            model,
            lambda number: polish.draw_batch(self.encoder, self.seed + polish.SEED, number),
            self.scaled(polish.STEPS),
            polish.LEARNING_RATE,
            Probe(self.encoder, batches=self.scaled(BATCHES)),
        )
        model.save_pretrained(self.work / "polished")

    def train_policy(self, name: str) -> None:
        """Train one policy from the polished solver."""
        noise = policies.POLICIES[name]
        model = load_trained(self.work / "polished")
        self.train(
            name,
            model,
            lambda number: policies.draw_batch(self.encoder, noise, self.seed, number),
            self.scaled(noise.steps),
            noise.learning_rate,
            Probe(self.encoder, batches=self.scaled(BATCHES)),
        )
        model.save_pretrained(self.work / name)
        save_policy(model, self.encoder.tokenizer, self.work / "policies" / name)

    def mend_policy(self, name: str) -> None:
        """Reduce the slips of a policy, and keep its copy mistakes."""
        model = load_trained(self.work / name)
        self.mend(name, model, policies.POLICIES[name], policies.MENDING_STEPS, policies.MENDING_RATE)
        if name == "strong":
            self.clean(name, model)
            self.mend(name, model, policies.GENTLE_NOISE, policies.GENTLE_STEPS, policies.GENTLE_RATE)
        save_policy(model, self.encoder.tokenizer, self.models / name)

    def mend(
        self, name: str, model: SolverAndJudge, noise: policies.Noise, steps: int, learning_rate: float
    ) -> None:
        """Imitate mistakes on problems with facts that the policy gets wrong."""
        probe = FactProbe(self.encoder, model, self.scale)
        self.train(
            f"{name}-mended",
            model,
            lambda number: policies.draw_mending_batch(self.encoder, noise, probe.facts, self.seed, number),
            self.scaled(steps),
            learning_rate,
            probe,
            probe_every=50,
        )

    def clean(self, name: str, model: SolverAndJudge) -> None:
        """Learn right chains only, on problems with facts that the model gets wrong."""
        probe = FactProbe(self.encoder, model, self.scale)
        self.train(
            f"{name}-clean",
            model,
            lambda number: policies.draw_cleaning_batch(self.encoder, probe.facts, self.seed, number),
            self.scaled(policies.CLEANING_STEPS),
            policies.CLEANING_RATE,
            probe,
            probe_every=100,
        )

    def train_first_reward_model(self) -> None:
        """Train the first reward model, from the verifier and the first labels."""
        labels = reward_model.group_by_question(read_labels(self.work / "first-labels.jsonl"))
        model = load_trained(self.work / "verifier-again")
        model.hint_weight, model.balanced_hints = HINT_WEIGHT, True
        self.train(
            "first-prm",
            model,
            lambda number: reward_model.draw_first_batch(self.encoder, labels, self.seed, number),
            self.scaled(FIRST_REWARD_STEPS),
            REWARD_RATE,
            Probe(self.encoder, batches=self.scaled(BATCHES)),
        )
        model.save_pretrained(self.work / "first-prm")

    def train_drilled(self) -> None:
        """Train the verifier to detect slips."""
        model = load_trained(self.work / "first-prm")
        model.hint_weight, model.balanced_hints = 1.0, True
        probe = FactProbe(self.encoder, model, self.scale)
        steps = self.scaled(drill.STEPS)
        self.train(
            "drilled",
            model,
            lambda number: drill.draw_batch(self.encoder, probe.facts, self.seed, number, steps),
            steps,
            drill.LEARNING_RATE,
            probe,
            REFRESH,
        )
        model.save_pretrained(self.work / "drilled")

    def train_reward_model(self, name: str, source: str, remember: bool, steps: int) -> None:
        """Train one of the two stages from the drilled verifier to the reward model, with the labels."""
        labels = reward_model.group_by_question(read_labels(self.work / "labels.jsonl"))
        model = load_trained(self.work / source)
        model.hint_weight, model.balanced_hints = HINT_WEIGHT, True
        probe = FactProbe(self.encoder, model, self.scale)
        self.train(
            name,
            model,
            lambda number: reward_model.draw_batch(
                self.encoder, labels, probe.facts, self.seed, number, remember
            ),
            self.scaled(steps),
            REWARD_RATE,
            probe,
            REFRESH,
        )
        model.save_pretrained(self.work / name)

    def train_twin(self, name: twins.Format) -> None:
        """Train a reward model in another format, on the labels and the drill of the first one."""
        source = load_trained(self.work / "remembering")
        # Only the tokenizer of the adapter is used. The policies have the same tokenizer.
        adapter = KINDS["prm"].create(name, checkpoint=str(self.models / "strong"))
        torch.manual_seed(self.seed)
        twin = twins.Twin(source.config, twins.OUTPUTS[name], adapter.log_odds)
        twin.model.load_state_dict(source.model.state_dict())
        labels = read_labels(self.work / "labels.jsonl")
        facts = FactProbe(self.encoder, source, self.scale).facts
        examples = twins.TwinExamples(
            adapter,
            reward_model.group_by_question(labels),
            facts,
        )
        for index, each in enumerate(twins.ROUNDS):
            self.train(
                name,
                twin,
                partial(examples.draw, self.seed + index, remember=each.remember),
                self.scaled(each.steps),
                each.learning_rate,
            )
        self.ship_twin(name, twin, labels)
