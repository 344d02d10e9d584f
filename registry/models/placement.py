"""The type and the device of loaded weights, as annotations for constructor arguments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

__all__ = ["SPREAD", "Device", "Dtype", "SpreadableDevice"]

SPREAD = "balanced"
"""The device of a model with its layers spread evenly over all GPUs."""

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""``auto`` is the type in which the weights are saved."""

Device = Annotated[
    str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$", description="auto, cpu, cuda or cuda:N")
]
"""``auto`` is the GPU if there is one."""

SpreadableDevice = Annotated[
    str,
    Field(
        pattern=rf"^(auto|cpu|cuda(:[0-9]+)?|{SPREAD})$", description=f"auto, cpu, cuda, {SPREAD} or cuda:N"
    ),
]
"""A device, or SPREAD, for models that do not fit on one GPU."""
