"""Absolute paths, names of the user and of the machine, and secrets, which a bundle must not have.

The arguments of a plugin are part of the keys of its results, so a bundle cannot have others. An argument that tells of
the machine is therefore refused, unless the submitter agrees. Free text, such as why a shard failed, is cleaned.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prmcal.errors import BundleError
from prmcal.registry.messages import shown

ENVIRONMENT = ("prmcal_version", "packages", "hardware")
"""What a bundle says of the environment of a run."""
_LEFT_OUT = "(left out)"
_PATHS = (
    r"(?<![\w.<>\])}~/\\:$-])/(?:[\w.@+~-]+/)+[\w.@+~-]*",  # /data/models, but no </s>, no 1/2/3 and no URL
    r"(?<![\w~])~(?:[a-z_][\w-]*)?/[\w.@+-]+",  # ~/models
    r"(?<!\w)[A-Za-z]:[\\/][\w. -]+[\\/][\w.\\/ -]*",  # C:\Users\me
    r"^/[\w.@+-]+/?$|^~$|^[A-Za-z]:[\\/][\w.-]*$|^\\\\[\w.-]+\\.*",  # /data, and \\server\share
    r"file://\S+|\w+://[^\s/]*@\S+",  # a file, and a URL with a name or a password
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST_SECRET, _SHORTEST_HOST = 8, 4


class Machine:
    """The names of a machine and its user.

    Parameters
    ----------
    user : str
        The name of the user who submits.
    names : sequence of str
        The home folder, the names of the host, and secrets of the environment.
    """

    def __init__(self, user: str = "", names: Sequence[str] = ()) -> None:
        own = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names]
        if user:
            name = re.escape(user)
            own.append(rf"[\\/]{name}(?=[\\/]|$)|(?<![\w.-]){name}(?=@)")
        self._patterns = [re.compile(each) for each in (*_PATHS, *own)]

    @classmethod
    def this(cls) -> Machine:
        """Return the machine that this process runs on."""
        hosts = {socket.gethostname(), *socket.gethostname().split(".")[:1]}
        secrets = {
            value
            for name, value in os.environ.items()
            if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET and not value.isdigit()
        }
        named = {each for each in hosts if len(each) >= _SHORTEST_HOST and not each.startswith("localhost")}
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # A container may have a user without a name.
            user = ""
        return cls(user, sorted({str(Path.home())} - {"/"} | named | secrets))

    def traces(self, text: str) -> list[str]:
        """Return the parts of a text that tell of the machine."""
        return [match[0].strip() for pattern in self._patterns for match in pattern.finditer(text)]

    def cleaned(self, text: str) -> str:
        """Return a text without the parts that tell of the machine."""
        for trace in sorted(self.traces(text), key=len, reverse=True):
            text = text.replace(trace, _LEFT_OUT)
        return text


def check_values(name: str, content: Any, machine: Machine) -> None:
    """Check that no text in JSON data tells of a machine.

    Raises a BundleError if one does. The message has the name of the file, and where it is.
    """
    # The same texts are in a plan thousands of times.
    for text, place in dict(_texts(content)).items():
        if found := machine.traces(text):
            raise BundleError(
                f"{name} would tell of this machine: {shown(found[0])} in '{place}'. Results belong to their "
                "arguments, so a bundle cannot change them. Give it a public name or a relative path in the grid file, "
                "and run the grid again: what is the same is not computed again. Or leave out the cells that need it, "
                "or include the value: --with-paths"
            )


def check_file(name: str, path: Path, machine: Machine) -> None:
    """Check that the text in a file of an artifact does not tell of a machine. Tables are not searched.

    Raises
    ------
    BundleError
        See :func:`check_values`.
    """
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            check_values(name, file.metadata() or {}, machine)
    elif path.suffix == ".json":
        check_values(name, json.loads(path.read_text(encoding="utf-8")), machine)


def public_environment(environment: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """Return what a bundle says of the machine of a run: versions, processor, memory and GPUs."""
    hardware = environment.get("hardware", {})
    packages = environment.get("packages", {})
    return {
        "prmcal_version": environment.get("prmcal_version", ""),
        "packages": {name: machine.cleaned(str(each)) for name, each in packages.items()},
        "hardware": {
            **{name: hardware[name] for name in ("machine", "cores", "memory_gib") if name in hardware},
            "system": str(hardware.get("system", "")).split(" ")[0],
            "gpus": [machine.cleaned(str(each)) for each in hardware.get("gpus", [])],
        },
    }


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in JSON data, each with its place. The names of fields are texts too."""
    if isinstance(value, str):
        yield value, place
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name), place
            yield from _texts(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _texts(each, f"{place}[{number}]")
