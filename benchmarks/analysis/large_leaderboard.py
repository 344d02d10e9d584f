"""Leaderboards of thousands of cells, a third for calibration and two thirds for scaling: queries, pages and the site.

python -m benchmarks.analysis.large_leaderboard [CELLS [DIR]]

It prints the seconds of each step, by default for 5,000 cells. DIR is a folder for the database, which is kept and used
again; by default a temporary one. The parts in a browser need Playwright and Chromium.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from prmcal.db import catalog
from prmcal.db.metrics import RANKING_METRIC, Leaderboard, cell_id
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Base, Cell, Dataset, DescribedMetric, Job, Plugin, Run
from prmcal.db.writer import Writer
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.harness.site import write_site
from tools.screenshots import background_server

PRMS = tuple(f"prm-{number}" for number in range(4))
CALIBRATORS = ("uncalibrated", *(f"calibrator-{number}" for number in range(1, 15)))
DATASETS = ("math500", "aime")
OF_AN_LLM = 360
"""Cells of each LLM."""
PAGES = {"Overview": "", "Leaderboard": "leaderboard", "Leaderboard, Scaling": "leaderboard?table=Scaling"}
SHOWN = {"Overview": "[data-testid=stApp][data-test-script-state=notRunning] h1"}
ROWS = "[data-testid=stDataFrame] canvas"
# Clicks the head of a metric and waits until the rows are laid out.
SORT = """() => {
  const start = performance.now();
  const heads = [...document.querySelectorAll("#scaling th")];
  heads.find(head => head.textContent.includes("Accuracy")).click();
  document.querySelector("#scaling").getBoundingClientRect();
  return performance.now() - start;
}"""
STRATEGY, TARGETS = "best-of-n + IAS", (0.9, 0.99)
QUESTIONS = 100


def rows(llms: Sequence[str]) -> Iterator[Base]:
    """Yield the descriptions of the grid and its cells."""
    yield Run(
        run_id="run",
        grid_name="large",
        grid_key="k" * 24,
        grid="name: large\n",
        started_at=datetime(2026, 1, 2),
        status="done",
        prmcal_version="0",
        packages={},
        hardware={},
    )
    kinds = {
        "llm": llms,
        "prm": PRMS,
        "calibrator": CALIBRATORS,
        "dataset": DATASETS,
        "strategy": (STRATEGY,),
    }
    for kind, names in kinds.items():
        for place, name in enumerate(names):
            yield Plugin(kind=kind, name=name, plugin=name, arguments={}, identity={}, position=place)
    for place, metric in enumerate(built_in_metrics()):
        yield DescribedMetric(**asdict(metric), position=place)
    for dataset in DATASETS:
        yield Dataset(name=dataset, split="test", content_hash="h", questions=500, grader_version="1")
    yield Job(job_key="job", kind="calibration_metrics", split="test", parameters={}, status="done", shards=1)
    for llm, prm, calibrator, dataset in itertools.product(llms, PRMS, CALIBRATORS, DATASETS):
        here = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset}
        done = {"status": "done", "job_key": "job", **here}
        board = cell_id("calibration", llm, dataset, prm=prm, calibrator=calibrator)
        yield Cell(cell_id=board, leaderboard="calibration", **done)
        for target in TARGETS:
            where: dict[str, Any] = {"strategy": STRATEGY, "target": target, "level": 0.1}
            board = cell_id("scaling", llm, dataset, prm=prm, calibrator=calibrator, **where)
            yield Cell(cell_id=board, leaderboard="scaling", **where, **done)


def build(directory: Path, llms: Sequence[str]) -> None:
    """Write a published database with a value of each metric for each cell, and with all comparisons."""
    writer = Writer(database_path(directory))
    with writer.transaction() as transaction:
        transaction.record(list(rows(llms)))
    with engine_for(writer.path).begin() as connection:
        run = connection.exec_driver_sql
        run("SELECT setseed(0.5)")
        for metric in built_in_metrics():
            run(
                f"INSERT INTO results SELECT cell_id, '{metric.name}', NULL, v, v - 0.05, v + 0.05, 1000, 500 FROM "
                f"(SELECT cell_id, random() AS v FROM cells WHERE leaderboard = '{metric.leaderboard}')"
            )
            if metric.better is not None:
                run(
                    f"INSERT INTO comparisons SELECT a.leaderboard, '{metric.name}', a.cell_id, b.cell_id, 0.1, 0.0, "
                    "0.2, 0.01, abs(x.value - y.value) < 0.3, 500 FROM cells a JOIN cells b USING "
                    "(leaderboard, llm, prm, dataset) JOIN results x ON x.cell_id = a.cell_id AND x.metric = "
                    f"'{metric.name}' JOIN results y ON y.cell_id = b.cell_id AND y.metric = x.metric WHERE "
                    f"leaderboard = '{metric.leaderboard}' AND a.cell_id < b.cell_id"
                )
        run(
            "INSERT INTO question_results BY NAME SELECT cell_id, 'q' || q AS question_id, metric, "
            f"value + random() / 5 AS value FROM results CROSS JOIN range({QUESTIONS}) t(q) "
            f"WHERE metric = '{RANKING_METRIC}'"
        )
    writer.publish()


@contextmanager
def timed(title: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{title:<52}{time.perf_counter() - start:>8.2f} s", flush=True)


def measure_queries(published: Path) -> None:
    boards: tuple[Leaderboard, ...] = ("calibration", "scaling")
    for name in boards:
        with timed(f"query of the {name} leaderboard"):
            catalog.leaderboard(published, name)


def measure_pages(browser: Browser, address: str, visits: Sequence[str]) -> None:
    """Open the first pages as often as there are names of visits."""
    for visit in visits:
        for name, path in PAGES.items():
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(120_000)
            with timed(f"page {name}, {visit}"):
                page.goto(f"{address}/{path}")
                page.locator(SHOWN.get(name, ROWS)).first.wait_for()
            page.close()


def measure_site(browser: Browser, directory: Path, out: Path) -> None:
    """Write the site, open it, and sort its larger table."""
    with timed("writing the static site"):
        write_site([directory], out)
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    with timed("opening the site with both tables"):
        page.goto((out / "index.html").as_uri())
        page.locator("#scaling tbody tr").first.wait_for()
    seconds = page.evaluate(SORT) / 1000
    print(f"{'sorting the scaling table of the site':<52}{seconds:>8.2f} s")
    page.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        cells, directory = (
            int(sys.argv[1] if len(sys.argv) > 1 else 5000),
            Path(sys.argv[2] if len(sys.argv) > 2 else name),
        )
        published = published_path(directory)
        if not published.exists():
            with timed("writing the database"):
                build(directory, [f"llm-{number}" for number in range(cells // OF_AN_LLM)])
        measure_queries(published)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            with ExitStack() as stack:
                with timed("start of the server, until it answers"):
                    address = stack.enter_context(background_server(directory))
                measure_pages(browser, address, ("as the server starts", "second visit"))
            measure_site(browser, directory, Path(name) / "site")
            browser.close()


if __name__ == "__main__":
    main()
