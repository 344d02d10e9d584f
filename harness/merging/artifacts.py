"""The artifacts of all submissions in one folder, each content once and as complete as any submission has it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from prmcal.db.run_folder import artifacts_root
from prmcal.harness.merging.submissions.folder import verifications_root
from prmcal.harness.storage.store import MANIFEST_FILE, ArtifactRef, Manifest, Store, link_or_copy

__all__ = ["add_artifact", "recover"]

_OLD = "-replaced"


def add_artifact(store: Store, ref: ArtifactRef, files: Mapping[str, Path | bytes]) -> bool:
    """Add the files of an artifact to a store, in which a less complete form of the same content may be.

    Files are linked where this is possible, and copied elsewhere. The artifact is there as a whole or not at all. What
    it cost is that of the form with the fewest seconds, so that the result does not depend on the order.

    Parameters
    ----------
    store : Store
    ref : ArtifactRef
    files : mapping of str to Path or bytes
        The files by their names in the artifact, with its manifest.

    Returns
    -------
    bool
        Whether anything was added.

    Raises
    ------
    OSError
        If the disk is full or not writable. See :func:`prmcal.harness.storage.store.storage_errors`.
    """
    given = Manifest(**json.loads(_content(files[MANIFEST_FILE])))
    own = {name: source for name, source in files.items() if name != MANIFEST_FILE}
    target = store.folder(ref.kind, ref.key)
    known = store.manifest(ref.kind, ref.key, verify=False)
    if known is not None:
        better = {
            name: source
            for name, source in own.items()
            if name not in known.files or _has_more(source, given, target / name, known, name)
        }
        figures = min(known, given, key=_cost)
        if not better and _cost(figures) == _cost(known):
            return False
        own = {**{name: target / name for name in known.files}, **better}
        listed = {name: (given if name in better else known).files[name] for name in sorted(own)}
        manifest = replace(figures, files=listed)
    else:
        manifest = given
    _write(target, own, manifest)
    return known is None or bool(better)


def recover(directory: Path) -> None:
    """Bring back what a killed merge was about to replace, and delete what it left."""
    for old in artifacts_root(directory).glob(f"*/.*{_OLD}"):
        target = old.with_name(old.name[1 : -len(_OLD)])
        if target.exists():
            shutil.rmtree(old)
        else:
            old.rename(target)
    Store(directory).remove_leftovers()
    for leftover in verifications_root(directory).glob(".*.json.*"):
        leftover.unlink()


def _has_more(source: Path | bytes, given: Manifest, path: Path, known: Manifest, name: str) -> bool:
    """Return whether a file has columns that the one of the same content in the store lacks."""
    if given.files[name][1] == known.files[name][1] or path.suffix != ".parquet":
        return False
    return _columns(source) > _columns(path)


def _columns(source: Path | bytes) -> int:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    return len(parquet.read_schema(pa.BufferReader(source) if isinstance(source, bytes) else source).names)


def _cost(manifest: Manifest) -> tuple[float, ...]:
    return (
        manifest.seconds,
        manifest.size,
        manifest.samples,
        manifest.generated_tokens,
        manifest.scored_tokens,
        manifest.loading,
    )


def _write(target: Path, files: Mapping[str, Path | bytes], manifest: Manifest) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Its name begins with a dot, so that it is no artifact, and has a hyphen, so that it is deleted if it stays.
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, source in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, bytes):
                (fresh / name).write_bytes(source)
            else:
                link_or_copy(source, fresh / name)
        (fresh / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), sort_keys=True))
        fresh.chmod(0o755)
        if target.exists():
            old = target.with_name(f".{target.name}{_OLD}")
            target.rename(old)
            fresh.rename(target)
            shutil.rmtree(old)
        else:
            fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _content(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()
