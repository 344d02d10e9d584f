"""Training with TRL's SFTTrainer on batches drawn from a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

from tools.nano_training.examples.token_trees import Example, collate
from tools.nano_training.fitting.model import SolverAndJudge


class BatchCollator:
    """Draws the examples of a batch from its number.

    The dataset of the trainer contains only the numbers of batches. No examples are stored.
    """

    def __init__(self, draw: Callable[[int], Sequence[Example]], pad: int) -> None:
        self.draw = draw
        self.pad = pad

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return one batch; `rows` holds its number."""
        return collate(self.draw(rows[0]["batch"]), self.pad, torch.bfloat16)


class TreeTrainer(SFTTrainer):
    """An SFTTrainer that uses the loss computed by the model: next tokens and markers of token trees."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the total loss, and keep its parts for the log."""
        outputs = model(**inputs)
        for name in ("language", "judge"):
            self._parts.setdefault(name, []).append(float(outputs[name]))
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

    def _send_telemetry(self) -> None:
        """Send nothing. TRL would report each training run to the hub."""

    @property
    def _parts(self) -> dict[str, list[float]]:
        parts: dict[str, list[float]] = self.__dict__.setdefault("parts", {})
        return parts

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Add the means of both losses since the last log."""
        for name, values in self._parts.items():
            if values:
                logs[name] = sum(values) / len(values)
        self.__dict__["parts"] = {}
        super().log(logs, *args, **kwargs)


class Print(TrainerCallback):
    """Prints one line per log."""

    def __init__(self, name: str, probe: Callable[[Any], dict[str, float]] | None, every: int) -> None:
        self.name, self.probe, self.every, self.start = name, probe, every, time.time()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **_: Any
    ) -> None:
        """Print the losses, and the probe's figures every `every` steps."""
        figures = {key: logs[key] for key in ("language", "judge") if key in (logs or {})}
        due = state.global_step % self.every == 0 or state.global_step == state.max_steps
        if self.probe is not None and due and "language" in figures:
            model.eval()
            figures |= self.probe(model)
            model.train()
        shown = " ".join(f"{key} {value:.3f}" for key, value in figures.items())
        print(f"{self.name} step {state.global_step} {time.time() - self.start:.0f}s {shown}", flush=True)


def train(
    name: str,
    model: SolverAndJudge,
    tokenizer: Any,
    draw: Callable[[int], Sequence[Example]],
    steps: int,
    learning_rate: float,
    scratch: Path,
    seed: int,
    probe: Callable[[Any], dict[str, float]] | None = None,
    probe_every: int = 250,
) -> None:
    """Train a model in place.

    Parameters
    ----------
    name : str
        The start of the log lines.
    model : SolverAndJudge
        The model, in float32. The forward and backward passes use bfloat16.
    tokenizer : PreTrainedTokenizerFast
        The tokenizer of the model. The trainer copies its special tokens to the model's configuration.
    draw : callable
        Returns the examples of a batch, given its number.
    steps : int
        The number of batches. Each is used once.
    learning_rate : float
        The peak of a schedule with up to 100 warm-up steps and a cosine decay to 3%.
    scratch : Path
        The output folder of the trainer. Nothing is saved in it.
    seed : int
        The seed of the trainer.
    probe : callable, optional
        Computes figures of the model, which are printed every `probe_every` steps.
    """
    configuration = SFTConfig(
        output_dir=str(scratch),
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.03},
        warmup_steps=min(100, steps // 10),
        adam_beta1=0.9,
        adam_beta2=0.98,
        weight_decay=0.05,
        max_grad_norm=1.0,
        bf16=True,
        use_cpu=True,
        seed=seed,
        logging_steps=50,
        report_to="none",
        save_strategy="no",
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        dataloader_num_workers=0,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    trainer = TreeTrainer(
        model=model,
        args=configuration,
        train_dataset=Dataset.from_dict({"batch": list(range(steps))}),
        data_collator=BatchCollator(draw, tokenizer.pad_token_id),
        processing_class=tokenizer,
        callbacks=[Print(name, probe, probe_every)],
    )
    trainer.remove_callback(
        next(type(c) for c in trainer.callback_handler.callbacks if "Printer" in type(c).__name__)
    )
    trainer.train()
