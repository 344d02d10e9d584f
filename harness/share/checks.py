"""The checks of everything that comes from elsewhere, before a byte of it is kept, and of what must not leave.

A bundle must have exactly the files of its list. Its record, its plan, its failures and its manifests have the types of
their fields. Its tables have the columns that a run writes, and the values of the list. What is unpacked has the layout
of a run's folder.

A bundle must not have absolute paths, names of the user and of the machine, and secrets. The arguments of a plugin are
part of the keys of its results, so a bundle cannot have others. An argument that tells of the machine is therefore
refused, unless the submitter agrees. Free text, such as why a shard failed, is cleaned.
"""

import getpass
import json
import os
import re
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import TypeAdapter

from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE, artifact_folder, artifacts_root
from prmcal.errors import BundleError, RunError, StorageError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Labels, job_key
from prmcal.harness.planning.plan import Cell, Plan, PlannedPlugin, PlannedQuestions
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share import bundle
from prmcal.harness.share.tables import NEEDED, checked_digests
from prmcal.harness.storage.folder import RunFolder, one_problem, texts_in
from prmcal.harness.storage.store import (
    MANIFEST,
    MANIFEST_FILE,
    NUMBER,
    content_key,
    file_sha256,
    storage_errors,
)
from prmcal.registry.contracts.data import Level
from prmcal.registry.messages import reading, shown
from prmcal.registry.plugins import KINDS

_RUN_FILES = (RECORD_FILE, PLAN_FILE, FAILURES_FILE)
_ABOUT_FILES = (bundle.SUBMISSION_FILE, bundle.SIGNATURE_FILE, *_RUN_FILES)
"""The files of an unpacked bundle besides its artifacts."""

_LARGEST_JSON, _LARGEST_SIGNATURE = 2**28, 2**16
"""Bytes. The plan of the paper's grid has 20 million, and the signature of the longest RSA key 4,000."""
_SUFFIXES = (".json", ".parquet", ".safetensors")
_ADVICE = "Ask the submitter for the bundle that `prmcal submit` wrote."


def unpack(path: Path, folder: Path) -> bundle.Submission:
    """Check a bundle and write its files into a new or empty folder, which then has the layout of a run's folder.

    Raises a BundleError if the bundle is not exactly what was submitted, has something that no run writes, or its
    signature is not valid. The folder is as it was before then. Raises a StorageError if the folder holds files, or the
    disk is full or not writable.
    """
    if not path.is_file():
        raise BundleError(f"{path} is {'a folder' if path.is_dir() else 'no file'}. A bundle is a file.")
    target = folder.resolve()
    with storage_errors(folder):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(
                f"{folder} exists and is not an empty folder. Choose a new folder for the bundle."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            submission = _checked(fresh, bundle.extract(path, fresh), str(path))
            fresh.chmod(0o755)
            fresh.replace(target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return submission


def check_unpacked(folder: Path) -> bundle.Submission:
    """Check a folder as the bundle that was unpacked into it; see :func:`unpack`.

    What is there besides the files of a run, such as a database, is not looked at. Raises a BundleError if a file was
    altered, deleted or added, or what :func:`unpack` raises.
    """
    with reading(f"{folder} cannot be read", kind=BundleError):
        about = [folder / name for name in _ABOUT_FILES]
        paths = [path for path in (*about, *artifacts_root(folder).rglob("*")) if path.is_file()]
        with ThreadPoolExecutor() as pool:
            hashes = list(pool.map(file_sha256, paths))
        found = {
            path.relative_to(folder).as_posix(): bundle.BundledFile(path.stat().st_size, sha256)
            for path, sha256 in zip(paths, hashes, strict=True)
        }
    return _checked(folder, found, str(folder))


def submission_of(folder: Path, where: str) -> bundle.Submission:
    """Return what an unpacked bundle says of itself, with who signed it. `where` is its name in messages.

    The files are not compared with their hashes: see :func:`check_unpacked`.

    Raises a BundleError if its submission.json is absent or damaged, or the signature is not valid.
    """
    signature = folder / bundle.SIGNATURE_FILE
    with reading(f"{bundle.SUBMISSION_FILE} of {where} cannot be read", kind=BundleError):
        content = (folder / bundle.SUBMISSION_FILE).read_bytes()
    found = bundle.read_submission(content, where)
    if not signature.exists():
        return found
    return replace(found, signed_by=bundle.signer_of(content, signature.read_bytes(), where))


def check_run_files(folder: Path, where: str) -> Plan:
    """Check the record, the plan and the failures of a submission. Return the plan.

    Raises a BundleError if one of them is damaged, has a value of another type, or tells of a machine.
    """
    with _of_a_run(f"{where}: {RECORD_FILE} is damaged"):
        record = RunFolder(folder).record()
    if record.plugin_files or record.log:
        raise BundleError(f"{where} names files of its submitter's machine, which no bundle needs.")
    if not set(record.environment) <= set(ENVIRONMENT) or not isinstance(record.grid.get("name"), str):
        raise BundleError(f"{where} has a record that prmcal did not write.")
    with _of_a_run(f"{where}: {PLAN_FILE} is damaged"), one_problem():
        plan = read_plan(folder, record.grid)
        _check_types(plan)
        # This fails for a number that is not finite.
        content_key(json.loads((folder / PLAN_FILE).read_bytes()))
        _check_once("cell", [cell.cell_id for cell in plan.cells])
        _check_once("data set", [f"{each.name}/{each.split}" for each in plan.datasets])
        for kind, plugins in plan.plugins.items():
            _check_once(kind, [each.name for each in plugins])
            if kind not in KINDS:
                raise ValueError(f"it has plugins of an unknown kind, {shown(kind)}")
        for job in plan.jobs:
            if job.key != job_key(job.refs):
                raise ValueError(f"it has a job, {shown(job.key)}, whose key is not that of its shards")
    with reading(f"{where}: {FAILURES_FILE} cannot be read", _ADVICE, BundleError), one_problem():
        TypeAdapter(dict[str, Failure]).validate_json((folder / FAILURES_FILE).read_bytes(), strict=True)
    return plan


@dataclass(frozen=True)
class _Parts:
    """The parts of a plan. They are checked again, because what is read can have values of other types."""

    __pydantic_config__: ClassVar[Any] = {
        "arbitrary_types_allowed": True,
        "revalidate_instances": "always",
        "strict": True,
    }
    cells: tuple[Cell, ...]
    plugins: Mapping[str, tuple[PlannedPlugin[Any], ...]]
    datasets: list[PlannedQuestions]
    questions: list[tuple[str, str | None, str | None, Level | None, str | None]]
    jobs: list[tuple[Labels, str, int]]
    model_seconds: list[Annotated[float, NUMBER]]


def _check_types(plan: Plan) -> None:
    TypeAdapter(_Parts).validate_python(
        _Parts(
            plan.cells,
            plan.plugins,
            [replace(each, questions=()) for each in plan.datasets],
            [astuple(question) for each in plan.datasets for question in each.questions],
            [(job.labels, job.shards[0].resource, job.shards[0].version) for job in plan.jobs],
            list((plan.model_seconds or {}).values()),
        )
    )
    for cell in plan.cells:
        if not cell.labels.llm or not cell.labels.dataset or cell.conditions or cell.variant:
            raise ValueError(f"it has the cell {shown(cell.cell_id)}, which no grid plans")


def _checked(folder: Path, found: Mapping[str, bundle.BundledFile], where: str) -> bundle.Submission:
    if bundle.SUBMISSION_FILE not in found:
        raise BundleError(f"{where} is not a bundle: it has no {bundle.SUBMISSION_FILE}.")
    for name, about in found.items():
        most = {bundle.SIGNATURE_FILE: _LARGEST_SIGNATURE}.get(name, _LARGEST_JSON)
        if not name.endswith((".parquet", ".safetensors")) and about.size > most:
            raise BundleError(f"{where}: {name} is too large to be read.")
    submission = submission_of(folder, where)
    listed = submission.files
    for name in sorted(set(listed) ^ (set(found) - {bundle.SUBMISSION_FILE, bundle.SIGNATURE_FILE})):
        problem = "lacks a file that its list has" if name in listed else "has a file that its list lacks"
        raise BundleError(f"{where} {problem}: {name}.")
    for name, about in listed.items():
        if replace(about, table=None) != found[name]:
            raise BundleError(f"{where}: {name} has other bytes than its list says.")
        if not name.endswith(_SUFFIXES):
            raise BundleError(f"{where} has a file of a kind that no run writes: {name}.")
    _check_artifacts(folder, listed, where)
    tables = [name for name in listed if name.endswith(".parquet")]
    digests = checked_digests([folder / name for name in tables], where)
    for name, digest in zip(tables, digests, strict=True):
        if digest != listed[name].table:
            raise BundleError(f"{where}: {name} does not have the rows and values that its list says.")
    return submission


def _check_artifacts(folder: Path, files: Mapping[str, bundle.BundledFile], where: str) -> None:
    """Check that the files, whose hashes are known to be right, are those of a run."""
    for name in _RUN_FILES:
        if name not in files:
            raise BundleError(f"{where} lacks the file {name}.")
    plan = check_run_files(folder, where)
    known = {artifact_folder(folder, shard.ref.kind, shard.ref.key) for shard in plan.shards()}
    artifacts: dict[Path, dict[str, tuple[int, str]]] = {}
    for name, about in files.items():
        if name not in _RUN_FILES:
            path = folder / name
            place = next((parent for parent in path.parents if parent in known), None)
            if place is None:
                raise BundleError(f"{where} has a file that its plan does not need: {name}.")
            artifacts.setdefault(place, {})[path.relative_to(place).as_posix()] = about.size, about.sha256
    for place, own in artifacts.items():
        artifact = f"{where}: {place.relative_to(folder).as_posix()}"
        if own.pop(MANIFEST_FILE, None) is None:
            raise BundleError(f"{artifact} has no manifest.")
        with reading(f"The manifest of {artifact} cannot be read", _ADVICE, BundleError), one_problem():
            content = (place / MANIFEST_FILE).read_bytes()
            manifest = MANIFEST.validate_json(content, strict=True)
        if manifest.files != own:
            raise BundleError(f"The manifest of {artifact} does not have its files.")
        for table in NEEDED.get(place.parent.name, ()):
            if f"{table}.parquet" not in own:
                raise BundleError(f"{artifact} lacks the table {table}. {_ADVICE}")


@contextmanager
def _of_a_run(message: str) -> Iterator[None]:
    """Replace the message for the owner of a run, who can run the grid again."""
    with reading(message, _ADVICE, BundleError):
        try:
            yield
        except RunError as error:
            raise error.__cause__ or error from None


def _check_once(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"it has the {what} {shown(twice)} twice")


ENVIRONMENT = ("prmcal_version", "packages", "hardware")
"""The parts of the environment of a run that a bundle has."""
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

    `names` are the home folder, the names of the host, and secrets of the environment.
    """

    def __init__(self, user: str = "", names: Sequence[str] = ()) -> None:
        own = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names]
        if user:
            name = re.escape(user)
            own.append(rf"[\\/]{name}(?=[\\/]|$)|(?<![\w.-]){name}(?=@)")
        self._patterns = [re.compile(each) for each in (*_PATHS, *own)]

    @classmethod
    def this(cls) -> Self:
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
    for text, place in dict(texts_in(content)).items():
        if found := machine.traces(text):
            raise BundleError(
                f"{name} would tell of this machine: {shown(found[0])} in '{place}'. Results belong to their "
                "arguments, so a bundle cannot change them. Give it a public name or a relative path in the grid file, "
                "and run the grid again: what is the same is not computed again. Or leave out the cells that need it, "
                "or include the value: --with-paths"
            )


def check_file(name: str, path: Path, machine: Machine) -> None:
    """Check that the text in a file of an artifact does not tell of a machine. Tables are not searched.

    Raises a BundleError as :func:`check_values` does.
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
