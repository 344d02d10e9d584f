"""Train an adapter with TRL's SFTTrainer on batches of token trees, with checkpoints to resume from."""

import copy
import math
import os
import random
import tempfile
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from peft import PeftModel, get_peft_model_state_dict
from torch import Tensor
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging
from trl import SFTConfig, SFTTrainer

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.export import newest_whole, read_adapter, seal, write_adapter
from prmcal.registry.calibrators.lora.model import ADAPTER, load_adapter
from prmcal.registry.calibrators.networks import one_thread
from prmcal.registry.contracts.calibrator import FitSupport
from prmcal.registry.models.memory import advise, free_reserved, too_small

Passes = list[dict[str, Any]]
"""The forward passes of one batch. Each has the model's `inputs`, and the `target` and `weight` of every slot."""
RowLoss = Callable[[Tensor, Tensor], Tensor]
"""From rewards, of shape (..., outputs), and the targets of `Passes`, of shape (...), to losses of shape (...)."""

_CHECKPOINTS = 20
_SHOWN_STEPS = 20
_SECONDS_BETWEEN_REPORTS = 1.0


class TreeTrainer(SFTTrainer):
    """An SFTTrainer with batches of several forward passes, and a loss for each row."""

    def __init__(self, *args: Any, row_loss: RowLoss, fit: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_loss = row_loss
        self.fit = fit
        self.newest_loss = math.nan
        self.most_tokens = math.inf
        """The largest pass of several trees that is tried: half of one that did not fit into the memory."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the weighted sum of the losses of the prefixes in one pass."""
        outputs = model(**inputs["inputs"])
        target, weight = (inputs[name].to(outputs.device) for name in ("target", "weight"))
        loss = (self.row_loss(torch.sigmoid(outputs), target) * weight).sum()
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Add up the gradients of the passes of a batch.

        If they do not fit into the memory, the trunk's activations are computed again for the gradients, from now on.
        This takes a third more operations and a tenth of the memory. If that does not suffice, the passes are divided.
        Raises a PluginFailedError if the loss becomes NaN or infinite, or a single tree does not fit.
        """
        model.train()
        trunk = model.get_base_model().model
        random_state = torch.get_rng_state(), torch.cuda.get_rng_state_all()
        passes: Passes = inputs["parts"]
        while True:
            passes = [piece for one_pass in passes for piece in _within(one_pass, self.most_tokens)]
            try:
                total = torch.zeros((), device=self.args.device)
                for one_pass in passes:
                    loss = self.compute_loss(model, one_pass)
                    self.accelerator.backward(loss)
                    total += loss.detach().to(total.device)
                break
            except torch.OutOfMemoryError as error:
                sizes = [_size(one_pass) for one_pass in passes if len(one_pass["target"]) > 1]
                divides = trunk.is_gradient_checkpointing or not trunk.supports_gradient_checkpointing
                if divides and not sizes:
                    raise too_small(error) from error
            # Outside of `except`, the tensors of the failed passes are free.
            if divides:
                self.most_tokens = max(sizes) // 2
                advise(f"Set 'batch_tokens' of the PRM to {self.most_tokens} or less to avoid this.")
            else:
                trunk.gradient_checkpointing_enable({"use_reentrant": False})
            model.zero_grad()  # The passes before have added theirs.
            free_reserved()
            torch.set_rng_state(random_state[0])
            torch.cuda.set_rng_state_all(random_state[1])
        self.newest_loss = float(total)
        if not math.isfinite(self.newest_loss):
            raise PluginFailedError(
                f"The loss became {'NaN' if math.isnan(self.newest_loss) else 'infinite'} at step "
                f"{self.state.global_step + 1} of {self.state.max_steps}. Lower the learning rate "
                f"({self.args.learning_rate:g})."
            )
        return total

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Return 0: operations are not counted."""
        return 0

    def _send_telemetry(self) -> None:
        """Do nothing. TRL would report every fit to the hub."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint without TRL's model card, and mark it when it is complete."""
        Trainer._save_checkpoint(self, model, trial)
        seal(Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}", self.fit)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write the adapter alone. A resumed fit has the tokenizer and the arguments already."""
        model: Any = self.model
        adapter = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
        write_adapter(Path(str(output_dir)), adapter, model.peft_config[ADAPTER])

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        adapted: Any = self.model
        load_adapter(adapted, read_adapter(Path(resume_from_checkpoint))[0])


def _size(one_pass: dict[str, Any]) -> int:
    return int(one_pass["inputs"]["input_ids"].numel())


def _within(one_pass: dict[str, Any], most_tokens: float) -> Passes:
    """Divide a pass into passes over fewer trees, each of at most so many tokens. A larger tree is a pass by itself."""
    count = len(one_pass["target"])
    if count == 1 or _size(one_pass) <= most_tokens:
        return [one_pass]

    def some(trees: slice) -> dict[str, Any]:
        tensors = {name: tensor[trees] for name, tensor in one_pass["inputs"].items()}
        return {"inputs": tensors, "target": one_pass["target"][trees], "weight": one_pass["weight"][trees]}

    halves = slice(count // 2), slice(count // 2, None)
    return [smaller for half in halves for smaller in _within(some(half), most_tokens)]


class Progress(TrainerCallback):
    """Reports the epoch, the loss and the time left, at most once a second."""

    def __init__(self, steps_by_epoch: Sequence[int], report: Callable[[str], None], loss: Callable[[], float]) -> None:
        self.ends, self.report, self.loss = list(accumulate(steps_by_epoch)), report, loss
        self.losses: deque[float] = deque(maxlen=_SHOWN_STEPS)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock at the first step, which is not 0 in a resumed fit."""
        self.first_step, self.start, self.reported = state.global_step, time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report, unless the last report is less than a second old."""
        self.losses.append(self.loss())
        now, step = time.monotonic(), state.global_step
        if now - self.reported < _SECONDS_BETWEEN_REPORTS and step < self.ends[-1]:
            return
        self.reported = now
        seconds_left = (now - self.start) / (step - self.first_step) * (self.ends[-1] - step)
        self.report(
            f"epoch {bisect_left(self.ends, step) + 1} of {len(self.ends)}, "
            f"loss {sum(self.losses) / len(self.losses):.3f}, {seconds_left:.0f} s left"
        )


def train(
    model: PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    passes_of: Callable[[int], Passes],
    row_loss: RowLoss,
    steps_by_epoch: Sequence[int],
    settings: Mapping[str, Any],
    support: FitSupport,
    fit: str,
) -> None:
    """Train a model's adapter in place, from the newest complete checkpoint of the same fit if there is one.

    The model's forward pass returns log-odds of shape (trees, slots, outputs). The trainer aligns its special tokens
    with the PRM's tokenizer. `passes_of` returns the forward passes of a batch, by its number; their weights sum to 1.
    `settings` are the calibrator's arguments: the learning rate of the first step, which decays linearly to 0, and the
    seed of dropout. `fit` is a hash of everything that the result depends on. Checkpoints of other fits are ignored.
    Raises a PluginFailedError if the loss or a weight becomes NaN or infinite.
    """
    steps = sum(steps_by_epoch)
    with ExitStack() as stack:
        folder = support.checkpoints
        newest = None
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            newest = newest_whole(folder, fit)
        trainer = TreeTrainer(
            model=model,
            args=_configuration(folder, steps, settings, support.checkpoints is not None, model.device.type == "cpu"),
            train_dataset=Dataset.from_dict({"batch": list(range(steps))}),
            data_collator=lambda rows: {"parts": passes_of(rows[0]["batch"])},
            processing_class=copy.deepcopy(tokenizer),
            row_loss=row_loss,
            fit=fit,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Progress(steps_by_epoch, support.report, lambda: trainer.newest_loss))
        trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
    model.eval()
    if not all(torch.isfinite(weight).all() for weight in model.parameters() if weight.requires_grad):
        raise PluginFailedError(
            f"The adapter's weights became NaN at the last of {steps} steps. Lower the learning rate "
            f"({settings['learning_rate']:g})."
        )


def _configuration(folder: Path, steps: int, settings: Mapping[str, Any], keep: bool, cpu: bool) -> SFTConfig:
    """The trainer's configuration: one pass over the numbered batches of all epochs, in order."""
    configuration = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=1,
        train_sampling_strategy="sequential",
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="linear",
        warmup_steps=0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        bf16=False,
        use_cpu=cpu,
        seed=settings["seed"],
        logging_strategy="no",
        report_to="none",
        save_strategy="steps" if keep else "no",
        save_steps=max(1, steps // _CHECKPOINTS),
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


@contextmanager
def isolated(seed: int, device: torch.device) -> Iterator[None]:
    """Work like :func:`one_thread`, also for the random numbers of Python and NumPy, and silence the libraries."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    environment, verbosity = dict(os.environ), logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with one_thread(seed, device.type == "cuda"):
            yield
    finally:
        logging.set_verbosity(verbosity)
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
