"""Steps that score: agreement with the CPU, throughput, masks, and batches that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter

import numpy as np
import torch

from benchmarks.gpu.measuring import Row, Settings, advice, measure, no_more_than
from benchmarks.gpu.random_models import RandomPRM, device, requests
from prmcal.registry.contracts.data import Prefix, Sampling, ScoringRequest
from prmcal.registry.nano.problems import generate_split, solution_steps
from prmcal.registry.plugins import llms, prms
from prmcal.registry.prms.token_tree import TokenTree, build_token_tree, collate_token_trees

SIZES = (4096, 16_384, 65_536)


def agreement(settings: Settings) -> Iterator[Row]:
    """Compare the nano models on the GPU with those on the CPU, and the GPU with itself in other batches."""
    where = device(settings.tiny)
    problems = generate_split("nano-math", "test", 4 if settings.tiny else 40)
    asked = [ScoringRequest(each.text, (tuple(solution_steps(each)),)) for each in problems]

    def logits(place: str, dtype: str, **how: int) -> np.ndarray:
        plugin = prms.create("qwen", checkpoint="nano:prm", device=place, dtype=dtype, **how)
        return np.concatenate([each.logit for of in plugin.score_batch(asked) for each in of])

    reference = logits("cpu", "float32")
    for dtype in ("float32", "bfloat16"):
        there = logits(where, dtype)
        small = logits(where, dtype, batch_tokens=256, tree_tokens=1)
        yield {
            "model": "nano:prm",
            "type": dtype,
            "prefixes": len(reference),
            "against": "the CPU in float32; the GPU in small batches; the GPU again",
            "difference": ", ".join(
                f"{np.abs(there - other).max():.1e}" for other in (reference, small, logits(where, dtype))
            ),
        }
    sampling = Sampling(temperature=1.0, max_tokens=128)
    questions = [Prefix(each.text, ()) for each in problems]
    for dtype in ("float32", "bfloat16"):
        texts = []
        for batch_tokens in (131_072, 131_072, 2048):
            llm = llms.create(
                "transformers", checkpoint="nano:middle", device=where, dtype=dtype, batch_tokens=batch_tokens
            )
            found = llm.generate(questions, 4, sampling, 1)
            texts.append([each.text for of in found for each in of])
            llm.close()
        first, again, small_batches = texts
        yield {
            "model": "nano:middle",
            "type": dtype,
            "completions": len(first),
            "against": "the same call again; smaller batches",
            "equal texts": ", ".join(
                f"{np.mean([a == b for a, b in zip(first, other, strict=True)]):.1%}"
                for other in (again, small_batches)
            ),
        }


def throughput(settings: Settings) -> Iterator[Row]:
    """Score all prefixes of 64 trajectories in token trees, for each architecture and some sizes of batches."""
    asked = requests(2, 2, 3) if settings.tiny else requests(8, 8, 12)
    for shape in ("Qwen2 1.5B", "Qwen2 7B", "Mistral 7B", "Llama 8B"):
        plugin = RandomPRM(shape, settings.tiny)
        yield from _throughput(settings, shape, plugin, asked)
        plugin.close()


def _throughput(settings: Settings, shape: str, plugin: RandomPRM, asked: list[ScoringRequest]) -> Iterator[Row]:
    parameters = plugin.parameters
    tokens = sum(each.tokens for of in plugin.score_batch(asked) for each in of)
    sizes = SIZES if shape == "Qwen2 7B" else SIZES[:2]
    for batch_tokens in sizes:
        plugin.batch_tokens = batch_tokens
        found = measure(lambda: plugin.score_batch(asked), repeats=1)
        yield {
            "shape": shape,
            "batch_tokens": batch_tokens,
            "tokens/s": round(tokens / found.seconds),
            "share of peak": settings.share(2 * parameters * tokens, found.seconds),
            "planned / measured": settings.planned(parameters, "read", tokens, found.seconds),
            "GiB": round(found.gibibytes, 1),
        }


def one_pass(settings: Settings) -> Iterator[Row]:
    """Compare one pass over the prefixes of some trajectories with one row per prefix, in padded batches."""
    plugin = RandomPRM("Qwen2 7B", settings.tiny, batch_tokens=16_384)
    asked = requests(1, 2, 3) if settings.tiny else requests(1, 8, 12)
    read = [
        plugin.prefix_ids(each.question, steps) or ()
        for each in asked
        for trajectory in each.trajectories
        for steps in each.prefixes(trajectory)
    ]
    read.sort(key=len, reverse=True)
    (trunk, head), where = plugin.modules, device(settings.tiny)

    def alone() -> list[np.ndarray]:
        values, start = [], 0
        with torch.inference_mode():
            while start < len(read):
                rows = read[start : start + max(1, plugin.batch_tokens // len(read[start]))]
                start += len(rows)
                ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in rows], batch_first=True)
                ends = torch.tensor([len(each) - 1 for each in rows])
                hidden = trunk(input_ids=ids.to(where), use_cache=False).last_hidden_state
                values.append(plugin.log_odds(head(hidden[torch.arange(len(rows)), ends].float())).cpu().numpy())
        return values

    fast, slow = measure(lambda: plugin.score_batch(asked)), measure(alone, repeats=1)
    together = np.sort(np.concatenate([each.logit for of in plugin.score_batch(asked) for each in of]))
    yield {
        "prefixes": len(read),
        "one pass, s": round(fast.seconds, 3),
        "a row per prefix, s": round(slow.seconds, 3),
        "faster by": round(slow.seconds / fast.seconds, 1),
        "largest difference of sorted log-odds": f"{np.abs(together - np.sort(np.concatenate(alone()))).max():.1e}",
        "standard deviation of log-odds": f"{together.std():.1e}",
    }
    plugin.close()


def masks(settings: Settings) -> Iterator[Row]:
    """Make the mask of a single tree on the device and on the CPU."""
    for size in (256,) if settings.tiny else (2048, 8192, 16_384):
        yield _masks(settings, size)


def _masks(settings: Settings, size: int) -> Row:
    random = np.random.default_rng(0)
    sequences = [random.integers(0, 300, size // 8).tolist() for _ in range(8)]
    tree = build_token_tree(sequences)
    places = dict.fromkeys((device(settings.tiny), "cpu"))
    found = {place: measure(partial(_mask, tree, settings, place)).seconds for place in places}
    return {
        "nodes": len(tree),
        "MiB": round(len(tree) ** 2 * 2 / 2**20),
        "building the tree, ms": round(1000 * measure(partial(build_token_tree, sequences)).seconds, 1),
        **{f"mask on {place}, ms": round(1000 * seconds, 1) for place, seconds in found.items()},
    }


def _mask(tree: TokenTree, settings: Settings, place: str) -> torch.Tensor:
    made = collate_token_trees([tree], 0, torch.bfloat16, place)["attention_mask"]
    return made.to(device(settings.tiny))


def memory(settings: Settings) -> Iterator[Row]:
    """Double the batch of a 7B PRM on a GPU with 24 GiB until it does not fit and the PRM goes on with smaller ones."""
    plugin = RandomPRM("Qwen2 7B", settings.tiny, tree_tokens=1024)
    asked = requests(2, 2, 3) if settings.tiny else requests(16, 8, 12)
    with no_more_than(24), advice() as lines:
        for size in (8192, 16_384, 32_768, 65_536, 131_072):
            plugin.batch_tokens = size
            begun, tokens = perf_counter(), 0
            tokens = sum(each.tokens for of in plugin.score_batch(asked) for each in of)
            yield {
                "batch_tokens": size,
                "tokens/s": round(tokens / (perf_counter() - begun)),
                "went on with": plugin.batch_tokens,
                "said": " ".join(lines),
            }
            if lines or settings.tiny:
                break
    plugin.close()


def states(settings: Settings) -> Iterator[Row]:
    """Read the hidden states of eight trajectories of a question, as calibrators that read them do."""
    plugin = RandomPRM("Qwen2 7B", settings.tiny)
    asked = requests(2, 2, 3) if settings.tiny else requests(4, 8, 48)
    for batch_tokens in (4096, 32_768):
        plugin.batch_tokens = batch_tokens
        found = measure(lambda: plugin.hidden_states(asked), repeats=1)
        nodes = sum(len(each.states) for each in plugin.hidden_states(asked[:1])) * len(asked)
        yield {
            "nodes of a question": nodes // len(asked),
            "batch_tokens": batch_tokens,
            "tokens/s": round(nodes / found.seconds),
            "GiB": round(found.gibibytes, 1),
        }
    plugin.close()
