"""TRL's SFTTrainer over batches of token trees, with checkpoints that a killed fit goes on from."""

from __future__ import annotations

import copy
import math
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel, get_peft_model_state_dict
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.adapter_files import read_adapter, write_adapter
from prmcal.registry.calibrators.lora.checkpoints import newest_whole, seal
from prmcal.registry.calibrators.lora.model import ADAPTER, load_adapter
from prmcal.registry.contracts.features import FitSupport

__all__ = ["Parts", "Schedule", "train"]

Parts = list[dict[str, Any]]
"""The forward passes that make up one batch: each the model's `inputs`, and `target` and `weight` of every slot."""

_CHECKPOINTS = 20
_SHOWN_STEPS = 20
_SECONDS_BETWEEN_REPORTS = 1.0


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Attributes
    ----------
    steps_by_epoch : tuple of int
        Batches of each epoch.
    learning_rate : float
        At the first step; it falls to 0 along a straight line.
    seed : int
        Of dropout.
    """

    steps_by_epoch: tuple[int, ...]
    learning_rate: float
    seed: int

    @property
    def steps(self) -> int:
        """Batches in all."""
        return sum(self.steps_by_epoch)


class TreeTrainer(SFTTrainer):
    """SFTTrainer whose batches are lists of forward passes, and whose loss is that of quantiles."""

    def __init__(
        self,
        *args: Any,
        row_loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        fit: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.row_loss = row_loss
        self.fit = fit
        self.newest_loss = math.nan

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The weighted sum of the losses of one pass's prefixes."""
        outputs = model(**{name: tensor.to(model.device) for name, tensor in inputs["inputs"].items()})
        target, weight = (inputs[name].to(outputs.device) for name in ("target", "weight"))
        loss = (self.row_loss(torch.sigmoid(outputs), target) * weight).sum()
        return (loss, outputs) if return_outputs else loss

    def training_step(
        self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Add up the gradients of a batch's passes.

        Raises
        ------
        PluginFailedError
            If the loss is no number any more.
        """
        model.train()
        total = torch.zeros((), device=self.args.device)
        for part in inputs["parts"]:
            loss = self.compute_loss(model, part)
            self.accelerator.backward(loss)
            total += loss.detach().to(total.device)
        self.newest_loss = float(total)
        if not math.isfinite(self.newest_loss):
            raise PluginFailedError(
                f"the loss became {'NaN' if math.isnan(self.newest_loss) else 'infinite'} at step "
                f"{self.state.global_step + 1} of {self.state.max_steps}: lower the learning rate "
                f"(it is {self.args.learning_rate:g})."
            )
        return total

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted."""
        return 0

    def _send_telemetry(self) -> None:
        """TRL would report every fit to the hub."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Without TRL's model card, and sealed once it is whole."""
        Trainer._save_checkpoint(self, model, trial)
        seal(Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}", self.fit)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """The adapter alone: the tokenizer and the arguments are known to whoever resumes."""
        model: Any = self.model
        adapter = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
        write_adapter(Path(str(output_dir)), adapter, model.peft_config[ADAPTER])

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        adapted: Any = self.model
        load_adapter(adapted, read_adapter(Path(resume_from_checkpoint))[0])


class Progress(TrainerCallback):
    """A line on epoch, loss and time left, once a second at the most."""

    def __init__(self, schedule: Schedule, report: Callable[[str], None], loss: Callable[[], float]) -> None:
        self.schedule, self.report, self.loss = schedule, report, loss
        self.losses: deque[float] = deque(maxlen=_SHOWN_STEPS)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock, at the step that a resumed fit goes on from."""
        self.first_step, self.start, self.reported = state.global_step, time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report, unless the last line is too new."""
        self.losses.append(self.loss())
        now, step = time.monotonic(), state.global_step
        if now - self.reported < _SECONDS_BETWEEN_REPORTS and step < self.schedule.steps:
            return
        self.reported = now
        left = (now - self.start) / (step - self.first_step) * (self.schedule.steps - step)
        self.report(
            f"epoch {self._epoch(step)} of {len(self.schedule.steps_by_epoch)}, "
            f"loss {sum(self.losses) / len(self.losses):.3f}, {left:.0f} s left"
        )

    def _epoch(self, step: int) -> int:
        before = 0
        for number, steps in enumerate(self.schedule.steps_by_epoch, 1):
            before += steps
            if step <= before:
                return number
        return len(self.schedule.steps_by_epoch)


def train(
    model: PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    parts_of: Callable[[int], Parts],
    row_loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    schedule: Schedule,
    support: FitSupport,
    fit: str,
) -> None:
    """Train a model's adapter in place, going on from the newest whole checkpoint of the same fit if there is one.

    Parameters
    ----------
    model : PeftModel
        Its forward pass gives log-odds of shape (trees, slots, outputs).
    tokenizer : PreTrainedTokenizerBase
        The real one: the trainer aligns the model's special tokens with it.
    parts_of : callable
        From a batch's number to its forward passes, whose weights sum to 1.
    row_loss : callable
        From predictions, of shape (..., outputs), and targets, of shape (...), to losses of shape (...).
    schedule : Schedule
    support : FitSupport
    fit : str
        A hash of all that decides the result: checkpoints of other fits are not gone on from.

    Raises
    ------
    PluginFailedError
        If the loss is no number any more.
    """
    with ExitStack() as stack:
        folder = support.checkpoints
        newest = None
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            newest = newest_whole(folder, fit)
        trainer = TreeTrainer(
            model=model,
            args=_configuration(
                folder, schedule, support.checkpoints is not None, model.device.type == "cpu"
            ),
            train_dataset=Dataset.from_dict({"batch": list(range(schedule.steps))}),
            data_collator=lambda rows: {"parts": parts_of(rows[0]["batch"])},
            processing_class=copy.deepcopy(tokenizer),
            row_loss=row_loss,
            fit=fit,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Progress(schedule, support.report, lambda: trainer.newest_loss))
        trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
    model.eval()
    if not all(torch.isfinite(weight).all() for weight in model.parameters() if weight.requires_grad):
        raise PluginFailedError(
            f"the adapter's weights became NaN at the last of {schedule.steps} steps: lower the learning rate "
            f"(it is {schedule.learning_rate:g})."
        )


def _configuration(folder: Path, schedule: Schedule, keep: bool, cpu: bool) -> SFTConfig:
    """One pass over the numbered batches of all epochs, in order."""
    configuration = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=1,
        train_sampling_strategy="sequential",
        learning_rate=schedule.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        bf16=False,
        use_cpu=cpu,
        seed=schedule.seed,
        logging_strategy="no",
        report_to="none",
        save_strategy="steps" if keep else "no",
        save_steps=max(1, schedule.steps // _CHECKPOINTS),
        save_total_limit=2,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    configuration._n_gpu = min(configuration.n_gpu, 1)  # SFTTrainer refuses a machine with several.
    return configuration
