"""Settling rescales the scores of a reward model to the labels and keeps their order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import spearmanr

from prmcal.registry.nano.problems import generate_split, solution_steps
from prmcal.registry.plugins import prms
from prmcal.registry.prms.transformers import TransformersPRM
from tests.registry.create import create_as
from tools.nano_training.labels import LabelledSteps
from tools.nano_training.settle import settle

SLOPE, OFFSET = 0.7, -1.5


@pytest.mark.parametrize(
    ("plugin", "folder", "negative"),
    [("qwen", "prm", 0), ("shepherd", "shepherd", 1), ("reasoneval", "reasoneval", 0)],
)
def test_a_known_slope_and_offset_are_found_and_folded_in(
    plugin: str, folder: str, negative: int, one_thread: None
) -> None:
    before, after = (
        create_as(TransformersPRM, prms, plugin, checkpoint=f"nano:{folder}", dtype="float32") for _ in range(2)
    )
    chains = []
    for problem in generate_split("nano-math", "train", 10):
        right = solution_steps(problem)
        chains += [(problem.text, right), (problem.text, [*right[:-1], right[-1].replace("=", "1=")])]
    scores = [before.score(question, [steps])[0].logit for question, steps in chains]
    labels = [
        LabelledSteps(question, steps, list(np.round(1000 * expit(SLOPE * logit + OFFSET))), 1000)
        for (question, steps), logit in zip(chains, scores, strict=True)
    ]
    head = after.modules[1]
    settle(head[-1] if isinstance(head, torch.nn.Sequential) else head, negative, before, labels)

    old = np.concatenate(scores)
    new = np.concatenate([after.score(question, [steps])[0].logit for question, steps in chains])
    assert np.abs(expit(new) - expit(SLOPE * old + OFFSET)).max() < 0.05
    assert spearmanr(old, new).statistic > 0.99
