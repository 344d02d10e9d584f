"""`prmcal serve` under 32 clients, against one client, and against a server that scores one request at a time.

python -m benchmarks.models.serving [DIR]

DIR is the output folder of a run, by default that of `make demo`. Each request has one trajectory of a nano problem.
All ways score the same trajectories. They take turns, and the fastest of three rounds of each counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from prmcal.registry.nano.problems import generate_split, solution_steps

CLIENTS, REQUESTS, ROUNDS = 32, 256, 3
TIMEOUT = 600


@contextlib.contextmanager
def server(directory: Path, *options: str) -> Iterator[str]:
    """Start a server in a process of its own. Yield its address when its models are loaded."""
    command = [sys.executable, "-P", "-m", "prmcal", "serve", str(directory), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"at (http://\S+)\. ", process.stdout.readline())
            assert found, "the server did not start"
            while httpx2.get(f"{found.group(1)}/health").status_code != 200:
                time.sleep(0.1)
            yield found.group(1)
        finally:
            process.terminate()


async def scored(
    address: str, rows: Sequence[list[dict[str, Any]]], clients: int
) -> tuple[float, list[float]]:
    """Score each trajectory in a request of its own. Return the seconds, and the last reward of each trajectory."""
    waiting = iter(range(len(rows)))
    rewards = [0.0] * len(rows)
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx2.AsyncClient(timeout=TIMEOUT, limits=limits) as session:

        async def client() -> None:
            for place in waiting:
                reply = await session.post(f"{address}/pooling", json={"messages": rows[place]})
                rewards[place] = reply.json()["data"][0]["prmcal"]["uncalibrated"][-1]

        begun = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return time.perf_counter() - begun, rewards


def main(directory: str = "runs/demo") -> None:
    problems = generate_split("nano-math", "train", REQUESTS)
    rows = [
        [
            {"role": "user", "content": each.text},
            {"role": "assistant", "content": "\n\n".join(solution_steps(each))},
        ]
        for each in problems
    ]
    folder = Path(directory)
    with server(folder) as together, server(folder, "--batch", "1") as alone:
        ways = {
            f"{CLIENTS} clients": (together, CLIENTS),
            "one client after the other": (together, 1),
            f"{CLIENTS} clients, one request at a time": (alone, CLIENTS),
        }
        for address, clients in ways.values():
            asyncio.run(scored(address, rows[:CLIENTS], clients))
        seconds = dict.fromkeys(ways, float("inf"))
        rewards = {}
        for _ in range(ROUNDS):
            for way, (address, clients) in ways.items():
                spent, rewards[way] = asyncio.run(scored(address, rows, clients))
                seconds[way] = min(seconds[way], spent)
    first = f"{CLIENTS} clients"
    for way, spent in seconds.items():
        difference = np.abs(np.array(rewards[way]) - rewards[first]).max()
        print(
            f"{way:40}{REQUESTS / spent:8.1f} trajectories/s, {first} are {spent / seconds[first]:.1f} x, "
            f"largest difference of a reward {difference:.0e}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
