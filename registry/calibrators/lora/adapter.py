"""The calibrator `quantile-adapter`: a quantile adapter that the paper's own code trained, used as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora, transformers_prm
from prmcal.registry.contracts.features import ScoredPrefixes
from prmcal.registry.prms.qwen import QwenPRM

__all__ = ["QuantileAdapter"]

_WHAT = "A LoRA adapter for quantiles of the success probability that was trained elsewhere"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


class QuantileAdapter(QuantileLora):
    r"""A published adapter in the layout of the paper's code: PEFT over a head with one output per quantile.

    Nothing is trained; the calibration data only says how well it fits. It belongs to Qwen2.5-Math-PRM-7B and to the
    language model that it was trained for.

    Parameters
    ----------
    adapter : str
        The folder that PEFT wrote, with ``adapter_config.json`` and ``adapter_model.safetensors``, such as
        ``hf download REPOSITORY --local-dir FOLDER`` brings from the hub.
    quantiles : sequence of float, default (0.1, 0.5, 0.9)
        What the outputs are, ascending.

    Notes
    -----
    The paper's code starts the head at the difference of the PRM's two outputs, which is not in the adapter's files but
    follows from the PRM. For Math-Shepherd and ReasonEval it also draws a bias that it saves nowhere, so that their
    adapters cannot be read back by anyone; they are refused.

    The layout is that of the paper's code, and it is tested with adapters that PEFT writes in it; the ones on the hub
    have not been tried yet.

    That code asks for the answer "in \\boxed{}", where the PRM's own documentation and the plugin `qwen` have "within
    \\boxed{}". For what it read word for word, register a class that derives from ``QwenPRM`` with that
    `system_prompt`.
    """

    def __init__(self, adapter: str, quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)) -> None:
        super().__init__(quantiles=quantiles)
        self.adapter = adapter

    def check_arguments(self) -> None:
        """Refuse a folder without an adapter's two files."""
        super().check_arguments()
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise ValueError(
                f"The adapter {self.adapter} has no {missing[0]}. Give 'adapter' the folder that PEFT wrote, with "
                f"{' and '.join(_FILES)}; weights as a pickle (.bin) are not read."
            )

    def identity(self) -> dict[str, Any]:
        """The hashes of the adapter's files, wherever they lie."""
        from prmcal.registry.calibrators.lora.checkpoints import file_hash

        known = super().identity()
        arguments = {name: value for name, value in known["arguments"].items() if name != "adapter"}
        files = {name: file_hash(self._folder / name) for name in _FILES}
        return {**known, "arguments": arguments, "files": files}

    def fit(self, features: ScoredPrefixes, k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Read the adapter, and see how well it fits the data; see :meth:`prmcal.Calibrator.fit`.

        Raises
        ------
        PluginFailedError
            If it is not an adapter of this PRM, or was made in another way.
        """
        from prmcal.registry.calibrators.lora.adapter_files import read_published_adapter

        self.check_calibration_data(features, k, n)
        prm = transformers_prm(features)
        if not isinstance(prm, QwenPRM):
            raise PluginFailedError(
                f"Only adapters of PRMs in Qwen's format can be read. '{prm.plugin_name}' is a {type(prm).__name__}, "
                "of whose head the paper's code draws a part at random and does not save it."
            )
        self.adapter_, self.config_ = read_published_adapter(self._folder, len(self.levels))
        identity = json.loads(json.dumps(prm.identity()))
        self.card_ = {"what": _WHAT, "prm": identity, "arguments": {"quantiles": list(self.quantiles)}}
        return self.compared(features, np.asarray(k, dtype=np.float64) / n)

    @property
    def _folder(self) -> Path:
        return Path(self.adapter).expanduser()
