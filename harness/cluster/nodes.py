"""The nodes of a cluster: what each has, and whether it can compute the same bytes as the coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.harness.execution.machine import package_versions

__all__ = ["Node", "alive_nodes", "cause_of", "inspect_nodes", "on_node"]

_SECONDS_TO_ANSWER = 60.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster.

    Attributes
    ----------
    id : str
        Ray's name for it.
    name : str
        Its host name, or its address if several nodes have this host name.
    cpus, gpus : int
        What Ray may give to actors.
    """

    id: str
    name: str
    cpus: int
    gpus: int


def alive_nodes(ray: Any) -> dict[str, Node]:
    """Return the nodes that are alive, by their ids."""
    alive = [each for each in ray.nodes() if each["Alive"]]
    hosts = Counter(each["NodeManagerHostname"] for each in alive)
    found = {}
    for each in alive:
        host, resources = each["NodeManagerHostname"], each["Resources"]
        name = host if hosts[host] == 1 else each["NodeManagerAddress"]
        found[each["NodeID"]] = Node(
            each["NodeID"], name, int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        )
    return found


def inspect_nodes(ray: Any, nodes: Sequence[Node], paths: Sequence[Path]) -> dict[str, str]:
    """Return why nodes cannot be used, by their ids. It is empty for a node that has left, and absent for a usable one.

    A node must have the same versions of Python, prmcal and the packages that decide results, and the files and folders
    that the grid names.

    Parameters
    ----------
    ray : module
    nodes : sequence of Node
    paths : sequence of Path
        Absolute paths of data and models that plugins read.
    """
    ours = _ours()
    answers = {
        node.id: ray.remote(_inspection())
        .options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(ray, node.id))
        .remote(list(ours), [str(path) for path in paths])
        for node in nodes
    }
    ray.wait(list(answers.values()), num_returns=len(answers), timeout=_SECONDS_TO_ANSWER)
    refused = {}
    for node in nodes:
        try:
            theirs, missing = ray.get(answers[node.id], timeout=0)
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            refused[node.id] = ""  # Ray still lists a node for some seconds after it has left.
            continue
        except Exception as error:
            silent = isinstance(error, ray.exceptions.GetTimeoutError)
            why = (
                f"it did not answer in {_SECONDS_TO_ANSWER:.0f} s"
                if silent
                else f"{type(error).__name__}: {error}"
            )
            refused[node.id] = f"The node {node.name} cannot be used: {why.splitlines()[0]}."
            ray.cancel(answers[node.id], force=True)
            continue
        problem = _difference(ours, theirs) or _absence(missing)
        if problem:
            refused[node.id] = f"The node {node.name} {problem}"
    return refused


def cause_of(error: BaseException) -> str:
    """Return the first line of what an error of Ray was caused by, without a full stop."""
    cause = getattr(error, "cause", None)
    text = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]


def on_node(ray: Any, node: str) -> Any:
    """Return the strategy that places an actor or a task on a node, or nowhere."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def _ours() -> dict[str, str]:
    return _inspection()(["prmcal", *package_versions()], [])[0]


def _difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    if not theirs.get("prmcal"):
        return f"has no prmcal. Install it there: pip install prmcal=={ours['prmcal']}."
    differing = [name for name in ours if ours[name] != theirs.get(name, "")]
    # Files differ whenever the version does.
    named = [name for name in differing if name != "files of prmcal" or differing == [name]]
    if not named:
        return ""
    told = ", ".join(f"{name} {theirs.get(name) or 'absent'} instead of {ours[name]}" for name in named)
    return f"has other versions: {told}. Install the same versions there."


def _absence(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"lacks {missing[0]}{more}. Copy it there, or use a folder that all nodes share."


def _inspection() -> Callable[[list[str], list[str]], tuple[dict[str, str], list[str]]]:
    """Return the function that looks at a node.

    It is defined here in order that Ray sends its code: a function of a module would be imported, and prmcal may be
    absent on the node.
    """

    def inspection(packages: list[str], paths: list[str]) -> tuple[dict[str, str], list[str]]:
        import hashlib
        import os
        import platform
        from importlib import metadata, util
        from pathlib import Path

        found = {}
        for name in packages:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found[name] = ""
        found["python"] = platform.python_version()
        try:
            spec = util.find_spec("prmcal")
        except ImportError:
            spec = None
        if spec is None or spec.origin is None:
            found["prmcal"] = ""
        else:
            root, content = Path(spec.origin).parent, hashlib.sha256()
            for folder, folders, files in os.walk(root, followlinks=True):
                folders[:] = sorted(each for each in folders if each != "__pycache__")
                for file in sorted(Path(folder) / each for each in files if each.endswith(".py")):
                    content.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
            found["files of prmcal"] = content.hexdigest()[:8]
        return found, [path for path in paths if not Path(path).exists()]

    return inspection
