"""pfl's CIFAR-10 benchmark at its published length: 1,500 rounds of task b in fedcell, evaluated every 10.

    python benchmarks/peers/published.py --device cuda [--write] [--results FILE]

Images are made up in the shape of CIFAR-10, 10,000 of them for tests, and the network lacks the two dropout layers of
the original, as in task b. The time is that of the whole process: imports, data, all rounds and evaluations.
`--write` stores it in benchmarks/peers/published.json and shows it on docs/performance.md; `--results` stores it
elsewhere.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import environments
import page
import run
import tasks
from trial import PATIENCE_S, FailedRunError, Started

TASK, ROUNDS, EVERY, TESTED = "b", 1500, 10, 10_000


def timed(asked: argparse.Namespace) -> dict[str, Any]:
    """Play it in a process of its own."""
    path = tasks.store(TASK, asked.folder / "tasks", tasks.TASKS[TASK].rounds)
    setting, out = f"eval_every={EVERY} test={TESTED}", asked.folder / "published.npy"
    begun_s = time.perf_counter()
    started = Started(
        Path(sys.executable), "fedcell", setting, path, asked.rounds, asked.threads, out, asked.device, gate=True
    )
    try:
        trial, _ = started.finish(asked.seconds)
    except FailedRunError as error:
        raise SystemExit(str(error)) from None
    finally:
        started.drop()
    quiet = [second for number, second in enumerate(trial.round_s, 1) if number % EVERY and number > 1]
    evaluated = [second for number, second in enumerate(trial.round_s, 1) if number % EVERY == 0]
    return {
        "rounds": asked.rounds,
        "eval_every": EVERY,
        "tested": TESTED,
        "whole_s": time.perf_counter() - begun_s,
        "startup_s": trial.startup_s,
        "first_s": trial.round_s[0],
        "round_s": median(quiet),
        "evaluated_s": median(evaluated),
        "peak_byte": trial.peak_byte,
        "gpu": run.gpu_name() if asked.device == "cuda" else "",
        "machine": run.machine(asked.revision),
        "versions": environments.versions_here(),
        "measured": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=run.FOLDER)
    parser.add_argument("--seconds", type=float, default=PATIENCE_S, help="after which it is given up")
    parser.add_argument("--results", type=Path, help="file to store the numbers in")
    parser.add_argument("--revision", default="", help="commit that is measured, where git cannot say")
    parser.add_argument("--write", action="store_true", help="store the numbers and rewrite docs/performance.md")
    asked = parser.parse_args()
    if asked.rounds < 2 * EVERY:
        parser.error(f"give {2 * EVERY} --rounds at least, so that some are evaluated")
    found = timed(asked)
    if asked.write or asked.results:
        (asked.results or page.PUBLISHED).write_text(json.dumps(found, indent=1) + "\n")
    print(page.published(found))
    if asked.write:
        page.write()


if __name__ == "__main__":
    main()
