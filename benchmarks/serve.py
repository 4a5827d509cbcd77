"""Load test of `electra serve` on loopback, with many clients at once that each send many requests.

    python benchmarks/serve.py MODEL --clients 300 --requests 20

The server runs in a process of its own. Reports errors, requests per second, response times (p50, p99), and
the server's memory before and after each round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2 as httpx
import numpy as np

SUBJECTS = [
    "the cat",
    "a dog",
    "my old friend",
    "the man who lives next door",
    "our teacher",
    "the queen of the country",
]
VERBS = ["sees", "likes", "finds", "eats", "has always remembered", "draws"]
OBJECTS = [
    "the house",
    "a green apple",
    "the long road to the sea",
    "some bread",
    "an old book about the history of trains",
]


def sentence(rng: random.Random) -> str:
    parts = [f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}" for _ in range(rng.randint(1, 3))]
    return " and ".join(parts) + "."


async def client(base: httpx.AsyncClient, seed: int, requests: int, times: list[float], statuses: list[int]) -> None:
    rng = random.Random(seed)
    for _ in range(requests):
        path = rng.choice(["/detect", "/detect", "/embed"])
        began = time.perf_counter()
        response = await base.post(path, json={"texts": [sentence(rng)]})
        times.append(time.perf_counter() - began)
        statuses.append(response.status_code)


async def load(address: str, clients: int, requests: int) -> tuple[list[float], list[int], float]:
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    times: list[float] = []
    statuses: list[int] = []
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60) as base:
        began = time.perf_counter()
        await asyncio.gather(*(client(base, n, requests, times, statuses) for n in range(clients)))
        return times, statuses, time.perf_counter() - began


def memory(process: int) -> float:
    """Returns the resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--requests", type=int, default=20, help="requests of each client")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", default="1")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "electra", "serve", arguments.model]
    command += ["--port", "0", "--threads", arguments.threads]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(re.findall(r"http://\S+?(?=/ )", line)[0] for line in server.stdout if "http://" in line)
        asyncio.run(load(address, 10, 5))  # warm-up
        used = [memory(server.pid)]
        for turn in range(arguments.rounds):
            times, statuses, seconds = asyncio.run(load(address, arguments.clients, arguments.requests))
            used.append(memory(server.pid))
            errors = sum(status != 200 for status in statuses)
            p50, p99 = np.percentile(times, [50, 99])
            row = {
                "round": turn + 1, "clients": arguments.clients, "requests": len(statuses), "errors": errors,
                "requests_per_second": round(len(statuses) / seconds, 1),
                "p50_ms": round(1000 * p50, 1),
                "p99_ms": round(1000 * p99, 1), "memory_mib": round(used[-1], 1),
            }  # fmt: skip
            print(json.dumps(row))
        print(json.dumps({"memory_before_mib": round(used[0], 1)}))
        server.terminate()
        print(json.dumps({"exit_code": server.wait(40)}))


if __name__ == "__main__":
    main()
