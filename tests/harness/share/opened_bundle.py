"""An unpacked bundle that a forger changes: what can be computed again is, and all hashes are made to fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet

from prmcal.harness.execution.ending import Failure, write_failures
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job, Shard, job_key, shard_key
from prmcal.harness.jobs.parameters import MeasuringParameters, Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan, write_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store, content_key, seed_from_key
from prmcal.harness.verify.subject import Subject
from prmcal.harness.verify.tiers import recomputed_shards
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import content_hash

__all__ = ["TEST", "Altered", "Opened", "with_parameters"]

TEST = "test"
Table = Callable[[pd.DataFrame], pd.DataFrame]
Altered = tuple[Mapping[str, Any], Parameters]


class Opened:
    """A folder that is forged: its plan, and its tables."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, Store(folder)
        record = RunFolder(folder).record()
        self.grid = record.grid
        self.plan: Plan = read_plan(folder, record.grid)

    def shards(self, kind: str, split: str = TEST) -> list[Shard[Parameters]]:
        """The shards of a kind about a split."""
        shards = self.plan.shards()
        return [each for each in shards if each.ref.kind == kind and each.parameters.data.split == split]

    def read(self, ref: ArtifactRef, table: str) -> pd.DataFrame:
        return self.store.read(ref, table).to_pandas()

    def change(self, kind: str, table: str, change: Table, split: str = TEST) -> None:
        """Change a table of all artifacts of a kind, and make their manifests fit."""
        for shard in self.shards(kind, split):
            path = self.store.folder(shard.ref) / f"{table}.parquet"
            before = parquet.read_table(path)
            changed = change(before.to_pandas())
            parquet.write_table(pa.Table.from_pandas(changed, before.schema, preserve_index=False), path)
            self.seal(shard.ref)

    def lose(self, kind: str) -> None:
        """Delete all artifacts of a kind, and say that they failed."""
        lost = self.shards(kind)
        for shard in lost:
            shutil.rmtree(self.store.folder(shard.ref))
        write_failures(self.folder, {shard.ref.key: Failure("It failed") for shard in lost})

    def seal(self, ref: ArtifactRef) -> None:
        """Write the manifest of an artifact for the files that it has now."""
        manifest = self.store.manifest(ref, verify=False)
        figures = json.loads((self.store.folder(ref) / "artifact.json").read_text())
        del figures["files"], manifest
        folder = self.store.folder(ref)
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "artifact.json"}

        def fill(target: Path) -> None:
            for name, content in files.items():
                (target / name).write_bytes(content)

        self.store.write(ref, fill, figures)

    def recompute(self) -> None:
        """Compute everything again that needs no model."""
        context = self.context()
        for shard in recomputed_shards(Subject(self.folder)):
            output = compute(shard, context)

            def fill(target: Path, output: Any = output) -> None:
                for name, frame in output.tables.items():
                    table = pa.Table.from_pandas(frame, preserve_index=False)
                    parquet.write_table(table, target / f"{name}.parquet")

            self.store.write(shard.ref, fill, {"seconds": 0.1})

    def context(self) -> Context:
        """What shards are computed with: the questions are those of the plan."""
        questions = {(each.name, each.split): each.questions for each in self.plan.datasets}
        return Context(self.store, questions=questions)

    def save(self, plan: Plan, texts: bool = True) -> None:
        """Replace the plan."""
        write_plan(self.folder, self.grid, plan, texts)
        self.plan = plan

    def rekey(self, alter: Callable[[Shard[Parameters]], Altered], plan: Plan | None = None) -> None:
        """Give every shard another identity and other parameters, new keys that fit, and move its artifact there."""
        moved: dict[ArtifactRef, ArtifactRef] = {}
        jobs: dict[str, Job[Parameters]] = {}
        for job in self.plan.jobs:
            shards = []
            for shard in job.shards:
                identity, parameters = alter(shard)
                inputs = {role: tuple(moved[ref] for ref in refs) for role, refs in shard.inputs.items()}
                key = shard_key(shard.ref.kind, shard.version, identity, inputs)
                moved[shard.ref] = ArtifactRef(shard.ref.kind, key)
                shards.append(
                    replace(
                        shard, ref=moved[shard.ref], identity=identity, parameters=parameters, inputs=inputs
                    )
                )
            sources = tuple(jobs[source.key] for source in job.inputs)
            jobs[job.key] = Job(job_key([each.ref for each in shards]), job.labels, tuple(shards), sources)
        for old, new in moved.items():
            if self.store.folder(old).exists() and old != new:
                self.store.folder(old).rename(self.store.folder(new))
        cells = tuple(replace(cell, job=jobs[cell.job.key]) for cell in self.plan.cells)
        seconds = {new: (self.plan.model_seconds or {}).get(old, 0.0) for old, new in moved.items()}
        changed = plan or self.plan
        self.save(
            Plan(
                tuple(jobs.values()),
                cells,
                changed.plugins,
                changed.datasets,
                changed.metrics,
                model_seconds=seconds,
            )
        )

    def ask(self, split: str, questions: Mapping[int, Question]) -> None:
        """Let a split have only some of its questions, by their positions, perhaps with another content."""
        (old,) = (each for each in self.plan.datasets if each.split == split)
        kept = tuple(questions[place] for place in sorted(questions))
        places = sorted(questions)
        planned = replace(old, questions=kept, content_hash=content_hash(kept))
        datasets = tuple(planned if each is old else each for each in self.plan.datasets)

        def alter(shard: Shard[Parameters]) -> Altered:
            given, identity = shard.parameters, dict(shard.identity)
            if given.data.split != split:
                return identity, given
            asked = [new for new, place in enumerate(places) if place in given.data.questions]
            data = replace(given.data, questions=range(asked[0], asked[-1] + 1))
            if "data" in identity:
                own = content_hash(kept[asked[0] : asked[-1] + 1])
                identity["data"] = {**identity["data"], "questions": own}
                if isinstance(given, MeasuringParameters):
                    bootstrap = replace(given.bootstrap, seed=seed_from_key(content_key([own])))
                    identity["bootstrap"] = asdict(bootstrap)
                    return identity, with_parameters(given, data=data, bootstrap=bootstrap)
            return identity, with_parameters(given, data=data)

        self.rekey(alter, replace(self.plan, datasets=datasets))


def with_parameters(parameters: Any, **changes: Any) -> Parameters:
    """Parameters with other values of some fields. Their base is no dataclass."""
    changed: Parameters = replace(parameters, **changes)
    return changed
