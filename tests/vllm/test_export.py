"""An exported, calibrated PRM in the real vLLM: the scores of the PRM with its adapter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prmcal import Prefix, ScoredPrefixes
from prmcal.registry.plugins import calibrators, prms


def test_the_nano_twin_scores_alike_in_vllm_and_with_its_adapter(tmp_path: Path) -> None:
    prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32", device="cpu")
    prefixes = [
        Prefix(f"Start with {n} and keep two digits. a) add 15, b) subtract 8.", steps[:count])
        for n in range(20, 32)
        for steps in ((f"a) {n}+15={n + 15}", f"b) {n + 15}-8=\\boxed{{{n + 7}}}"), (f"a) {n}+15={n + 14}",))
        for count in range(len(steps) + 1)
    ]
    logit = np.array([prm.score(each.question, [each.steps])[0].logit[-1] for each in prefixes], dtype=np.float64)
    features = ScoredPrefixes(prm, tuple(prefixes), logit)
    wrong = np.array([len(each.steps) == 1 and each.steps[0].endswith("4") for each in prefixes])
    calibrator = calibrators.create("quantile-lora", layers="all", learning_rate=0.01, epochs=2)
    k = np.where(wrong, 1, 6)
    predicted = calibrator.fit(features, k, np.full(len(k), 8)).predict(features)
    calibrator.export(prm, tmp_path / "calibrated")

    served = prms.create("qwen-vllm", checkpoint=str(tmp_path / "calibrated"), max_tokens=1024)
    rewards = np.array([served.score(each.question, [each.steps])[0].reward[-1] for each in prefixes])
    served.close()
    np.testing.assert_allclose(rewards, predicted[:, calibrator.levels.index(0.5)], atol=1e-4)
    assert np.abs(rewards - 1 / (1 + np.exp(-logit))).max() > 0.02
