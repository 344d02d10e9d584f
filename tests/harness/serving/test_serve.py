"""``prmcal serve`` as a process of its own, with the nano models of a small run, and clients over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
import httpx2
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai import APIError, AsyncOpenAI, AuthenticationError, BadRequestError, InternalServerError, OpenAI

import prmcal
from prmcal import CalibratedPRM, PrefixRewards, TransformersPRM
from prmcal.errors import PrmcalError
from prmcal.harness.serving.pooling import Form, PoolingBody
from prmcal.registry.plugins import prms
from tests.conftest import Prmcal
from tests.served_run import CELL, GONE, NAN, SECONDS, served, shared_run

QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."
STEPS = ["a) 67-4=63", "b) 63+1=64"]
CLIENTS, BODY = 32, 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    return shared_run(tmp_path_factory)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a server of the run."""
    with served(folder, "--cell", CELL, "--max-body", BODY) as (address, _):
        yield address


@pytest.fixture(scope="module")
def here(folder: Path) -> Iterator[CalibratedPRM]:
    """The same calibrated PRM in this process."""
    with prmcal.load(folder, CELL) as prm:
        yield prm


@pytest.fixture(scope="module")
def openai(address: str) -> Iterator[OpenAI]:
    """OpenAI's own client of the server."""
    with client(address) as found:
        yield found


def client(address: str, key: str = "none is needed") -> OpenAI:
    return OpenAI(base_url=f"{address}/v1", api_key=key, timeout=SECONDS, max_retries=0)


def post(address: str, path: str, body: Any, **how: Any) -> httpx2.Response:
    return httpx2.post(f"{address}/{path}", json=body, timeout=SECONDS, **how)


def chat(question: str = QUESTION, steps: Sequence[str] = (), behind: str = "") -> list[dict[str, str]]:
    """The messages of a trajectory, with a text behind each step; those of a question without steps."""
    solution = [{"role": "assistant", "content": "".join(step + behind for step in steps)}] if steps else []
    return [{"role": "user", "content": question}, *solution]


def ask(openai: OpenAI, question: str = QUESTION, **body: Any) -> Any:
    """The first choice of a completion."""
    messages: Any = chat(question)
    found = openai.chat.completions.create(model="any", messages=messages, extra_body=body)
    return found.choices[0]


def pooled(address: str, **body: Any) -> list[dict[str, Any]]:
    reply = post(address, "pooling", body)
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["data"]
    return found


def message_of(reply: httpx2.Response) -> str:
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code"} and error["code"] == reply.status_code
    return str(error["message"])


def trajectory(client: int) -> dict[str, Any]:
    """The trajectory of a client."""
    return {
        "messages": chat(
            f"Begin at {10 + client}. a) add 1, b) add 2.", [f"a) {10 + client}+1={11 + client}"]
        )
    }


def test_a_prm_is_asked_as_vllm_documents_it(address: str, here: CalibratedPRM) -> None:
    """Qwen2.5-Math-PRM's model card builds the text, and clients of vLLM send it, or the chat, or token ids."""
    expected = here.score(QUESTION, STEPS)
    tokenizer: Any = here.form.tokenizer if here.form else None
    messages = [{"role": "system", "content": "Reason."}, *chat(steps=STEPS, behind="<extra_0>")]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
    own = [{"type": "text", "text": QUESTION}]
    told = httpx2.get(f"{address}/v1/models").json()["data"][0]["id"]
    for body in (
        {"input": text},
        {"input": tokenizer(text)["input_ids"]},
        {"input": [text, tokenizer(text)["input_ids"]]},
        {"messages": messages},
        {"messages": [{"role": "user", "content": own}, *chat(steps=STEPS, behind="\n\n")[1:]]},
    ):
        for row in pooled(address, model=told, **body):
            assert row["object"] == "pooling"
            assert [right for _, right in row["data"]] == pytest.approx(expected.point[1:], abs=1e-5)
            assert [sum(each) for each in row["data"]] == pytest.approx([1, 1])
            assert row["prmcal"]["uncalibrated"] == pytest.approx(expected.uncalibrated, abs=1e-5)
            assert row["samples"] == here.samples(QUESTION)
            assert row["prmcal"]["levels"] == list(here.levels) and len(row["prmcal"]["quantiles"]) == 3
    (row,) = pooled(address, input=QUESTION, target=0.9, level=0.5)
    assert row["samples"] == here.samples(QUESTION, target=0.9, level=0.5)
    before, _, _ = text.partition(STEPS[0])
    for body in ({"input": QUESTION}, {"messages": chat()}, {"input": f"{before}<extra_0>"}):
        (row,) = pooled(address, **body)
        assert [right for _, right in row["data"]] == pytest.approx(expected.point[:1], abs=1e-5)


@pytest.mark.parametrize("markers", ["every", "last"])
def test_another_run_has_the_server_as_its_prm(markers: str, address: str, here: CalibratedPRM) -> None:
    given = {"base_url": address, "model": "served", "tokenizer": "nano:prm", "markers": markers}
    (found,) = prms.create("pooling-http", **given).score(QUESTION, [STEPS])
    assert found.reward == pytest.approx(here.score(QUESTION, STEPS).point, abs=1e-4)


def test_rows_have_the_order_of_the_outputs_of_the_prm() -> None:
    """Math-Shepherd's first output is that of a right step, and a value head has one output."""
    rewards = PrefixRewards((0.5,), (0.4, 0.4), ((0.25,), (0.25,)), (0.25, 0.25), (False, False))
    shepherd = prms.create("shepherd", checkpoint="nano:strong", marker="=")
    skywork = prms.create("skywork", checkpoint="nano:strong")
    assert isinstance(shepherd, TransformersPRM) and isinstance(skywork, TransformersPRM)
    assert Form(shepherd).row(0, rewards, logits=False)["data"] == [[0.25, 0.75]]
    assert Form(skywork).row(0, rewards, logits=False)["data"] == [[0.25]]
    assert Form(skywork).row(0, rewards, logits=True)["data"] == [[pytest.approx(-np.log(3))]]
    with pytest.raises(PrmcalError, match="cannot be told apart"):
        Form(shepherd).read(PoolingBody(input="1 + 1 is 2="))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"messages": chat(" \n")}, 400, "question: it is empty"),
        ({"messages": chat("x" * 50_000)}, 400, "it has 50,000 characters. The limit is 20,000"),
        ({"messages": []}, 400, "one message of the user"),
        ({"messages": chat(steps=["a", ""], behind="<extra_0>")}, 400, "steps must be a list of texts"),
        ({"messages": chat(f"{NAN}.")}, 502, "not finite"),
        ({"messages": chat(f"{GONE}.")}, 502, "The server of the PRM does not answer."),
        ({"input": []}, 400, "at least one trajectory"),
        ({"input": [QUESTION] * 257}, 400, "at most 256 trajectories. Got 257"),
        (
            {"input": "<|im_start|>user\n1 + 1<|im_end|>\nso 2<extra_0>"},
            400,
            "the steps with '<extra_0>' behind each",
        ),
        ({"input": "1+" * 5000}, 400, "The trajectory 0 is too long for the PRM"),
        ({"input": QUESTION, "level": 0.123}, 400, "does not predict the level 0.123"),
        ({"input": QUESTION, "truncate_prompt_tokens": 5}, 400, "truncate_prompt_tokens: this server cannot"),
    ],
)
def test_what_cannot_be_scored_has_a_reason(
    address: str, body: dict[str, Any], status: int, message: str
) -> None:
    reply = post(address, "pooling", body)
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


def test_a_completion_is_the_answer_of_the_calibrated_prm(openai: OpenAI, here: CalibratedPRM) -> None:
    (model,) = openai.models.list().data
    messages: Any = chat()
    extra = {"max_samples": 3, "target": 0.9999, "reference": "51"}
    found: Any = openai.chat.completions.create(
        model=model.id, messages=messages, seed=2, temperature=1.0, max_tokens=5000, extra_body=extra
    )
    (expected,) = here.solve_many([QUESTION], ["51"], max_samples=3, seed=2, target=0.9999)
    (choice,) = found.choices
    assert expected.chosen is not None and expected.spent.samples > 1
    assert choice.message.content == expected.trajectories[expected.chosen].text
    assert choice.finish_reason == "stop" and choice.message.refusal is None
    assert choice.prmcal["answer"] == expected.answer and choice.prmcal["correct"] == expected.correct
    assert [each["text"] for each in choice.prmcal["trajectories"]] == [
        each.text for each in expected.trajectories
    ]
    assert choice.prmcal["probability"] == pytest.approx(expected.probability, abs=1e-4)
    assert found.usage.completion_tokens == expected.spent.generated_tokens
    assert found.usage.prompt_tokens == here.prompt_tokens(QUESTION) > 10
    assert found.usage.prmcal["samples"] == expected.spent.samples
    unsure = ask(openai, max_samples=3, seed=2, abstain_below=0.9999)
    assert unsure.message.content is None and "its probability is below 0.9999" in unsure.message.refusal
    assert unsure.prmcal["abstained"] and unsure.prmcal["answer"] is None


def test_a_stream_has_the_steps_and_then_the_chosen_text(openai: OpenAI) -> None:
    messages: Any = chat()
    chunks: list[Any] = list(
        openai.chat.completions.create(
            model="any",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"max_samples": 2, "target": 0.9999},
        )
    )
    first, *others, text, end = [each.choices[0] for each in chunks]
    steps = [each.step for each in others]
    assert first.delta.role == "assistant" and steps[0]["step"] == 0
    assert not any(each.delta.content for each in [first, *others])
    for place, drawn in enumerate(end.prmcal["trajectories"]):
        own = [each["text"] for each in steps if each["trajectory"] == place and each["step"]]
        assert "\n\n".join(own) == drawn["text"]
    assert text.delta.content == end.prmcal["trajectories"][end.prmcal["chosen"]]["text"]
    assert end.finish_reason == "stop" and len({each.id for each in chunks}) == 1
    assert chunks[-1].usage.completion_tokens == end.prmcal["spent"]["generated_tokens"] > 0


def test_a_search_streams_its_answer_without_steps(openai: OpenAI) -> None:
    messages: Any = chat()
    extra = {"strategy": "beam search", "max_samples": 8}
    chunks = openai.chat.completions.create(model="any", messages=messages, stream=True, extra_body=extra)
    first, text, end = [each.choices[0] for each in chunks]
    solution: Any = end.prmcal  # type: ignore[attr-defined]
    assert first.delta.content == "" and end.finish_reason in ("stop", "length")
    assert text.delta.content == solution["trajectories"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"messages": chat("")}, "question: it is empty"),
        ({"target": 1}, "target: Input should be less than 1. Got 1"),
        ({"max_samples": 0}, "max_samples: "),
        ({"max_samples": 257}, "max_samples: the limit of this server is 256. Got 257."),
        ({"strategy": "best-of-m"}, "best-of-m"),
        ({"strategy": "best-of-n + IAS", "level": 0.123}, "0.123"),
        ({"messages": chat(NAN)}, "not finite"),
        ({"messages": chat(f"{GONE}.")}, "The server of the PRM does not answer."),
        ({"messages": [{"role": "system", "content": "Be short."}, *chat()]}, "Got system, user."),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
        ({"tools": [{"type": "function"}]}, "tools: this server cannot follow it. Leave it out."),
        ({"temperature": 0}, "temperature: this server cannot follow it. Leave it out, or give 1.0."),
        ({"max_tokens": 5}, "or give 256. Got 5."),
        ({"n": 2}, "n: this server cannot follow it. Leave it out, or give 1. Got 2."),
        ({"max_sample": 3}, "max_sample: this server cannot follow it."),
    ],
)
def test_what_cannot_be_answered_has_a_reason(
    openai: OpenAI, body: dict[str, Any], message: str, stream: bool
) -> None:
    messages: Any = chat()
    kind = InternalServerError if NAN in str(body) or GONE in str(body) else BadRequestError
    with pytest.raises(kind) as refused:
        openai.chat.completions.create(
            model="any", messages=messages, stream=stream, extra_body={"user": "me", "tools": [], **body}
        )
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"no json", "application/json", 400, "not JSON"),
        (b"\xff\xfe\x00", "application/json", 400, "JSON"),
        (b'{"input": [' * 5000, "application/json", 400, "JSON"),
        (b"", "application/json", 400, "Field required"),
        (b'{"input": "1 + 1"}', "text/plain", 415, "content-type: application/json"),
        (b"[" + b" " * BODY, "application/json", 413, "more than 200,000 bytes"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    address: str, content: bytes, kind: str, status: int, message: str
) -> None:
    reply = httpx2.post(
        f"{address}/pooling", content=content, headers={"content-type": kind}, timeout=SECONDS
    )
    assert reply.status_code == status
    assert message in message_of(reply)


def test_a_body_of_unknown_length_is_limited(address: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(BODY):
            yield b" " * 1000

    headers = {"content-type": "application/json"}
    with suppress(httpx2.WriteError):  # The server can close the connection before the whole body is sent.
        reply = httpx2.post(f"{address}/pooling", content=endless(), headers=headers, timeout=SECONDS)
        assert reply.status_code == 413
    assert pooled(address, input=QUESTION)


names = st.sampled_from(["input", "messages", "role", "content", "user", "question"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner),
    max_leaves=8,
)


@settings(max_examples=25)
@given(body=values)
@example(body={"input": "\ud800"})
@example(body={"messages": [{"role": "user", "content": "\ud800"}]})
@example(body={"messages": [{"role": "user", "content": QUESTION}], "target": float("nan")})
@example(body={"messages": [{"role": "user", "content": QUESTION}], "seed": 10**30})
@example(body={"input": [10**30]})
@example(body={"input": [2**31 - 1]})
@example(body={"input": [[], [0], "a"]})
@example(body={"input": [1, "a"]})
def test_no_body_breaks_the_server(address: str, body: Any) -> None:
    for path in ("pooling", "v1/chat/completions"):
        headers = {"content-type": "application/json"}
        content = json.dumps(body)
        reply = httpx2.post(f"{address}/{path}", content=content, headers=headers, timeout=SECONDS)
        assert reply.status_code in (200, 400)
        if reply.status_code != 200:
            assert message_of(reply).endswith(".")


def test_what_is_served_is_told_and_no_page_needs_the_internet(address: str, here: CalibratedPRM) -> None:
    told = httpx2.get(address).json()
    assert (told["llm"], told["prm"], told["calibrator"]) == (here.llm, here.prm, here.calibrator)
    assert told["levels"] == list(here.levels)
    assert httpx2.get(f"{address}/health").json()["status"] == "ready"
    for gone in ("scores", "docs"):
        reply = httpx2.get(f"{address}/{gone}")
        assert reply.status_code == 404 and "GET / lists" in message_of(reply)
    described = httpx2.get(f"{address}/openapi.json").json()["paths"]
    assert set(described) == {"/", "/health", "/v1/models", "/pooling", "/v1/chat/completions"}
    for path in ("/pooling", "/v1/chat/completions"):
        assert described[path]["post"]["summary"] and described[path]["post"]["description"]


FOREIGN: tuple[Any, ...] = (
    {"host": "rebound.example"},
    {"host": "127.0.0.1.rebound.example"},
    {"host": "localhost@rebound.example"},
    {"host": ""},
    {"host": "127.0.0.1:8000.rebound.example"},
    {"host": "localhost,rebound.example"},
    {"origin": "http://rebound.example"},
    {"origin": "http://[::1].rebound.example"},
    {"origin": "http://localhost/rebound.example"},
    [("origin", "http://localhost"), ("origin", "http://rebound.example")],
    {"origin": "null"},
    {"origin": "http://localhost.rebound.example:8000"},
)
"""Headers of requests that the page of a stranger makes a browser send, also through a name that was bent to us."""


@pytest.mark.parametrize("headers", FOREIGN)
def test_pages_of_strangers_neither_read_nor_compute(headers: Any, address: str) -> None:
    for reply in (
        httpx2.get(address, headers=headers, timeout=SECONDS),
        httpx2.get(f"{address}/openapi.json", headers=headers, timeout=SECONDS),
        post(address, "pooling", {"input": QUESTION}, headers=headers),
        post(address, "v1/chat/completions", {"messages": chat()}, headers=headers),
    ):
        assert reply.status_code == 403
        assert "--allowed-hosts" in message_of(reply)


def test_own_names_and_pages_are_answered(address: str) -> None:
    port = address.rpartition(":")[2]
    for name in ("localhost", f"localhost:{port}", f"LOCALHOST.:{port}", f"[::1]:{port}"):
        assert httpx2.get(address, headers={"host": name}).status_code == 200
        own = {"host": name, "origin": f"http://{name}"}
        assert post(address, "pooling", {"input": QUESTION}, headers=own).status_code == 200


def test_other_machines_need_the_token_and_what_runs_is_finished_before_the_end(folder: Path) -> None:
    hosts = ("--host", "0.0.0.0", "--allowed-hosts", "prm.example", "--allowed-hosts", "*.lan.example")
    with served(folder, "--cell", CELL, *hosts, "--grace", SECONDS) as (address, process):
        assert process.stdout is not None
        lines = "".join(process.stdout.readline() for _ in range(2))
        (token,) = re.findall(r"authorization: Bearer (\S+)'", lines)
        assert len(token) > 30
        for wrong in ("x", token[:-1]):
            with pytest.raises(AuthenticationError, match="authorization: Bearer TOKEN"):
                ask(client(address, wrong))
        for path in ("pooling", "v1/chat/completions"):
            assert post(address, path, {}).status_code == 401
        for name in ("prm.example", "a.lan.example:8000", socket.gethostname()):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 200
        for name in ("lan.example", "prm.example.org"):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 403

        assert httpx2.get(f"{address}/health").json()["alarm"] == ""
        with client(address, token) as openai:
            for number in range(20):
                longer = f"{QUESTION} {'Take your time. ' * 9} {number}"
                found = ask(openai, longer, reference="51", max_samples=1).prmcal
                assert found["correct"] in (None, True, False)
            assert "the length of the question in characters is higher" in found["alarm"]
            assert httpx2.get(f"{address}/health").json()["alarm"] == found["alarm"]

            with ThreadPoolExecutor(1) as pool:
                reply = pool.submit(ask, openai, strategy="best-of-n", max_samples=16)
                while not reply.done() and httpx2.get(f"{address}/health").json()["requests"] == 0:
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                assert len(reply.result(SECONDS).prmcal["trajectories"]) == 16
        assert process.wait(SECONDS) == 0


# It draws one sample after the other and is never sure.
ENDLESS: dict[str, Any] = {"target": 0.999999999, "max_samples": 512}


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens soon on any machine that works."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


async def read_all(stream: Any) -> None:
    """Read all chunks of a stream that is asked for."""
    async for _ in await stream:
        pass


async def leave(address: str, question: str, stream: bool, begun: Callable[[], bool]) -> None:
    """Ask, look at the busy server, and go away before there is an answer."""
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="-", timeout=SECONDS, max_retries=0) as openai:
        messages: Any = chat(question)
        asked = openai.chat.completions.create(
            model="any", messages=messages, stream=stream, extra_body=ENDLESS
        )
        task = asyncio.ensure_future(read_all(asked) if stream else asked)
        await asyncio.to_thread(until, begun)
        refused = await asyncio.to_thread(post, address, "pooling", {"input": QUESTION})
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert "its limit" in message_of(refused)
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_busy_server_refuses_stops_what_nobody_reads_and_ends_in_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "scored"
    log.touch()
    monkeypatch.setenv("FAULTY_PRM_LOG", str(log))
    options = ("--max-concurrent", 1, "--grace", 0.5, "--max-samples", 512)
    with served(folder, "--cell", CELL, *options) as (address, process):
        for stream in (False, True):
            question = f"Begin at 67. a) subtract {4 + stream}."

            def scored(question: str = question) -> int:
                return log.read_text().splitlines().count(question)

            asyncio.run(leave(address, question, stream, lambda: scored() > 5))
            until(lambda: httpx2.get(f"{address}/health").json()["requests"] == 0)
            left = scored()
            with client(address) as openai:
                # A question that nobody stops would be scored about as often meanwhile.
                other = ask(openai, **{**ENDLESS, "max_samples": 20})
            assert other.prmcal["spent"]["samples"] == 20
            assert scored() <= left + 2

        with client(address) as openai:
            messages: Any = chat()
            going = openai.chat.completions.create(
                model="any", messages=messages, stream=True, extra_body=ENDLESS
            )
            next(going)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(APIError, match=r"The server is ending\. Ask again when it is back\."):
                list(going)
        assert process.wait(SECONDS) == 0


def test_what_cannot_be_served_is_refused_in_one_line(
    folder: Path, tmp_path: Path, prmcal: Prmcal, port: int
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        refusals = {
            "The server cannot listen at 127.0.0.1": prmcal("serve", folder, "--cell", CELL, "--port", port),
            "no cell": prmcal("serve", folder, "--cell", "calibration/nobody", "--port", 0),
            str(tmp_path / "nothing"): prmcal("serve", tmp_path / "nothing", "--port", 0),
        }
    for message, done in refusals.items():
        assert done.returncode == 2
        assert done.stderr.startswith("prmcal: error: ") and done.stderr.count("\n") == 1
        assert message in done.stderr


def test_without_the_packages_the_command_says_what_to_install(folder: Path) -> None:
    code = f"import sys; sys.modules['fastapi'] = None; sys.argv = ['prmcal', 'serve', {str(folder)!r}]; " + (
        "from prmcal.harness.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install '.[serve]'" in done.stderr
