"""Prompts: what the shipped templates write, what a template must write, and that the day does not matter."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import transformers.utils.chat_template_utils as transformers_templates

from prmcal import Prefix
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.harness.planning.reading import read_grid
from prmcal.registry.llms.prompts import (
    PromptFormat,
    chat_tokenizer,
    shipped_templates,
)
from prmcal.registry.plugins import llms
from tests.conftest import ROOT, environment

LLAMA = {"bos_token": "<|begin_of_text|>"}
PROBE = "What is 6 times 7?"
PUBLISHED = {
    "llama-3-double-bos": "0e7d18b91ad20a1afe928c27c434bef5a6091848df6c160eece7818518b74deb",
    "qwen-2.5": "957e08e46def9c7d0097dd95d34c93bcc0274f57c12450b84cfb1babea8fbb04",
}
"""SHA-256 of the prompts "llama-math-pf" and "qwen-math-pf" of the authors' code for the probe."""
DATED = (
    "{{ bos_token }}{% if strftime_now is defined %}{% set date = strftime_now('%d %b %Y') %}{% endif %}"
    "{% for message in messages %}[{{ message['role'] }}, {{ date }}] {{ message['content'] }}{% endfor %}"
)
"""A template that writes today's date, as that of Llama 3.2 does."""

PAPER = {spec.name: spec.arguments for spec in read_grid(ROOT / "grids" / "paper.yaml").llms}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_grid_has_the_published_prompt(name: str) -> None:
    template, system = PAPER[name]["chat_template"], PAPER[name]["system_prompt"]
    assert template == ("qwen-2.5" if "Qwen" in name else "llama-3-double-bos")
    prompt = PromptFormat(template, system).render(PROBE, {})
    assert hashlib.sha256(prompt.encode()).hexdigest() == PUBLISHED[template]


def test_shipped_templates_write_the_formats_of_their_models() -> None:
    assert set(shipped_templates()) == {"llama-3", "llama-3-double-bos", "qwen-2.5"}
    end = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    user = f"<|start_header_id|>user<|end_header_id|>\n\n{PROBE}<|eot_id|>"
    system = "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    assert PromptFormat("llama-3", None).render(PROBE, LLAMA) == f"<|begin_of_text|>{user}{end}"
    assert PromptFormat("llama-3", "Be brief.").render(PROBE, LLAMA) == f"<|begin_of_text|>{system}{user}{end}"
    doubled = PromptFormat("llama-3-double-bos", None).render(PROBE, LLAMA)
    assert doubled == f"<|begin_of_text|><|begin_of_text|>{user}{end}"
    assert PromptFormat("qwen-2.5", "Be brief.").render(PROBE, {}) == (
        f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{PROBE}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert PromptFormat("qwen-2.5", None).render(PROBE, {"bos_token": "<s>"}).startswith("<s><|im_start|>user\n")


def test_the_native_template_of_a_model_can_be_written_as_a_file(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer("nano:weak", "native")
    file = tmp_path / "weak.jinja"
    file.write_text(str(tokenizer.chat_template))
    prefix = Prefix(PROBE, ("a) 6*7=42",))
    native = PromptFormat("native", "Be brief.").text(tokenizer, prefix)
    assert native.endswith("assistant\na) 6*7=42\n\n")
    for same in (str(file), file.read_text(), "qwen-2.5"):
        assert PromptFormat(same, "Be brief.").text(tokenizer, prefix) == native
        assert PromptFormat(same).ids(tokenizer, prefix) == PromptFormat("native").ids(tokenizer, prefix)


def _at(moment: datetime) -> type[datetime]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return moment

    return Clock


@pytest.fixture
def dated(tmp_path: Path, policy_folder: Path) -> Path:
    """A model whose own template writes today's date."""
    shutil.copytree(policy_folder, tmp_path / "dated")
    (tmp_path / "dated" / "chat_template.jinja").write_text(DATED)
    return tmp_path / "dated"


def test_a_prompt_is_the_same_on_all_days(dated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = chat_tokenizer(str(dated), "native")
    messages = [{"role": "user", "content": PROBE}]
    native, given_, unpinned = set(), set(), set()
    for moment in (datetime(2025, 1, 31), datetime(2031, 12, 1)):
        monkeypatch.setattr(transformers_templates, "datetime", _at(moment))
        native.add(PromptFormat("native", None).text(tokenizer, Prefix(PROBE)))
        given_.add(PromptFormat(DATED, None).text(tokenizer, Prefix(PROBE)))
        unpinned.add(str(tokenizer.apply_chat_template(messages, tokenize=False)))
    assert native == given_
    (prompt,) = native
    assert "[user, 26 Jul 2024] What is" in prompt
    assert len(unpinned) == 2


@pytest.mark.parametrize(
    ("template", "system", "message"),
    [
        (
            "llama-33",
            None,
            r"There is no chat template 'llama-33'. Did you mean 'llama-3'\? Give one of native, ",
        ),
        ("there/is/no.jinja", None, r"A file of this name cannot be read: No such file"),
        ("{% for %}", None, r"cannot be rendered: TemplateSyntaxError"),
        ("{{ messages[5]['content'] }}", None, r"cannot be rendered: UndefinedError"),
        ("{{ raise_exception('no system role') }}", None, r"TemplateError: no system role"),
        ("{{ messages.__class__.__mro__ }}", None, r"SecurityError|leaves out the question"),
        ("{{ 1 // 0 }}", None, r"cannot be rendered: ZeroDivisionError"),
        ("Q: {{ question }}", None, r"leaves out the question: it writes 'Q:'. Write \{\{ messages\[-1\]"),
        (
            "{{ messages[-1]['content'] }}",
            "Be brief.",
            r"leaves out the system prompt.*remove 'system_prompt'",
        ),
    ],
)
def test_a_template_that_cannot_write_the_prompt_is_refused_at_once(
    template: str, system: str | None, message: str
) -> None:
    for plugin, arguments in (
        ("transformers", {"checkpoint": "nano:weak"}),
        ("vllm", {"checkpoint": "nano:weak"}),
        ("openai", {"base_url": "http://localhost/v1", "model": "weak"}),
    ):
        with pytest.raises(InvalidArgumentsError, match=message):
            llms.create(plugin, **arguments, chat_template=template, system_prompt=system)


@pytest.mark.parametrize(
    ("template", "system", "error", "message"),
    [
        (
            "{{ raise_exception('Conversation roles must alternate') }}",
            None,
            PluginFailedError,
            "must alternate",
        ),
        ("no question", None, InvalidArgumentsError, "leaves out the question"),
        ("{{ messages[-1]['content'] }}", "Be brief.", InvalidArgumentsError, "leaves out the system prompt"),
    ],
)
def test_a_native_template_that_cannot_write_the_prompt_is_named(
    dated: Path, template: str, system: str | None, error: type[Exception], message: str
) -> None:
    (dated / "chat_template.jinja").write_text(template)
    tokenizer = chat_tokenizer(str(dated), "native")
    with pytest.raises(error, match=rf"The chat template of .*dated .*{message}"):
        PromptFormat("native", system).text(tokenizer, Prefix(PROBE))


def test_no_two_prompts_have_one_identity(tmp_path: Path) -> None:
    own, same = tmp_path / "own.jinja", tmp_path / "same.jinja"
    own.write_text("Q: {{ messages[-1]['content'] }}\nA:")
    same.write_text(own.read_text())
    prompts: list[dict[str, Any]] = [
        {},
        {"system_prompt": "Be brief."},
        {"chat_template": "qwen-2.5"},
        {"chat_template": "qwen-2.5", "system_prompt": "Be brief."},
        {"chat_template": "llama-3"},
        {"chat_template": str(own)},
    ]
    for plugin, arguments in (
        ("transformers", {"checkpoint": "nano:weak"}),
        ("vllm", {"checkpoint": "nano:weak"}),
        ("openai", {"base_url": "http://localhost/v1", "model": "weak", "tokenizer": "nano:weak"}),
    ):
        found = [json.dumps(llms.create(plugin, **arguments, **prompt).identity()) for prompt in prompts]
        assert len(set(found)) == len(prompts)
        again = llms.create(plugin, **arguments, chat_template=str(same))
        assert json.dumps(again.identity()) == found[-1]
    before = PromptFormat(str(own)).identity()
    own.write_text("Question: {{ messages[-1]['content'] }}\nA:")
    assert PromptFormat(str(own)).identity() != before


def test_the_identity_needs_no_tokenizer_and_no_hub(tmp_path: Path) -> None:
    """A pinned commit that is not on this machine has the same identity as everywhere else."""
    code = (
        "import json, sys; from prmcal.registry.plugins import llms\n"
        "llm = llms.create('vllm', checkpoint='some/model@' + 'a' * 40, chat_template='llama-3')\n"
        "known = llm.identity(); print(json.dumps([known['prompt']['probe'], known['checkpoint']]))\n"
        "assert 'transformers' not in sys.modules and 'torch' not in sys.modules"
    )
    isolated = {**environment(), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=isolated, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    probe, commit = json.loads(done.stdout)
    assert commit == "a" * 40
    assert probe.startswith("<bos_token><|start_header_id|>user<|end_header_id|>\n\nWhat is 6 times 7?")
