"""What tells of a machine: absolute paths, the names of its user and of hosts, and secrets of its environment.

The arguments of a plugin are part of the keys of its results, so a bundle cannot have others. An argument that tells of
the machine is therefore refused, unless the submitter agrees. Free text, such as why a shard failed, is cleaned.
"""

from __future__ import annotations

import getpass
import ipaddress
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prmcal.errors import BundleError
from prmcal.harness.planning.plan import Plan
from prmcal.registry.messages import shown

__all__ = ["ENVIRONMENT", "Machine", "check_file", "check_plan", "check_values", "public_environment"]

_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\"'<>]+")
_OF_FILES, _OF_HOSTS = {"file", "unix"}, {"http", "https", "ws", "wss", "ftp", "sftp", "ssh", "tcp", "grpc"}
_PRIVATE = (".local", ".localdomain", ".internal", ".intranet", ".lan", ".corp", ".home", ".private")
_LOOPBACK = "localhost"

_PATHS = (
    re.compile(
        r"(?<![\w.<>\])}~/\\:$-])/(?:[\w.@+~-]+/)+[\w.@+~-]*"
    ),  # /data/models, but no </s> and no 1/2/3
    re.compile(r"(?<![\w~])~(?:[a-z_][\w-]*)?/[\w.@+-]+"),  # ~/models
    re.compile(r"(?<!\w)[A-Za-z]:[\\/][\w. -]+[\\/][\w.\\/ -]*"),  # C:\Users\me
    re.compile(r"^/[\w.@+-]+/?$|^~$|^[A-Za-z]:[\\/][\w.-]*$|^\\\\[\w.-]+\\.*"),  # /data, and \\server\share
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST_SECRET, _SHORTEST_HOST = 8, 4
_LEFT_OUT = "(left out)"

ENVIRONMENT = ("prmcal_version", "packages", "hardware")
"""What a bundle says of the environment of a run."""

_KEPT_HARDWARE = ("machine", "cores", "memory_gib")


@dataclass(frozen=True)
class Machine:
    """The names of a machine and its user, which a bundle must not have.

    Attributes
    ----------
    user : str
        The name of the user who submits.
    names : tuple of str
        The home folder, the names of the host, and secrets of the environment.
    """

    user: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def this(cls) -> Machine:
        """Return the machine that this process runs on."""
        home = str(Path.home())
        hosts = {socket.gethostname(), socket.getfqdn(), *socket.gethostname().split(".")[:1]}
        secrets = {
            value
            for name, value in os.environ.items()
            if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET and not value.isdigit()
        }
        named = {each for each in hosts if len(each) >= _SHORTEST_HOST and not each.startswith(_LOOPBACK)}
        return cls(_user(), tuple(sorted({home} - {"/"} | named | secrets)))

    def traces(self, text: str) -> list[str]:
        """Return the parts of a text that tell of a machine."""
        found = [url for url in _URL.findall(text) if _tells(url)]
        rest = _URL.sub(" ", text)
        for pattern in (*_PATHS, *self._own):
            found += [match[0].strip() for match in pattern.finditer(rest)]
        # Names of hosts and secrets can also be inside a URL.
        found += [match[0] for pattern in self._own if rest != text and (match := pattern.search(text))]
        return found

    def cleaned(self, text: str) -> str:
        """Return a text without the parts that tell of a machine."""
        for trace in sorted(self.traces(text), key=len, reverse=True):
            text = text.replace(trace, _LEFT_OUT)
        return text

    @cached_property
    def _own(self) -> list[re.Pattern[str]]:
        user = re.escape(self.user)
        of_user = [re.compile(rf"[\\/]{user}(?=[\\/]|$)|(?<![\w.-]){user}(?=@)")] if self.user else []
        return [*of_user, *(_whole(name) for name in self.names)]


def check_plan(plan: Plan, machine: Machine) -> None:
    """Check that no argument of a plugin tells of a machine.

    Raises
    ------
    BundleError
        If one does. The message has the plugin, the argument and the value.
    """
    for kind, plugins in plan.plugins.items():
        for plugin in plugins:
            for place, text in _texts(plugin.reference.arguments):
                if found := machine.traces(text):
                    part = "" if found[0] == text else f" has {shown(found[0])}"
                    raise BundleError(
                        f"The argument '{place}' of the {kind} '{plugin.name}' tells of this machine: {shown(text)}"
                        f"{part}. Results belong to their arguments, so a bundle cannot change them. "
                        "Give it a public name or a relative path in the grid file, and run the grid again: what is "
                        "the same is not computed again. Or leave out the cells of this plugin, or include the value: "
                        "--with-paths"
                    )


def check_values(name: str, content: Any, machine: Machine) -> None:
    """Check that no text in JSON data tells of a machine.

    Raises
    ------
    BundleError
        If one does. The message has the name of the file, and where it is.
    """
    # The same texts are in a plan thousands of times.
    for text, place in {text: place for place, text in _texts(content)}.items():
        if found := machine.traces(text):
            raise BundleError(
                f"{name} would tell of this machine: {shown(found[0])} in '{place}'. Leave out the cells that need it, "
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
    found = {name: hardware[name] for name in _KEPT_HARDWARE if name in hardware}
    system = str(hardware.get("system", "")).split(" ")[0]
    gpus = [machine.cleaned(str(each)) for each in hardware.get("gpus", [])]
    packages = {name: machine.cleaned(str(each)) for name, each in environment.get("packages", {}).items()}
    values = (environment.get("prmcal_version", ""), packages, {**found, "system": system, "gpus": gpus})
    return dict(zip(ENVIRONMENT, values, strict=True))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container may have a user without a name.
        return ""


def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in JSON data, each with its place. The names of fields are texts too."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield place, str(name)
            yield from _texts(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _texts(each, f"{place}[{number}]")


def _tells(url: str) -> bool:
    """Tell whether a URL has a path of a file, a user, or a host that only its own network knows.

    The machine itself, localhost, has this name everywhere.
    """
    try:
        parts = urlsplit(url)
        host, user = (parts.hostname or "").lower(), parts.username or parts.password
    except ValueError:
        return True
    if parts.scheme.lower() in _OF_FILES or user:
        return True
    if parts.scheme.lower() not in _OF_HOSTS or not host or host == _LOOPBACK:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE)
    return not address.is_loopback and not address.is_global
