"""A merged leaderboard is published: its site, its exports, and the files of a results repository."""

from pathlib import Path

from prmcal import __version__
from prmcal.db.catalog import is_merged, submissions
from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError, StorageError
from prmcal.harness.site.every_eval_ever import Records
from prmcal.harness.site.writer import write_site
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import storage_errors
from prmcal.harness.storage.written import WrittenFolder, write_text
from prmcal.registry.messages import excerpt

_MARK = "prmcal.json"
_TEMPLATE = Path(__file__).with_name("template")
_FILES = {
    "README.md": "README.md",
    ".github/workflows/verify.yml": "verify.yml",
    ".github/workflows/publish.yml": "publish.yml",
}
_FOLDERS = ("submissions", "verifications", "wheels")
_IGNORED = ("/candidates/", "/every-eval-ever/", "/leaderboard/", "/records/", "/site/")


def publish(
    directory: Path,
    site: Path | None = None,
    every_eval_ever: Path | None = None,
) -> list[str]:
    """Write the site of a merged leaderboard, and its exports. Return a sentence for each folder that was written.

    What was in the folders is replaced. Raises a PrmcalError if the folder is not a merged leaderboard, or nothing is
    asked for. Raises a DatabaseError if the database cannot be read. Raises a StorageError if a folder holds other
    files, or cannot be written. What was in it stays.
    """
    published = RunFolder(directory).results()
    if not is_merged(published):
        raise PrmcalError(
            f"{directory} is the folder of a run. Merge it first: `prmcal merge MERGED {directory}`. "
            f"`prmcal export {directory} --html SITE` writes the site of a single run."
        )
    if not (site or every_eval_ever):
        raise PrmcalError("There is nothing to write. Give --html or --every-eval-ever with a folder.")
    # Both folders are checked before anything is written.
    records = every_eval_ever and WrittenFolder(
        every_eval_ever, _MARK, "folder of records", "--every-eval-ever"
    )
    done = []
    if site:
        done.append(f"Wrote a site of {len(write_site([directory], site))} files to {site}.")
    if records:
        found = Records(published)
        files = records.replace(found.write, {"prmcal": found.prmcal_version})
        done.append(f"Wrote {counted(len(files) - 1, 'file')} for Every Eval Ever to {every_eval_ever}.")
    return done


def without_licence(directory: Path) -> list[str]:
    """Return the submissions of a merged leaderboard that have no licence: their ids and submitters."""
    return [
        f"{row['submission_id']} ({excerpt(row['submitter'] or 'run ' + row['run_id'])})"
        for row in submissions(RunFolder(directory).results()).to_dict("records")
        if not row["licence"]
    ]


def write_recipe(folder: Path) -> list[Path]:
    """Write the files of a results repository into a folder, which may be a repository already. Return their paths.

    Its other files stay as they are. Raises a StorageError if one of the files exists with another content. Nothing is
    written then.
    """
    texts = {
        target: (_TEMPLATE / name).read_text(encoding="utf-8").replace("@VERSION@", __version__)
        for target, name in _FILES.items()
    }
    texts[".gitignore"] = "".join(f"{each}\n" for each in _IGNORED)
    texts |= {f"{each}/.gitkeep": "" for each in _FOLDERS}
    with storage_errors(folder):
        for target, text in texts.items():
            file = folder / target
            if file.exists() and (not file.is_file() or file.read_text(encoding="utf-8") != text):
                raise StorageError(
                    f"{file} exists already with another content. Nothing was changed. Move it away first."
                )
        for target, text in texts.items():
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            write_text(folder / target, text)
    return [folder / target for target in sorted(texts)]
