"""Steps that score: agreement with the CPU, throughput, masks, and batches that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter

import numpy as np
import torch

from benchmarks.gpu.measuring import Options, Row, advice, measure, no_more_than
from benchmarks.gpu.random_models import RandomPRM, device, requests
from prmcal.registry.contracts.data import Prefix, Sampling, ScoringRequest
from prmcal.registry.nano.problems import generate_split, solution_steps
from prmcal.registry.plugins import llms, prms
from prmcal.registry.prms.token_tree import TokenTree, build_token_tree, collate_token_trees

SIZES = (4096, 16_384, 65_536)


def agreement(options: Options) -> Iterator[Row]:
    """Compare the nano models on the GPU with those on the CPU, and the GPU with itself in other batches."""
    where = device(options.tiny)
    problems = generate_split("nano-math", "test", 4 if options.tiny else 40)
    examples = [ScoringRequest(problem.text, (tuple(solution_steps(problem)),)) for problem in problems]

    def logits(target: str, dtype: str, **how: int) -> np.ndarray:
        plugin = prms.create("qwen", checkpoint="nano:prm", device=target, dtype=dtype, **how)
        return np.concatenate([rewards.logit for batch in plugin.score_batch(examples) for rewards in batch])

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
    questions = [Prefix(problem.text, ()) for problem in problems]
    for dtype in ("float32", "bfloat16"):
        texts = []
        for batch_tokens in (131_072, 131_072, 2048):
            llm = llms.create(
                "transformers", checkpoint="nano:middle", device=where, dtype=dtype, batch_tokens=batch_tokens
            )
            completions = llm.generate(questions, 4, sampling, 1)
            texts.append([completion.text for of_prefix in completions for completion in of_prefix])
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


def throughput(options: Options) -> Iterator[Row]:
    """Score all prefixes of 64 trajectories in token trees, for each architecture and some sizes of batches."""
    examples = requests(2, 2, 3) if options.tiny else requests(8, 8, 12)
    for shape in ("Qwen2 1.5B", "Qwen2 7B", "Mistral 7B", "Llama 8B"):
        plugin = RandomPRM(shape, options.tiny)
        yield from _throughput(options, shape, plugin, examples)
        plugin.close()


def _throughput(options: Options, shape: str, plugin: RandomPRM, examples: list[ScoringRequest]) -> Iterator[Row]:
    parameters = plugin.parameters
    tokens = sum(rewards.tokens for batch in plugin.score_batch(examples) for rewards in batch)
    sizes = SIZES if shape == "Qwen2 7B" else SIZES[:2]
    for batch_tokens in sizes:
        plugin.batch_tokens = batch_tokens
        measured = measure(lambda: plugin.score_batch(examples), repeats=1)
        yield {
            "shape": shape,
            "batch_tokens": batch_tokens,
            "tokens/s": round(tokens / measured.seconds),
            "share of peak": options.share(2 * parameters * tokens, measured.seconds),
            "planned / measured": options.planned(parameters, "read", tokens, measured.seconds),
            "GiB": round(measured.gibibytes, 1),
        }


def one_pass(options: Options) -> Iterator[Row]:
    """Compare one pass over the prefixes of some trajectories with one row per prefix, in padded batches."""
    plugin = RandomPRM("Qwen2 7B", options.tiny, batch_tokens=16_384)
    examples = requests(1, 2, 3) if options.tiny else requests(1, 8, 12)
    sequences = [
        plugin.prefix_ids(request.question, steps) or ()
        for request in examples
        for trajectory in request.trajectories
        for steps in request.prefixes(trajectory)
    ]
    sequences.sort(key=len, reverse=True)
    (trunk, head), where = plugin.modules, device(options.tiny)

    def alone() -> list[np.ndarray]:
        values, start = [], 0
        with torch.inference_mode():
            while start < len(sequences):
                rows = sequences[start : start + max(1, plugin.batch_tokens // len(sequences[start]))]
                start += len(rows)
                ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(sequence) for sequence in rows], batch_first=True)
                ends = torch.tensor([len(sequence) - 1 for sequence in rows])
                hidden = trunk(input_ids=ids.to(where), use_cache=False).last_hidden_state
                values.append(plugin.log_odds(head(hidden[torch.arange(len(rows)), ends].float())).cpu().numpy())
        return values

    fast, slow = measure(lambda: plugin.score_batch(examples)), measure(alone, repeats=1)
    together = np.sort(np.concatenate([rewards.logit for batch in plugin.score_batch(examples) for rewards in batch]))
    yield {
        "prefixes": len(sequences),
        "one pass, s": round(fast.seconds, 3),
        "a row per prefix, s": round(slow.seconds, 3),
        "faster by": round(slow.seconds / fast.seconds, 1),
        "largest difference of sorted log-odds": f"{np.abs(together - np.sort(np.concatenate(alone()))).max():.1e}",
        "standard deviation of log-odds": f"{together.std():.1e}",
    }
    plugin.close()


def masks(options: Options) -> Iterator[Row]:
    """Make the mask of a single tree on the device and on the CPU."""
    for size in (256,) if options.tiny else (2048, 8192, 16_384):
        yield _masks(options, size)


def _masks(options: Options, size: int) -> Row:
    random = np.random.default_rng(0)
    sequences = [random.integers(0, 300, size // 8).tolist() for _ in range(8)]
    tree = build_token_tree(sequences)
    targets = dict.fromkeys((device(options.tiny), "cpu"))
    seconds_on = {target: measure(partial(_mask, tree, options, target)).seconds for target in targets}
    return {
        "nodes": len(tree),
        "MiB": round(len(tree) ** 2 * 2 / 2**20),
        "building the tree, ms": round(1000 * measure(partial(build_token_tree, sequences)).seconds, 1),
        **{f"mask on {target}, ms": round(1000 * seconds, 1) for target, seconds in seconds_on.items()},
    }


def _mask(tree: TokenTree, options: Options, target: str) -> torch.Tensor:
    mask = collate_token_trees([tree], 0, torch.bfloat16, target)["attention_mask"]
    return mask.to(device(options.tiny))


def memory(options: Options) -> Iterator[Row]:
    """Double the batch of a 7B PRM on a GPU with 24 GiB until it does not fit and the PRM goes on with smaller ones."""
    plugin = RandomPRM("Qwen2 7B", options.tiny, tree_tokens=1024)
    examples = requests(2, 2, 3) if options.tiny else requests(16, 8, 12)
    with no_more_than(24), advice() as lines:
        for size in (8192, 16_384, 32_768, 65_536, 131_072):
            plugin.batch_tokens = size
            begun, tokens = perf_counter(), 0
            tokens = sum(rewards.tokens for batch in plugin.score_batch(examples) for rewards in batch)
            yield {
                "batch_tokens": size,
                "tokens/s": round(tokens / (perf_counter() - begun)),
                "went on with": plugin.batch_tokens,
                "said": " ".join(lines),
            }
            if lines or options.tiny:
                break
    plugin.close()


def states(options: Options) -> Iterator[Row]:
    """Read the hidden states of eight trajectories of a question, as calibrators that read them do."""
    plugin = RandomPRM("Qwen2 7B", options.tiny)
    examples = requests(2, 2, 3) if options.tiny else requests(4, 8, 48)
    for batch_tokens in (4096, 32_768):
        plugin.batch_tokens = batch_tokens
        measured = measure(lambda: plugin.hidden_states(examples), repeats=1)
        nodes = sum(len(forest.states) for forest in plugin.hidden_states(examples[:1])) * len(examples)
        yield {
            "nodes of a question": nodes // len(examples),
            "batch_tokens": batch_tokens,
            "tokens/s": round(nodes / measured.seconds),
            "GiB": round(measured.gibibytes, 1),
        }
    plugin.close()
