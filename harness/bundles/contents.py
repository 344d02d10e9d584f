"""What a bundle has of an artifact, and what stays out.

Hidden states always stay out, because no metric reads them. The texts of trajectories and searches, and the fits that
change the PRM, stay out unless they are asked for. The manifest of an artifact lists what the bundle has of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.errors import RunError
from prmcal.harness.bundles.digests import HASHES, digest_of, table_digests, text_hashes
from prmcal.harness.bundles.format import BundledFile, TableDigest
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters, HiddenParameters, Parameters
from prmcal.harness.storage.store import MANIFEST_FILE, ArtifactRef, Manifest, Store, file_sha256

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Kept", "Wanted", "described", "intact_manifests", "kept_of"]

_TEXT = "text"
_HASHED = "trajectories.parquet"
_WITH_TEXT = (_HASHED, "searches.parquet")
_PARQUET = ".parquet"


@dataclass(frozen=True)
class Wanted:
    """The parts that a bundle has only if they are asked for.

    Attributes
    ----------
    texts : bool
        The texts of questions, trajectories and searches, and the reference answers.
    models : bool
        The fits that change the PRM.
    """

    texts: bool = False
    models: bool = False


@dataclass
class Kept:
    """What a bundle keeps of an artifact.

    Attributes
    ----------
    entries : dict of str to Path or bytes
        Its files by their names in the artifact, with the manifest.
    files : dict of str to BundledFile
        What the bundle says of them.
    left_out : dict of str to BundledFile
        The original files that are not in `files`, or lack columns there.
    """

    entries: dict[str, Path | bytes] = field(default_factory=dict)
    files: dict[str, BundledFile] = field(default_factory=dict)
    left_out: dict[str, BundledFile] = field(default_factory=dict)

    def add(self, name: str, content: Path | bytes, about: BundledFile) -> None:
        """Keep a file."""
        self.entries[name], self.files[name] = content, about


def intact_manifests(store: Store, refs: Iterable[ArtifactRef]) -> dict[ArtifactRef, Manifest]:
    """Return the manifests of the artifacts that a run has. Hashes are not compared.

    Parameters
    ----------
    store : Store
    refs : iterable of ArtifactRef
        Those that are absent as a whole are left out.

    Raises
    ------
    RunError
        If the files of an artifact are there, but are not those of its manifest.
    """
    wanted = list(refs)
    found = store.manifests(wanted, verify=False)
    for ref in wanted:
        folder = store.folder(ref.kind, ref.key)
        if ref not in found and folder.exists():
            raise _damaged(folder)
    return found


def kept_of(store: Store, shard: Shard[Parameters], manifest: Manifest, wanted: Wanted) -> Kept:
    """Return what a bundle keeps of an artifact.

    Raises
    ------
    RunError
        If a file of the artifact does not match its hash, or lacks the texts of the run.
    """
    kept = Kept()
    folder = store.folder(shard.ref.kind, shard.ref.key)
    whole = isinstance(shard.parameters, HiddenParameters) or (_changes_prm(shard) and not wanted.models)
    for name, (size, digest) in sorted(manifest.files.items()):
        path = folder / name
        if file_sha256(path) != digest:
            raise _damaged(folder)
        about = BundledFile(size, digest, table_digests(path) if path.suffix == _PARQUET else None)
        if whole:
            kept.left_out[name] = about
        elif name in _WITH_TEXT:
            _keep_table(kept, name, path, about, wanted.texts)
        else:
            kept.add(name, path, about)
    files = {name: (each.size, each.sha256) for name, each in kept.files.items()}
    text = json.dumps(asdict(replace(manifest, files=files)), sort_keys=True).encode()
    kept.add(MANIFEST_FILE, text, described(text))
    return kept


def described(content: bytes, table: TableDigest | None = None) -> BundledFile:
    """Return what a bundle says of a file with these bytes."""
    return BundledFile(len(content), sha256(content).hexdigest(), table)


def _damaged(folder: Path) -> RunError:
    return RunError(
        f"The artifact {folder} is damaged. Run the grid again with the same --out folder: `prmcal run` computes only "
        "this part again."
    )


def _changes_prm(shard: Shard[Parameters]) -> bool:
    """Tell whether a shard fits a calibrator that fine-tunes the PRM: only these read the trajectories."""
    return isinstance(shard.parameters, FitParameters) and "rollout" in shard.inputs


def _keep_table(kept: Kept, name: str, path: Path, about: BundledFile, texts: bool) -> None:
    """Keep a table that has texts: as it is, or without them. Keep the hashes of trajectories in any case."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    if _TEXT not in table.column_names:
        raise RunError(
            f"{path} has no texts, because it came with a bundle without them, and a new bundle needs their digests. "
            "Give others the bundle itself, or submit the folder of the run that measured it."
        )
    if name == _HASHED:
        _add_table(kept, HASHES + _PARQUET, text_hashes(table))
    if texts:
        kept.add(name, path, about)
        return
    assert about.table is not None
    columns = {column: digest for column, digest in about.table.columns.items() if column == _TEXT}
    kept.left_out[name] = replace(about, table=TableDigest(about.table.rows, columns))
    _add_table(kept, name, table.drop_columns([_TEXT]))


def _add_table(kept: Kept, name: str, table: pa.Table) -> None:
    """Keep a table that is written now, without compression, so that its bytes depend on few libraries."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="none")
    content = sink.getvalue().to_pybytes()
    kept.add(name, content, described(content, digest_of(table)))
