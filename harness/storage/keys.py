"""Content keys: hashes of everything that determines the output of a job.

The key of a job determines its seed and the address of its artifact.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["ArtifactRef", "content_key", "seed_from_key"]


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """The address of an artifact: the kind of its job and the key of its shard."""

    kind: str
    key: str


def content_key(data: Any) -> str:
    """Return the first 24 hexadecimal digits of the SHA-256 of canonical JSON. Equal data have equal keys anywhere."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def seed_from_key(key: str) -> int:
    """Return a seed in [0, 2**63) that depends only on the key."""
    return int(key[:16], 16) >> 1
