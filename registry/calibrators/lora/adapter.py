"""The calibrator `quantile-adapter`: a quantile adapter that was trained by the paper's own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from prmcal.arrays import Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora, Quantiles, transformers_prm
from prmcal.registry.contracts.calibrator import ScoredPrefixes
from prmcal.registry.contracts.models import PRM
from prmcal.registry.prms.heads import QwenPRM

_WHAT = "A LoRA adapter for quantiles of the success probability that was trained elsewhere"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


class QuantileAdapter(QuantileLora):
    r"""Use a published adapter in the layout of the paper's code: PEFT on a PRM with one output per quantile.

    Nothing is trained. ``fit`` only measures the losses on the calibration data. The adapter belongs to
    Qwen2.5-Math-PRM-7B and to the language model that it was trained for.

    Parameters
    ----------
    adapter : str
        A folder that PEFT wrote, with ``adapter_config.json`` and ``adapter_model.safetensors``. The command
        ``hf download REPOSITORY --local-dir FOLDER`` downloads one from the hub.
    quantiles : sequence of float, default (0.1, 0.5, 0.9)
        The levels of the outputs, ascending in (0, 1).

    Notes
    -----
    The paper's code initialises the head with the difference of the PRM's two outputs. This is not in the adapter's
    files, but follows from the PRM. For Math-Shepherd and ReasonEval, the code also draws a random bias that it does
    not save. Their adapters cannot be restored, so this calibrator refuses them.

    The tests use adapters that PEFT writes in this layout. The adapters on the hub have not been tried yet.

    The system prompt of the paper's code has "in \\boxed{}", while the PRM's documentation and the plugin `qwen` have
    "within \\boxed{}". For the exact prompt of the paper's code, register a class that derives from ``QwenPRM`` with
    that `system_prompt`.
    """

    training_passes = 0

    def __init__(self, adapter: str, quantiles: Quantiles = (0.1, 0.5, 0.9)) -> None:
        super().__init__(quantiles=quantiles)
        self.adapter = adapter

    def check_arguments(self) -> None:
        """Raise ValueError if the folder lacks one of the adapter's two files."""
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise ValueError(
                f"The adapter {self.adapter} has no {missing[0]}. Give 'adapter' the folder that PEFT wrote, with "
                f"{' and '.join(_FILES)}. Weights as a pickle (.bin) are not read."
            )

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hashes of the adapter's files in place of their path."""
        from prmcal.registry.calibrators.lora.files import file_hash

        known = super().identity()
        arguments = {name: value for name, value in known["arguments"].items() if name != "adapter"}
        files = {name: file_hash(self._folder / name) for name in _FILES}
        return {**known, "arguments": arguments, "files": files}

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Read the adapter and measure its loss on the data; see :meth:`prmcal.Calibrator.fit`."""
        self.check_calibration_data(features, k, n)
        self.restore(transformers_prm(features))
        return self.compared(features, np.asarray(k, dtype=np.float64) / n)

    def restore(self, prm: PRM) -> Self:
        """Read the adapter for a PRM, without data."""
        from prmcal.registry.calibrators.lora.files import read_published_adapter

        if not isinstance(prm, QwenPRM):
            raise PluginFailedError(
                f"Only adapters of PRMs in Qwen's format can be read. '{prm.plugin_name}' is a {type(prm).__name__}. "
                "For such PRMs, the paper's code does not save all of the head."
            )
        self.adapter_, self.config_ = read_published_adapter(self._folder, len(self.levels))
        identity = json.loads(json.dumps(prm.identity()))
        self.card_ = {"what": _WHAT, "prm": identity, "arguments": {"quantiles": list(self.quantiles)}}
        return self

    @property
    def _folder(self) -> Path:
        return Path(self.adapter).expanduser()
