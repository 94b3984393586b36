"""What policies by representativity may look up that no server could: present gradients, and errors of estimates.

Not a method itself: it has no `build`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...learn.optimiser import Optimiser
from ...learn.work import Work
from ...solve import facility
from ...types import Floats, Ints, Observation, Problem, Round, Start, Store, Updates
from ..parts.contributions import rows_of
from ..parts.defaults import mean_update, rate, setting, steps_of
from .memory import Memory, blank, heard, shares

WATCHED = 0  # the device whose estimates are judged
BATCHES = (4, 8, 16)  # sizes of the batches of its estimates
APART = 10**9  # estimates draw their batches in rounds of their own


class Errors(NamedTuple):
    """Errors of the last round; those that the settings do not ask for stay 0."""

    previous: float = 0.0  # |last heard - present| of the watched device
    batches: tuple[float, ...] = (0.0,) * len(BATCHES)  # |gradient of small batches - present|
    size: float = 0.0  # |present|
    gap_square: float = 0.0  # |step of everyone - step taken|^2, over lr^2
    gap_ideal_square: float = 0.0  # the same with the weights of present gradients, at most error_mean_true^2
    error_mean_true: float = 0.0  # H(S) / K of present gradients
    everyone: bool = False  # whether the last three were looked up
    watched: bool = True  # whether the others were: the watched device held data

    def columns(self) -> dict[str, float]:
        found = {"estimate_previous": self.previous, "gradient_norm": self.size}
        found |= {f"estimate_batch{batch}": value for batch, value in zip(BATCHES, self.batches, strict=True)}
        found = found if self.watched else {}
        more = {name: getattr(self, name) for name in ("gap_square", "gap_ideal_square", "error_mean_true")}
        return found | more if self.everyone else found


def everyone(
    config: Any,
    problem: Problem,
    params: Tensor,
    store: Store,
    round: int,
    device: Ints | None = None,
    batch_size: int | None = None,
) -> Updates:
    """Train all devices that hold data, or those of `device` that do, and return the updates."""
    device = np.flatnonzero(store.size > 0) if device is None else device[store.size[device] > 0]
    work = Work(
        device=device,
        store=store.of(device),
        steps=local_steps(config, problem, store, device),
        lr=rate(config, problem, round % APART if round >= 0 else 0),
        batch_size=int(setting(config, problem, "batch_size") if batch_size is None else batch_size),
        round=round,
        momentum=setting(config, problem, "momentum"),
        optimiser=Optimiser.of(problem.train),
        augment=problem.train.augment != "none",
    )
    if not len(device):
        return Updates(device, params.new_zeros((0, len(params))))
    return problem.learner.train(Start(params[None], np.zeros(len(device), dtype=np.int64)), work)


def local_steps(config: Any, problem: Problem, store: Store, device: Ints) -> Ints:
    """Local steps of some devices, `[n_rows]`; `store` is that of all devices."""
    return np.full(len(store.size), steps_of(config, problem, store), dtype=np.int64)[device]


def estimates(
    config: Any, problem: Problem, params: Tensor, observation: Observation, batch: int, device: Ints | None = None
) -> Updates:
    """Like `everyone`, with small batches drawn anew. Reference: chen-ch3, section 3.3 (E-MBG)"""
    return everyone(config, problem, params, observation.store, APART + observation.round, device, batch)


def measure(config: Any, problem: Problem, memory: Memory, params: Tensor, played: Round, share: Floats) -> Errors:
    """Errors of this round, whose step was taken with the weights `share`, from the memory before it.

    Reference: chen-ch3, Fig. 3.2 and section 4.2
    """
    seen, lr = played.observation, rate(config, problem, played.observation.round)
    whom = None if config.diagnose == "all" else np.array([WATCHED])
    present = everyone(config, problem, params, seen.store, seen.round, whom)
    errors = Errors(watched=False)
    if len(present.device) and present.device[0] == WATCHED:
        errors = _of_estimates(config, problem, memory, params, seen, present.delta[0] / -lr)
    if whom is not None or not len(present.device):
        return errors
    return _of_the_step(errors, lr, len(memory.norm), present, played, share)


def _of_estimates(
    config: Any, problem: Problem, memory: Memory, params: Tensor, seen: Observation, true: Tensor
) -> Errors:
    """Errors of the estimates of the watched device, whose present gradient is `true`."""
    watched, lr = np.array([WATCHED]), rate(config, problem, seen.round)
    rough = [estimates(config, problem, params, seen, batch, watched).delta[0] / -lr for batch in BATCHES]
    last = rows_of(memory.kept, watched, params)[0]
    apart = torch.stack([true, true - last, *(true - one for one in rough)])
    size, previous, *batches = torch.linalg.vector_norm(apart, dim=1).tolist()
    return Errors(previous, tuple(batches), size)


def _of_the_step(errors: Errors, lr: float, n_devices: int, present: Updates, played: Round, share: Floats) -> Errors:
    """`|g_t - g~_t|^2` of the step taken, and what the devices heard miss of present gradients."""
    device, rows = played.received()
    n, zero = len(present.device), torch.zeros_like(present.delta[0])
    steps = np.ones(n, dtype=np.int64)
    true = heard(blank(n_devices, len(zero)), present.device, present.delta, steps, lr)
    full = mean_update(zero, np.full(n, 1 / n), present.delta)

    def gap_square(weights: Floats) -> float:
        return float((full - mean_update(zero, weights, rows)).double().square().sum()) / lr**2

    return errors._replace(
        gap_square=gap_square(share),
        gap_ideal_square=gap_square(shares(true, played.observation, device)),
        error_mean_true=facility.cost(true.distance[present.device], device) / n,
        everyone=True,
    )
