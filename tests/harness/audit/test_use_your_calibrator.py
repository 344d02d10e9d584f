"""The code of the page "Use your calibrator" runs against stand-ins with the interfaces of the real classes."""

from __future__ import annotations

import json
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.saved import SavedCalibrator
from tests.conftest import ROOT
from tests.harness.audit import files
from tests.registry.prms.pooling_server import reply, serving_pooling

PAGE = (ROOT / "docs" / "how-to" / "use-your-calibrator.md").read_text(encoding="utf-8")


def as_logits(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "scores": [[math.log(p / (1 - p)) for p in own] for own in each["scores"]]} for each in records]


@pytest.fixture(scope="module", params=["probability", "logit"])
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A scale, and a folder with a file of scores and a calibrator of this scale."""
    folder, records = tmp_path_factory.mktemp("audited"), files.lists_of_steps()
    records = records if request.param == "probability" else as_logits(records)
    file = folder / "scored.jsonl"
    file.write_text("\n".join(map(json.dumps, records)))
    audit(file).save(folder / "audit")
    return request.param, folder


@pytest.fixture
def page(audited: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All names that the code of the page makes, in the folder with a calibrator of each scale."""
    scale, folder = audited
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "sal", ModuleType("sal"))
    monkeypatch.setitem(sys.modules, "sal.models", ModuleType("sal.models"))
    monkeypatch.setitem(sys.modules, "sal.models.reward_models", module("reward_models", PRM, load_prm))
    monkeypatch.setitem(sys.modules, "its_hub", ModuleType("its_hub"))
    monkeypatch.setitem(sys.modules, "its_hub.base", module("base", AbstractProcessRewardModel))
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, names)
    assert names["calibrator"].scale == scale
    return names


def module(name: str, *contents: Any) -> ModuleType:
    made = ModuleType(name)
    for each in contents:
        setattr(made, each.__name__, each)
    return made


# search-and-learn: the constructor loads a model, and `score` is given as the search functions call it.
class PRM:
    def __init__(self, search_config: Any, **model_kwargs: Any) -> None:
        self.search_config = search_config
        self.model, self.tokenizer = self.load_model_and_tokenizer(**model_kwargs)

    def load_model_and_tokenizer(self, **model_kwargs: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def score(self, questions: list[str], outputs: list[list[str]]) -> list[list[list[float]]]:
        raise NotImplementedError


class Loaded(PRM):
    def load_model_and_tokenizer(self, **model_kwargs: Any) -> tuple[Any, Any]:
        return "model", "tokenizer"

    def score(self, questions: list[str], outputs: list[list[str]]) -> list[list[list[float]]]:
        return [[[0.3 for _ in text.split("\n\n")] for text in own] for own in outputs]


def load_prm(config: Any) -> PRM:
    return Loaded(config)


# its_hub
class AbstractProcessRewardModel(ABC):
    @abstractmethod
    def score(self, prompt: str, steps: list[str]) -> list[float]: ...


class LocalModel(AbstractProcessRewardModel):
    """As its LocalVllmProcessRewardModel: a number for a response, and a list for a list."""

    def score(self, prompt: str, response_or_responses: Any) -> Any:
        alone = isinstance(response_or_responses, str)
        return 0.4 if alone else [0.4 + 0.1 * place for place in range(len(response_or_responses))]


def test_a_loop_stops_at_a_solution_that_is_good_enough(page: dict[str, Any]) -> None:
    grid = np.linspace(0.01, 0.99, 99) if page["calibrator"].scale == "probability" else np.linspace(-6, 6, 99)
    chances = page["calibrator"].predict(grid)
    order = [int(chances.argmin()), int(chances.argmax()), int(chances.argmin())]
    drawn: list[int] = []

    def sample(question: str) -> int:
        drawn.append(order[len(drawn)])
        return drawn[-1]

    found, chance = page["answer"]("?", sample, lambda _, own: [0.0, grid[own]], enough=float(chances.max()))
    assert found == order[1]
    assert chance == pytest.approx(chances.max())
    assert len(drawn) == 2


def test_a_server_is_asked_as_vllm_expects_and_its_rows_are_read(page: dict[str, Any]) -> None:
    calibrator: SavedCalibrator = page["calibrator"]
    logits = np.array([[0.0, 1.5], [0.5, 0.0], [1.0, 4.0]])

    def answered(request: dict[str, Any]) -> dict[str, Any]:
        assert request["task"] == "token_classify"
        assert request["add_generation_prompt"] is False
        roles = [each["role"] for each in request["messages"]]
        assert roles == ["system", "user", "assistant"]
        marked = request["messages"][-1]["content"].count("<extra_0>")
        rows = logits[:marked]
        if request["use_activation"]:
            rows = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
        return reply(rows.tolist())

    with serving_pooling(answered) as server:
        url = server.url.removesuffix("/")
        found = page["score"]("What is 1+1?", ["a", "b", "c"], url=url)
    odds = logits[:, 1] - logits[:, 0]
    scores = odds if calibrator.scale == "logit" else 1 / (1 + np.exp(-odds))
    np.testing.assert_allclose(found, calibrator.predict(scores))


def test_search_and_learn_gets_lists_of_the_same_shape(page: dict[str, Any]) -> None:
    prm = page["CalibratedPRM"](page["load_prm"]("config"), page["calibrator"])
    found = prm.score(["q1", "q2"], [["a\n\nb", "a"], ["a\n\nb\n\nc"]])
    expected = float(page["calibrator"].predict(0.3))
    assert found == [[[expected] * 2, [expected]], [[expected] * 3]]
    assert isinstance(found[0][0][-1], float)  # It is saved into a data set.
    assert isinstance(prm, PRM)


def test_its_hub_gets_a_number_or_a_list(page: dict[str, Any]) -> None:
    prm = page["CalibratedProcessRewardModel"](LocalModel(), page["calibrator"])
    assert isinstance(prm.score("q", "a response"), float)
    several = prm.score("q", ["a", "b"])
    assert several == page["calibrator"].predict([0.4, 0.5]).tolist()
    assert several.index(max(several)) in (0, 1)
    assert all(0 <= each <= 1 for each in several)
