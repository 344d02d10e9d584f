"""Train all nano models from nothing, on one CPU core: `python -m tools.nano_training`.

A stage is skipped if its output exists, so that an interrupted run can be resumed. The final models are written to
`build/nano/models`, and everything else to the work folder. To ship the models, copy them to `registry/nano/models`.
Training never writes to that folder, and never skips a stage because of it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from tools.nano_training.pipeline import Pipeline


def main() -> None:
    """Parse the command line, and run the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/nano"), help="folder for intermediate outputs")
    parser.add_argument("--models", type=Path, default=Path("build/nano/models"), help="folder for the final models")
    parser.add_argument("--seed", type=int, default=0, help="seed of all stages")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all counts, below 1 to test the pipeline")
    options = parser.parse_args()
    torch.set_num_threads(1)
    Pipeline(options.work, options.models, options.seed, options.scale).run()


if __name__ == "__main__":
    main()
