"""The calibrator `quantile-adapter`, which was trained by the paper's own code."""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from prmcal.arrays import Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora, Quantiles, transformers_prm
from prmcal.registry.contracts.calibrator import ScoredPrefixes
from prmcal.registry.contracts.models import PRM
from prmcal.registry.models.checkpoints import is_hub_id, resolve_checkpoint
from prmcal.registry.prms.qwen import QwenPRM

_WHAT = "A LoRA adapter for quantiles of the success probability that was trained elsewhere"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


class QuantileAdapter(QuantileLora):
    r"""Use a published adapter in the layout of the paper's code: PEFT on a PRM with one output per quantile.

    Nothing is trained. ``fit`` only measures the losses on the calibration data. The adapter belongs to
    Qwen2.5-Math-PRM-7B and to the language model that it was trained for.

    Notes
    -----
    The paper's code initialises the head with the difference of the PRM's two outputs. This is not in the adapter's
    files, but follows from the PRM. For Math-Shepherd and ReasonEval, the code also draws a random bias that it does
    not save. Their adapters cannot be restored, so this calibrator refuses them.

    The tests use adapters that PEFT writes in this layout. The adapters on the hub have not been tried yet.

    The system prompt of the paper's code has "in \\boxed{}", while the PRM's documentation and the plugin `qwen` have
    "within \\boxed{}". For the exact prompt of the paper's code, set the `system_prompt` of `qwen`, as the grid
    `published` does.
    """

    adapter: str | dict[str, str]
    """A folder that PEFT wrote, with ``adapter_config.json`` and ``adapter_model.safetensors``, or a hub id such as
    ``young-j-park/Qwen2.5-Math-PRM-7B-calibrated-Llama-3.2-1B-Instruct``. In a grid with several LLMs, it is the
    adapter of each, by its name in the grid."""
    quantiles: Quantiles
    """The levels of the outputs, ascending in (0, 1)."""

    def __init__(self, adapter: str | dict[str, str], quantiles: Quantiles = (0.1, 0.5, 0.9)) -> None:
        super().__init__(quantiles=quantiles)
        self.training_passes = 0
        self.adapter = adapter

    def check_arguments(self) -> None:
        """Raise ValueError if there is no adapter, or if a folder lacks one of the adapter's two files."""
        if not self._adapters or not all(self._adapters):
            raise ValueError(
                "The 'adapter' parameter must name an adapter: one, or one for each LLM of the grid."
            )
        for adapter in self._adapters:
            folder = Path(adapter).expanduser()
            missing = [name for name in _FILES if not (folder / name).is_file()]
            if not missing or (not folder.exists() and is_hub_id(adapter)):
                continue
            raise ValueError(
                f"The adapter {adapter} has no {missing[0]}. Give 'adapter' the folder that PEFT wrote, with "
                f"{' and '.join(_FILES)}, or its hub id. Weights as a pickle (.bin) are not read."
            )

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The adapters that are read from the hub."""
        return tuple(each for each in self._adapters if not Path(each).expanduser().is_dir())

    def arguments_for(self, llm: str) -> dict[str, Any] | None:
        """Return the adapter of one LLM. Raise a PluginFailedError if it has none."""
        if isinstance(self.adapter, str):
            return None
        if llm not in self.adapter:
            raise PluginFailedError(
                f"The calibrator 'quantile-adapter' has no adapter for the LLM '{llm}'. It has those of: "
                f"{', '.join(self.adapter)}. Restrict the calibrator to these with 'llms'."
            )
        return {"adapter": self.adapter[llm]}

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hashes of the adapter's files in place of their path."""
        from prmcal.registry.calibrators.lora.export import file_hash

        known = super().identity()
        arguments = {name: value for name, value in known["arguments"].items() if name != "adapter"}
        files = [{name: file_hash(_folder(adapter) / name) for name in _FILES} for adapter in self._adapters]
        return {
            **known,
            "arguments": arguments,
            "files": files[0]
            if isinstance(self.adapter, str)
            else dict(zip(self.adapter, files, strict=True)),
        }

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Read the adapter and measure its loss on the data; see :meth:`prmcal.Calibrator.fit`."""
        self.check_calibration_data(features, k, n)
        self.restore(transformers_prm(features))
        return self.compared(features, np.asarray(k, dtype=np.float64) / n)

    def restore(self, prm: PRM) -> Self:
        """Read the adapter for a PRM, without data."""
        from prmcal.registry.calibrators.lora.export import read_published_adapter

        if not isinstance(prm, QwenPRM):
            raise PluginFailedError(
                f"Only adapters of PRMs in Qwen's format can be read. '{prm.plugin_name}' is a {type(prm).__name__}. "
                "For such PRMs, the paper's code does not save all of the head."
            )
        if not isinstance(self.adapter, str):
            raise PluginFailedError("It has an adapter for each LLM. Give 'adapter' the one of this LLM.")
        self.adapter_, self.config_ = read_published_adapter(_folder(self.adapter), len(self.levels))
        identity = json.loads(json.dumps(prm.identity()))
        self.card_ = {"what": _WHAT, "prm": identity, "arguments": {"quantiles": list(self.quantiles)}}
        return self

    @property
    def _adapters(self) -> tuple[str, ...]:
        return (self.adapter,) if isinstance(self.adapter, str) else tuple(self.adapter.values())


def _folder(adapter: str) -> Path:
    """The folder of an adapter. One of the hub is downloaded if it is not on this machine."""
    folder = Path(adapter).expanduser()
    return folder if folder.is_dir() else resolve_checkpoint(adapter)
