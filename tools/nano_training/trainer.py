"""Training with TRL's SFTTrainer on batches drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from tools.nano_training.token_trees import Example, collate


class NanoTrainer(SFTTrainer):
    """An SFTTrainer that uses the loss computed by the model: next tokens and markers of token trees."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss."""
        outputs = model(**inputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

    def _send_telemetry(self) -> None:
        """Send nothing. TRL would report each training run to the hub."""


def train(
    model: Any,
    tokenizer: Any,
    draw: Callable[[int], Sequence[Example]],
    steps: int,
    learning_rate: float,
    scratch: Path,
    seed: int,
) -> None:
    """Train a model in place. The trainer prints the mean loss of every 50 steps.

    Parameters
    ----------
    model : SolverAndJudge or Judge
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
    """

    def batch_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Draw a batch from its number, which is all that the data set of the trainer has."""
        return collate(draw(rows[0]["batch"]), tokenizer.pad_token_id, torch.bfloat16)

    configuration = SFTConfig(
        output_dir=str(scratch),
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.03},
        warmup_steps=min(100, steps // 10),
        adam_beta2=0.98,
        weight_decay=0.05,
        bf16=True,
        use_cpu=True,
        seed=seed,
        logging_steps=50,
        report_to="none",
        save_strategy="no",
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    trainer = NanoTrainer(
        model=model,
        args=configuration,
        train_dataset=Dataset.from_dict({"batch": list(range(steps))}),
        data_collator=batch_of,
        processing_class=tokenizer,
    )
    trainer.train()
