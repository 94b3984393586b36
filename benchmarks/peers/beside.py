"""Repetitions of a task whose processes start together and wait for their turn, as on a GPU, where start-up takes long.

The first repetition plays everybody in every setting that makes sense, and counts each one's fastest; the later ones
play those settings alone. Nothing else runs while one is timed.
"""

import os
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from judge import fastest
from numpy.typing import NDArray
from peers import OURS, TITLES, settings
from trial import PATIENCE_S, FailedRunError, Started, Trial

if TYPE_CHECKING:
    from run import Bench

READY_S = 60.0  # that a process may take until it is at its gate
Final = NDArray[np.float32]


class Turns:
    """The runs of a task: started ahead, as many repetitions as there are cores for, and let go one by one."""

    def __init__(self, bench: "Bench", repetitions: int, python: Path, n_cores: int) -> None:
        self.bench, self.repetitions, self.python = bench, repetitions, python
        self.until_s = time.monotonic() + bench.seconds if bench.seconds < inf else inf
        choices = {peer: settings(peer, bench.task.model, "cuda") for peer in bench.peers}
        alternatives = [(peer, other) for peer in bench.peers for other in choices[peer][1:]]
        self.first = [(peer, choices[peer][0]) for peer in bench.peers] + alternatives
        self.n_peers = len(bench.peers)
        self.ahead = max(1, n_cores // len(self.first))
        self.waiting: dict[tuple[int, str, str], Started] = {}

    def open(self, turn: int, best: dict[str, str]) -> None:
        """Start the processes of this repetition and of some after it, and wait until all are at their gates."""
        if any(key[0] == turn for key in self.waiting):
            return
        for number in range(turn, min(turn + self.ahead, self.repetitions)):
            for peer, setting in [(peer, best[peer]) for peer in self.bench.peers] if best else self.first:
                self.waiting[number, peer, setting] = self._started(f"{number}-{len(self.waiting)}", peer, setting)
        for one in self.waiting.values():
            one.wait_until_ready(min(self.until_s, time.monotonic() + READY_S))

    def _started(self, place: str, peer: str, setting: str) -> Started:
        bench = self.bench
        others = bench.peer_rounds or bench.rounds
        rounds = bench.rounds if peer == OURS else others
        out = bench.folder / f"{bench.name}-{peer}-{place}.npy"
        keep = others if peer == OURS else 0
        return Started(
            self.python, peer, setting, bench.file, rounds, bench.threads, out, bench.device, keep, gate=True
        )

    def play(self, turn: int, peer: str, setting: str) -> tuple[Trial, Final]:
        """Let a process go, and wait for its end."""
        if not self.left_s():
            raise FailedRunError(f"no time was left for {TITLES[peer]}: give more --seconds")
        started = self.waiting.pop((turn, peer, setting))
        try:
            done, final = started.finish(min(PATIENCE_S, self.left_s()))
        finally:
            started.drop()
        self.bench.tell(done)
        return done, final

    def left_s(self) -> float:
        """Seconds until the time of the task is over."""
        return max(self.until_s - time.monotonic(), 0.0)

    def close(self, best: dict[str, str] | None = None) -> None:
        """End the processes that still wait, except those with the best settings."""
        for key in [key for key in self.waiting if best is None or best.get(key[1]) != key[2]]:
            self.waiting.pop(key).drop()


def alternate(
    bench: "Bench", repetitions: int, python: Path = Path(sys.executable), n_cores: int = 0
) -> Iterator[dict[str, Any]]:
    """Everybody in turn, so many times: all trials so far and how far apart the final models ended.

    Told once everybody has run, and after each repetition. Ends early when the time of the task is over.
    """
    turns = Turns(bench, repetitions, python, n_cores or len(os.sched_getaffinity(0)))
    try:
        yield from _repetitions(turns, bench)
    finally:
        turns.close()


def _repetitions(turns: Turns, bench: "Bench") -> Iterator[dict[str, Any]]:
    best: dict[str, str] = {}
    found: list[list[Trial]] = []
    finals: dict[str, Final] = {}
    for row in _first(turns, bench):
        best = {peer: done.setting for peer, (done, _) in row.items()}
        found = [[done for done, _ in row.values()]]
        finals = {peer: final for peer, (_, final) in row.items()}
        yield bench.compared(found, finals)
    turns.close(best)
    for turn in range(1, turns.repetitions):
        turns.open(turn, best)
        trials = []
        for peer in bench.in_turn(turn):
            try:
                done, finals[peer] = turns.play(turn, peer, best[peer])
                trials.append(done)
            except FailedRunError as error:
                if not turns.left_s():
                    print(f"repetition {turn + 1} was cut: {error}", flush=True)
                    return
                bench.drop(peer, str(error), found)
        found.append(trials)
        yield bench.compared(found, finals)


def _first(turns: Turns, bench: "Bench") -> Iterator[dict[str, tuple[Trial, Final]]]:
    """The first repetition: everybody's fastest run so far, once everybody has one."""
    tried: dict[tuple[str, str], tuple[Trial, Final]] = {}
    turns.open(0, {})
    for number, (peer, setting) in enumerate(turns.first, 1):
        if peer not in bench.peers:  # it failed in its first setting
            continue
        try:
            tried[peer, setting] = turns.play(0, peer, setting)
        except FailedRunError as error:
            if number <= turns.n_peers:
                bench.drop(peer, str(error), [])
            else:
                print(f"not with {setting}: {error}", flush=True)
        if number >= turns.n_peers:
            best = fastest([done for done, _ in tried.values()])
            yield {one: tried[one, best[one]] for one in bench.peers}
