"""Rows as devices encode them and the server decodes them, what they take on the air, and what is left on devices.

`coded` builds it into a method. Not a method itself: it has no `build`.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...coding import Coding, Payload
from ...learn.deferred import Deferred
from ...learn.memory import numbers
from ...rng import stream
from ...types import Decision, Floats, Ints, Observation, Problem, Rows, Updates
from .contributions import Contributions, row_of
from .resources import sending


class CodedState(NamedTuple):
    """The method's state, and what devices kept of their updates."""

    own: Any
    rest: Contributions | None  # [n_devices, n_kept], with what a coding remembers behind it; None without feedback


class CodedKept(NamedTuple):
    """What trained devices keep, of the method and of the coding."""

    own: Any
    rest: Tensor | None = None  # [n_rows, n_kept], u - C(u)
    whole: Tensor | None = None  # [n_rows, n_kept], u; for codings that send again what was lost


def planned(coding: Coding, problem: Problem) -> Problem:
    """The problem as the method sees it: an update takes the most bits that a payload can take."""
    bit = fitted(coding, problem).most_bit(problem.learner.n_params, problem.world.settings.bits_per_parameter)
    return sending(problem, bit + beside_bit(problem), problem.world.model_bit)


def fitted(coding: Coding, problem: Problem) -> Coding:
    """The coding for the network of a problem."""
    return coding.for_network(problem.learner.architectures[0].shapes)


def beside_bit(problem: Problem) -> float:
    """Bits of the running statistics that are sent beside a payload, as they are."""
    return max(problem.learner.n_sent - problem.learner.n_params, 0) * problem.world.settings.bits_per_parameter


def own_bit(coding: Coding, problem: Problem, decision: Decision) -> Floats:
    """Bits that the method itself has devices send beside their updates, such as a loss, `[n_devices]`."""
    return np.maximum(decision.payload_bit - planned(coding, problem).world.payload_bit, 0.0)


def encode(
    coding: Coding, problem: Problem, state: CodedState, updates: Updates, observation: Observation, decision: Decision
) -> Updates:
    """Encode updates: the rows as the server decodes them, their bits, and what devices keep.

    Rows that lie in memory together are decoded once, for the device and the server. Of a large cohort only payloads
    are in memory; its rows are decoded when asked for.
    """
    n, value_bit, n_rows = problem.learner.n_params, problem.world.settings.bits_per_parameter, len(updates.device)
    beside = beside_bit(problem) + own_bit(coding, problem, decision)
    coding = fitted(coding, problem)
    payloads, bit = np.empty(n_rows, dtype=object), np.zeros(n_rows)
    rest = _room(n_rows, coding.n_kept(n), problem) if coding.feedback else None
    whole = _room(n_rows, coding.n_kept(n), problem) if coding.keeps_lost else None
    rows = updates.rows
    found = None if isinstance(rows, Deferred) else torch.empty(n_rows, n, device=problem.learner.device)

    def look(rows: Ints, delta: Tensor) -> None:
        for row, line in zip(rows.tolist(), delta, strict=True):
            device = int(updates.device[row])
            before = None if state.rest is None else row_of(state.rest, device)
            u, payload = coding.send(line, before, stream(problem.seed, observation.round, f"coding {device}"))
            payloads[row], bit[row] = payload, coding.bits(payload, n, value_bit) + beside[device]
            got = coding.decode(payload, n) if rest is not None or found is not None else u
            if found is not None:
                found[row] = got
            if rest is not None:
                coding.keep(u, payload, got, out=rest[row])
            if rest is not None and whole is not None:
                whole[row], whole[row, :n] = rest[row], u

    if isinstance(rows, Deferred):
        rows.visit(look)
        sent: Tensor | Rows = rows.remade(partial(_decoded, coding, payloads, n, problem.learner.device))
    else:
        look(np.arange(n_rows), updates.delta)
        assert found is not None
        sent = found
    return updates._replace(rows=sent, kept=CodedKept(updates.kept, rest, whole), bit=bit)


def _room(n_rows: int, n: int, problem: Problem) -> Tensor:
    """Room for what devices keep, in a file if memory is short."""
    if problem.learner.device.type != "cpu":
        return torch.empty(n_rows, n, device=problem.learner.device)
    what = f"what {n_rows} devices did not send ({n_rows} x {n} parameters x 4)"
    return torch.from_numpy(numbers(n_rows * n, what)).view(n_rows, n)


def _decoded(coding: Coding, payloads: Any, n: int, device: torch.device, rows: Ints | None) -> Tensor:
    chosen: list[Payload] = list(payloads if rows is None else payloads[rows])
    found = torch.empty(len(chosen), n, device=device)
    for line, payload in zip(found, chosen, strict=True):
        line.copy_(coding.decode(payload, n))
    return found
