"""How long it takes to list many recorded runs: 1,000 runs of 200 rounds, and the same killed before their end.

    python benchmarks/records.py [--runs 1000] [--rounds 200] [--folder DIR]

Times are the best of several, in seconds. `command` is a new process, with the start of Python.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from many_runs import make_runs

from fedcell.record.folder import STATUS
from fedcell.record.index import find

BAR_S = 1.0  # to list 1,000 runs of 200 rounds


def best_s(work: Callable[[], Any], tries: int = 3) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(tries):
        begun_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun_s)
    return min(times)


def command(*arguments: str) -> None:
    """A fedcell command in a process of its own."""
    subprocess.run([sys.executable, "-m", "fedcell", *arguments], check=True, stdout=subprocess.DEVNULL)


def measure(folder: Path, n_runs: int, n_rounds: int) -> None:
    """Make the folder and print what reading it takes."""
    begun_s = time.perf_counter()
    runs = make_runs(folder, n_runs, n_rounds)
    print(f"{n_runs} runs of {n_rounds} rounds, made in {time.perf_counter() - begun_s:.1f} s (bar to list: {BAR_S} s)")
    print(f"find                   {best_s(lambda: find(folder)):8.3f}")
    print(f"command show           {best_s(lambda: command('show', str(folder))):8.3f}")
    print(f"command show --json    {best_s(lambda: command('show', str(folder), '--json')):8.3f}")
    if compare := comparison():
        print(f"command compare        {best_s(lambda: command('compare', str(folder), *compare), 1):8.3f}")
        figure = [*compare, "--figure", str(folder / "figure.pdf")]
        print(f"... --figure           {best_s(lambda: command('compare', str(folder), *figure), 1):8.3f}")
    for run in runs:
        (run / STATUS).unlink()
    print(f"find, all killed       {best_s(lambda: find(folder)):8.3f}")


def comparison() -> list[str]:
    """The flags to compare with, if there is such a command."""
    listed = subprocess.run([sys.executable, "-m", "fedcell", "--help"], capture_output=True, text=True, check=True)
    return ["--json"] if "\n    compare" in listed.stdout else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the runs here; without it they are thrown away")
    options = parser.parse_args()
    if options.folder:
        measure(options.folder, options.runs, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as place:
            measure(Path(place), options.runs, options.rounds)
