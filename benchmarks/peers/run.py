"""fedcell beside Flower, pfl, FedLab, FedJAX and a plain PyTorch loop: the same work, each in its own environment.

    python benchmarks/peers/run.py [--task c] [--peer pfl] [--repetitions 3] [--rounds 5] [--write]

Every framework trains the same clients from the same start on the same mini-batches, in a process of its own. First
each is tried once in every setting it has (processes, threads, layout of convolutions), and the fastest is remembered
in `--folder`; then all run in turn, each in that setting, and their final models are compared. `--write` stores the
numbers in benchmarks/peers/results.json and rewrites the tables of docs/performance.md; peers that take no part keep
their rows of an earlier day. `--append` adds repetitions to those that are stored. Environments are made if they are
missing; what cannot be installed is reported and left out.

`--device cuda` trains on a GPU: fedcell, the plain loop, and pfl if the interpreter that runs this has it, since
the pinned environments hold a PyTorch for CPUs. Its numbers are stored in benchmarks/peers/results-cuda.json, or in the
file named by `--results`. There the processes of a task start together, and each waits for its turn before its first
round; the first repetition has everybody in every setting, and the fastest counts. Where rounds of the others take
seconds, `--peer-rounds` lets them play fewer than fedcell: models are compared after as many. `--seconds` ends a task,
also inside a repetition, and `--revision` names the commit where git cannot. `--rehearse` does all this on a CPU.
Numbers of another machine are shown by `python benchmarks/peers/page.py` once its file lies there.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import beside
import environments
import judge
import numpy as np
import page
import tasks
import trial
from numpy.typing import NDArray
from peers import ON_GPU, OURS, TITLES, UNABLE, settings
from work import Stored

FOLDER = environments.ROOT / ".peers"


@dataclass
class Bench:
    """One task and who takes part in it."""

    name: str
    folder: Path
    rounds: int
    threads: int
    peers: list[str]
    refused: list[str]
    device: str = "cpu"
    seconds: float = inf  # for the repetitions of a task
    revision: str = ""  # of fedcell; empty: git knows
    peer_rounds: int = 0  # of all others; 0: as many
    together: bool = False  # whether the runs of a task start together, in this interpreter

    @property
    def task(self) -> tasks.Task:
        return tasks.TASKS[self.name]

    @property
    def file(self) -> Path:
        """The stored work."""
        return tasks.store(self.name, self.folder / "tasks", self.task.rounds)

    def run(self, peer: str, setting: str, rounds: int) -> tuple[trial.Trial, NDArray[np.float32]]:
        """One run, told as it ends."""
        out = self.folder / f"{self.name}-{peer}.npy"
        python = environments.interpreter(self.folder, peer)
        done, final = trial.run(python, peer, setting, self.file, rounds, self.threads, out)
        self.tell(done)
        return done, final

    def tell(self, done: trial.Trial) -> None:
        """A line on a run."""
        print(
            f"{self.name} {TITLES[done.peer]:18s} {done.setting:34s} {done.steady_s:9.4f} s a round   "
            f"start-up {done.startup_s:6.2f} s   {done.peak_byte / 2**20:7.0f} MiB   load {done.load_before:.1f}",
            flush=True,
        )

    def best(self, again: bool) -> dict[str, str]:
        """The fastest setting of everybody, from what was tried before or by trying."""
        file = self.folder / f"{self.name}-best.json"
        known: dict[str, str] = json.loads(file.read_text()) if file.exists() and not again else {}
        for peer in self.peers:
            choices = settings(peer, self.task.model)
            if len(choices) == 1:
                known[peer] = choices[0]
            elif known.get(peer) not in choices:
                known |= {peer: choices[0], **judge.fastest(self.tried(peer, choices))}
            file.write_text(json.dumps(known))
        return known

    def tried(self, peer: str, choices: list[str]) -> list[trial.Trial]:
        """A short run in every setting; one that a framework cannot run in is said."""
        found = []
        for choice in choices:
            try:
                found.append(self.run(peer, choice, min(self.rounds, max(3, self.task.rounds // 5)))[0])
            except trial.FailedRunError as error:
                print(f"not with {choice}: {error}", flush=True)
        return found

    def alternate(self, repetitions: int, best: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Everybody in turn, so many times: after each, all trials so far and how far apart the final models ended."""
        found: list[list[trial.Trial]] = []
        finals: dict[str, NDArray[np.float32]] = {}
        begun_s = time.monotonic()
        for turn in range(repetitions):
            if turn and time.monotonic() - begun_s > self.seconds:
                break
            row = []
            for peer in self.in_turn(turn):
                try:
                    done, finals[peer] = self.run(peer, best[peer], self.rounds)
                except trial.FailedRunError as error:
                    self.drop(peer, str(error), found)
                    continue
                row.append(done)
            found.append(row)
            yield self.compared(found, finals)

    def in_turn(self, turn: int) -> list[str]:
        """Everybody; another one begins in every turn, who finds the task's file on the disk, not in memory."""
        first = turn % len(self.peers)
        return self.peers[first:] + self.peers[:first]

    def compared(self, found: list[list[trial.Trial]], finals: dict[str, NDArray[np.float32]]) -> dict[str, Any]:
        """Trials and distances as they are stored."""
        start = Stored.read(self.file, samples=False).start
        apart = {peer: judge.distance(finals[peer], finals[OURS], start) for peer in self.peers}
        return {"repetitions": [[one._asdict() for one in row] for row in found], "distances": apart}

    def drop(self, peer: str, why: str, found: list[list[trial.Trial]]) -> None:
        """Go on without a peer whose run failed; without fedcell there is nothing to compare."""
        if peer == OURS:
            raise SystemExit(why)
        print(f"left out: {why}", flush=True)
        self.refused.append(why)
        self.peers.remove(peer)
        found[:] = [[one for one in row if one.peer != peer] for row in found]


def prepare_tasks(names: Iterable[str], folder: Path) -> None:
    """Write the work of several tasks at the same time."""
    command = [sys.executable, tasks.__file__]
    missing = [name for name in names if not tasks.path_of(name, folder, tasks.TASKS[name].rounds).exists()]
    writers = [subprocess.Popen([*command, name, str(folder)]) for name in missing]
    if failed := [name for name, one in zip(missing, writers, strict=True) if one.wait()]:
        raise SystemExit(f"the work of task {failed[0]} could not be written")


def revision() -> str:
    """The commit of fedcell that is measured, with a plus if files differ from it; empty if git cannot say."""
    command = ["git", "describe", "--always", "--dirty=+"]
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, cwd=environments.ROOT, capture_output=True, text=True).stdout.strip()


def machine(known: str = "") -> dict[str, Any]:
    """What the numbers were measured on; `known` is the commit where git cannot say."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    kib = int(Path("/proc/meminfo").read_text().split()[1])
    cores = len(os.sched_getaffinity(0))
    return {
        "processor": models[0] if models else "unknown processor",
        "cores": cores,
        "revision": known or revision(),
        "memory_gib": kib / 2**20,
        "python": platform.python_version(),
    }


def prepared(folder: Path, asked: list[str]) -> tuple[list[str], list[str]]:
    """(who can take part, why the others cannot)."""
    folder.mkdir(parents=True, exist_ok=True)
    peers, refused = [], []
    for name in environments.names():
        if name != OURS and asked and name not in asked:
            continue
        if why := environments.prepare(folder, name):
            print(f"left out: {why}", flush=True)
            refused.append(why)
        else:
            peers.append(name)
    if OURS not in peers:
        raise SystemExit("fedcell itself could not be installed: nothing to compare")
    return peers, refused


def on_this_gpu(folder: Path, asked: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """As `prepared`, for this interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    found = environments.here()
    wanted = [name for name in ON_GPU if name == OURS or not asked or name in asked]
    refused = [f"{TITLES[name]} is not installed beside this PyTorch" for name in wanted if name not in found]
    return [name for name in wanted if name in found], refused


def about(bench: Bench) -> dict[str, Any]:
    """Where and with what it was measured."""
    return {
        "rounds": bench.rounds,
        "threads": bench.threads,
        "refused": bench.refused,
        "machine": machine(bench.revision),
        "versions": {peer: versions(bench, peer) for peer in bench.peers},
        **({"peer_rounds": bench.peer_rounds} if bench.peer_rounds else {}),
        **({"together": True} if bench.together else {}),
        "gpu": gpu_name() if bench.device == "cuda" else "",
        "measured": time.strftime("%Y-%m-%d"),
    }


def versions(bench: Bench, peer: str) -> dict[str, str]:
    """Versions of what matters to a peer."""
    if bench.together:
        return environments.versions_here()
    return environments.versions(bench.folder, peer)


def gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name()


def appended(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """More repetitions of the same comparison; refuses others."""
    if before is None:
        return after
    sides = [
        (
            *(one.get(key) for key in ("rounds", "peer_rounds", "together", "threads", "versions")),
            sorted((t["peer"], t["setting"]) for t in one["repetitions"][0]),
        )
        for one in (before, after)
    ]
    if sides[0] != sides[1]:
        raise SystemExit(
            "the stored repetitions have other rounds, threads, versions, peers or settings: drop --append"
        )
    farthest = {peer: max(apart, before["distances"][peer]) for peer, apart in after["distances"].items()}
    return {**after, "repetitions": before["repetitions"] + after["repetitions"], "distances": farthest}


def kept(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """A measurement with the earlier ones of peers that it does not have, each beside fedcell as it was then."""
    if before is None:
        return after
    known, earlier = set(after["distances"]), list[dict[str, Any]]()
    for old in (before, *before.get("earlier", [])):
        if missing := set(old["distances"]) - known:
            earlier.append(restricted(old, {OURS, *missing}))
            known |= missing
    return {**after, "earlier": earlier} if earlier else after


def restricted(stored: dict[str, Any], peers: set[str]) -> dict[str, Any]:
    """A measurement of some peers alone."""
    own = {key: value for key, value in stored.items() if key != "earlier"}
    rows = [[one for one in row if one["peer"] in peers] for row in stored["repetitions"]]
    for key in ("distances", "versions"):
        own[key] = {peer: found for peer, found in stored[key].items() if peer in peers}
    return {**own, "repetitions": rows}


def report(name: str, stored: dict[str, Any]) -> None:
    """The table of a task on the terminal."""
    print("\n".join(page.section(name, stored)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(tasks.TASKS), action="append", help="repeatable; all by default")
    parser.add_argument("--peer", choices=[one for one in TITLES if one != OURS], action="append", help="repeatable")
    parser.add_argument("--repetitions", type=int, default=3, help="0 only looks for the fastest settings")
    parser.add_argument("--rounds", type=int, help="of every run; as many as the task has by default")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="environments, stored work, final models")
    parser.add_argument("--again", action="store_true", help="look for the fastest settings anew")
    parser.add_argument("--append", action="store_true", help="add to the stored repetitions (with --write)")
    parser.add_argument("--write", action="store_true", help="store the numbers and rewrite docs/performance.md")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: in this very interpreter")
    parser.add_argument("--rehearse", action="store_true", help="as on a GPU, but on a CPU (give --results)")
    parser.add_argument("--peer-rounds", type=int, default=0, help="of everybody but fedcell, on a GPU")
    parser.add_argument("--seconds", type=float, default=inf, help="of a task; on a GPU also inside a repetition")
    parser.add_argument("--results", type=Path, help="file to store the numbers in, without rewriting the pages")
    parser.add_argument("--revision", default="", help="commit that is measured, where git cannot say")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that a run's processes are ended with it
    together = asked.device == "cuda" or asked.rehearse
    if asked.peer_rounds and not together:
        sys.exit("--peer-rounds is for a GPU: drop it")
    names = asked.task or list(tasks.TASKS)
    for name in names:
        check_rounds(name, asked.rounds or tasks.TASKS[name].rounds, asked.peer_rounds)
    peers, refused = (on_this_gpu if together else prepared)(asked.folder, asked.peer or [])
    if together:
        prepare_tasks(names, asked.folder / "tasks")
    file = asked.results or (page.RESULTS_CUDA if together else page.RESULTS)
    for name in names:
        rounds = asked.rounds or tasks.TASKS[name].rounds
        able = [peer for peer in peers if tasks.TASKS[name].model not in UNABLE.get(peer, ())]
        bench = Bench(name, asked.folder, rounds, asked.threads, able, list(refused), asked.device)
        bench.seconds, bench.revision = asked.seconds, asked.revision
        bench.peer_rounds, bench.together = asked.peer_rounds, together
        compare(bench, file, asked)


def check_rounds(name: str, rounds: int, peer_rounds: int) -> None:
    """Refuse what the stored work of a task is too short for; fedcell draws its own."""
    most, played = tasks.TASKS[name].rounds, peer_rounds or rounds
    if not 2 <= played <= min(most, rounds):
        sys.exit(f"{played} rounds do not fit task {name}: give 2 to {min(most, rounds)}, the first warms up")


def compare(bench: Bench, file: Path, asked: argparse.Namespace) -> None:
    """Run a task, store it after every repetition, show it."""
    best = {} if bench.together else bench.best(asked.again)
    if not asked.repetitions:
        return
    results = json.loads(file.read_text()) if file.exists() else {}
    before, found = results.get(bench.name), dict[str, Any]()
    n = asked.repetitions
    for trials in beside.alternate(bench, n) if bench.together else bench.alternate(n, best):
        found = {**trials, **about(bench)}
        if asked.append:
            found = appended(before, found)
        if asked.write or asked.results:  # after every repetition, so that one that is stopped loses no other
            text = json.dumps({**results, bench.name: kept(before, found)}, indent=1) + "\n"
            half = file.with_suffix(".half")
            half.write_text(text)
            half.replace(file)
    if found:
        report(bench.name, found)
    if found and asked.write and not asked.results:
        page.write()


if __name__ == "__main__":
    main()
