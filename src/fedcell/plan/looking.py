"""Whether what a method decides depends on what devices learn: found by playing rounds with several made-up updates.

Rows that differ show it. Rows that are equal do not prove the opposite, since made-up updates of any kind may happen to
leave the ranks of devices, by losses for example, as they are. So the numbers per device that a method remembers and
that differ with the updates are reversed, and the method decides again: if the decision differs, it looks at them.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..types import Decision, Method, Observation, Problem, Row
from .untrained import SCALES, play

PROBED_ROUNDS = 10  # losses are known once devices have had a turn
Path = tuple[int, ...]  # to a part of a state, by position in every tuple on the way
COSTLY = (
    "selected",
    "steps",
    "samples_per_step",
    "cpu_hz",
    "power_watt",
    "bandwidth_hz",
    "block",
    "payload_bit",
    "deadline_s",
    "round_s",
    "budget_joule",
    "download_bit",
)


def looks_at_updates(problem: Problem, method: Method, rounds: int = PROBED_ROUNDS) -> bool:
    """Whether costs or choices of a method depend on what devices send, seen in the first rounds.

    Plays one kind of update after the other, since states can be large.
    """
    spies = [_Spy(method) for _ in SCALES]
    spies[-1].others = spies[:-1]
    first: list[Row] = []
    for spy, purpose in zip(spies, SCALES, strict=True):
        rows = islice((row for row, _ in play(problem, spy.method(), purpose)), rounds)
        if not first:
            first = list(rows)
        # All of a row but its metrics, which are last.
        elif any(row[:-1] != before[:-1] or spy.looks for row, before in zip(rows, first, strict=True)):
            return True
    return False


class _Spy:
    """Record what a method knows about devices at each decision; the last spy compares, and tries other numbers."""

    def __init__(self, method: Method) -> None:
        self.plain = method
        self.seen: list[dict[Path, np.ndarray[Any, Any]]] = []  # at every decision
        self.others: list[_Spy] = []
        self.looks = False

    def method(self) -> Method:
        return self.plain._replace(decide=self.decide)

    def decide(self, problem: Problem, state: Any, observation: Observation) -> Decision:
        decision = self.plain.decide(problem, state, observation)
        self.seen.append(dict(_of_devices(state, len(observation.available))))
        if self.others and not self.looks and (learned := self._learned()):
            changed = _turned(state, learned)
            self.looks = not _cost_alike(decision, self.plain.decide(problem, changed, observation))
        return decision

    def _learned(self) -> set[Path]:
        """Paths of the state at which numbers of devices differ with the updates."""
        now = [one.seen[len(self.seen) - 1] for one in [*self.others, self]]
        return {path for path in now[0] if any(not _equal(now[0][path], one.get(path)) for one in now[1:])}


def _of_devices(tree: Any, n_devices: int, path: Path = ()) -> Iterator[tuple[Path, np.ndarray[Any, Any]]]:
    """The arrays in a state that have a number for every device, each with its path."""
    if isinstance(tree, tuple):
        for n, part in enumerate(tree):
            yield from _of_devices(part, n_devices, (*path, n))
    elif isinstance(tree, np.ndarray | torch.Tensor) and tuple(tree.shape) == (n_devices,):
        yield path, np.array(tree.cpu() if isinstance(tree, torch.Tensor) else tree)


def _turned(tree: Any, paths: set[Path], path: Path = ()) -> Any:
    """The state with the arrays at `paths` reversed."""
    if path in paths:
        return tree.flip(0) if isinstance(tree, torch.Tensor) else tree[::-1].copy()
    if not isinstance(tree, tuple):
        return tree
    parts = [_turned(part, paths, (*path, n)) for n, part in enumerate(tree)]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def _equal(a: Any, b: Any) -> bool:
    return b is not None and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _cost_alike(a: Decision, b: Decision) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in COSTLY)
