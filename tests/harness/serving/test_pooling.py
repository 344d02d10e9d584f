"""``POST /pooling``: trajectories are scored in vLLM's form of a PRM, with the nano models of a small run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
import numpy as np
from safetensors.numpy import save_file

from prmcal import CalibratedPRM, PrefixRewards, TransformersPRM
from prmcal.errors import PrmcalError
from prmcal.harness.serving.pooling import Form, PoolingBody
from prmcal.registry.plugins import prms
from tests.harness.serving.clients import QUESTION, STEPS, chat, message_of, pooled, post
from tests.served_run import GONE, NAN

CLIENTS = 12


def trajectory(client: int) -> dict[str, Any]:
    """The trajectory of a client."""
    return {"messages": chat(f"Begin at {10 + client}. a) add 1, b) add 2.", [f"a) {10 + client}+1={11 + client}"])}


def test_a_prm_is_asked_as_vllm_documents_it(address: str, here: CalibratedPRM) -> None:
    """Qwen2.5-Math-PRM's model card builds the text, and clients of vLLM send it, or the chat, or token ids."""
    expected = here.score(QUESTION, STEPS)
    qwen: Any = prms.create("qwen", checkpoint="nano:prm")
    tokenizer = qwen.tokenizer
    messages = [{"role": "system", "content": "Reason."}, *chat(steps=STEPS, behind="<extra_0>")]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
    for body in (
        {"input": text},
        {"input": tokenizer(text)["input_ids"]},
        {"input": [text, tokenizer(text)["input_ids"]]},
        {"messages": messages},
        {"messages": chat(steps=STEPS, behind="\n\n")},
    ):
        for row in pooled(address, model="any", **body):
            assert row["object"] == "pooling"
            assert [right for _, right in row["data"]] == pytest.approx(expected.point[1:], abs=1e-5)
            assert [sum(each) for each in row["data"]] == pytest.approx([1, 1])
            assert row["prmcal"]["uncalibrated"] == pytest.approx(expected.uncalibrated, abs=1e-5)
            assert row["prmcal"]["levels"] == list(here.scorer.levels) and len(row["prmcal"]["quantiles"]) == 3
    before, _, _ = text.partition(STEPS[0])
    for body in ({"input": QUESTION}, {"messages": chat()}, {"input": f"{before}<extra_0>"}):
        (row,) = pooled(address, **body)
        assert [right for _, right in row["data"]] == pytest.approx(expected.point[:1], abs=1e-5)


@pytest.mark.parametrize("markers", ["every", "last"])
def test_another_run_has_the_server_as_its_prm(markers: str, address: str, here: CalibratedPRM) -> None:
    given = {"base_url": address, "model": "served", "tokenizer": "nano:prm", "markers": markers}
    (found,) = prms.create("pooling-http", **given).score(QUESTION, [STEPS])
    assert found.reward == pytest.approx(here.score(QUESTION, STEPS).point, abs=1e-4)


def test_rows_have_the_order_of_the_outputs_of_the_prm(tmp_path: Path) -> None:
    """Math-Shepherd's first output is that of a right step, and a value head has one output."""
    two = (0.25, 0.25)
    rewards = PrefixRewards((0.5,), two, two, ((0.25,), (0.25,)), two, (False, False))
    shepherd = prms.create("shepherd", checkpoint="nano:strong", marker="=")
    head = tmp_path / "head.safetensors"
    save_file({"score.weight": np.zeros((1, 8)), "score.bias": np.zeros(1)}, head)
    value = prms.create("token-classifier", checkpoint="nano:strong", head=str(head))
    assert isinstance(shepherd, TransformersPRM) and isinstance(value, TransformersPRM)
    assert Form(shepherd).row(0, rewards, logits=False)["data"] == [[0.25, 0.75]]
    assert Form(value).row(0, rewards, logits=False)["data"] == [[0.25]]
    assert Form(value).row(0, rewards, logits=True)["data"] == [[pytest.approx(-np.log(3))]]
    with pytest.raises(PrmcalError, match="do not show where the question ends"):
        Form(shepherd).read(PoolingBody(input="1 + 1 is 2="))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"messages": chat(" \n")}, 400, "must be a text that is not empty"),
        ({"messages": []}, 400, "one message of the user"),
        ({"messages": chat(steps=["a", ""], behind="<extra_0>")}, 400, "steps must be a list of texts"),
        ({"messages": chat(f"{NAN}.")}, 502, "not finite"),
        ({"messages": chat(f"{GONE}.")}, 502, "The server of the PRM does not answer."),
        ({"input": []}, 400, "at least one trajectory"),
        (
            {"input": "<|im_start|>user\n1 + 1<|im_end|>\nso 2<extra_0>"},
            400,
            "the steps with '<extra_0>' behind each",
        ),
        ({"input": "1+" * 5000}, 400, "The trajectory 0 is too long for the PRM"),
        (
            {"input": QUESTION, "truncate_prompt_tokens": 5},
            400,
            "truncate_prompt_tokens: Extra inputs are not",
        ),
        ({"input": QUESTION, "encoding_format": "base64"}, 400, "encoding_format: "),
    ],
)
def test_what_cannot_be_scored_has_a_reason(address: str, body: dict[str, Any], status: int, message: str) -> None:
    reply = post(address, body)
    assert reply.status_code == status
    assert message in message_of(reply)
    assert len(pooled(address, messages=chat("Сколько будет 2 + 2? 二加二 ٢"))[0]["data"]) == 1


def test_many_clients_get_their_own_scores(address: str) -> None:
    rows = [trajectory(client) for client in range(CLIENTS)]
    alone = [pooled(address, **row)[0]["prmcal"]["uncalibrated"] for row in rows]
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = list(clients.map(lambda row: pooled(address, **row)[0]["prmcal"]["uncalibrated"], rows))
    for one, other in zip(alone, together, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert len({row[1] for row in together}) > CLIENTS / 2
