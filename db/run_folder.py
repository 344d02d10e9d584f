"""The files of a run's output folder: their paths, and their content while a run writes to the folder.

DIR/run.lock                       held by the run that writes to the folder
DIR/run.json                       the grid and the plugin files of the latest run
DIR/plan.json                      the plan of the latest run
DIR/failures.json                  why shards of the latest run failed
DIR/run.log                        a line for each shard, with times, repeated requests, warnings and tracebacks
DIR/artifacts/<kind>/<key>/        the artifact of a shard of a job
DIR/checkpoints/<key>/             checkpoints of a long fit, until its artifact is there
DIR/workers/                       what the workers print, and what each does now; only during a run
DIR/results.duckdb                 the database, written by the run
DIR/leaderboard.duckdb             the published copy, which readers open
"""

import fcntl
from pathlib import Path

LOCK_FILE, RECORD_FILE, FAILURES_FILE, LOG_FILE = "run.lock", "run.json", "failures.json", "run.log"
PLAN_FILE = "plan.json"


def database_path(directory: Path) -> Path:
    """Return the path of the writer's database. It is complete, and locked during a transaction."""
    return directory / "results.duckdb"


def published_path(directory: Path) -> Path:
    """Return the path of the published copy. It is replaced as a whole and never changed in place."""
    return directory / "leaderboard.duckdb"


def artifacts_root(directory: Path) -> Path:
    """Return the folder of all artifacts."""
    return directory / "artifacts"


def artifact_folder(directory: Path, kind: str, key: str) -> Path:
    """Return the folder of the artifact of a shard, whether it exists or not."""
    return artifacts_root(directory) / kind / key


def checkpoints_root(directory: Path) -> Path:
    """Return the folder of all checkpoints."""
    return directory / "checkpoints"


def workers_folder(directory: Path) -> Path:
    """Return the folder of the workers' messages during a run, whether it exists or not."""
    return directory / "workers"


def is_running(directory: Path) -> bool:
    """Return whether a run holds the lock of the folder now."""
    try:
        with (directory / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def finished_artifacts(directory: Path, kind: str) -> set[str]:
    """Return the keys of the finished shards of one kind of job.

    An artifact is written under a temporary name that starts with a dot, and renamed when it is complete.
    """
    try:
        return {path.name for path in (artifacts_root(directory) / kind).iterdir() if not path.name.startswith(".")}
    except OSError:
        return set()
