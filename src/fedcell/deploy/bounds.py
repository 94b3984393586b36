"""Bounds on what the server takes from devices: length and direction of updates, weight of a device, who is left out.

Lengths are compared twice, as they are and per local step, and the smaller ratio counts: devices that were asked for
more steps send longer updates, and devices that were asked for few send longer ones per step. Needs no Flower.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
import torch

from ..types import Bools, Floats, Ints, Outcome, Round, Store, Tally
from .settings import FederationConfig
from .tasks import Answer, MessageError, Task, Vector

ROUNDS = 10  # that the running bound looks back on
FEW = 3  # devices; the median of fewer says little
SLACK = 1e-9  # of a sample, for rounding errors
AGREED = 0.2  # median cosine of devices with each other, below which they have no common direction


class Watched(NamedTuple):
    """What the server remembers of answers; part of every checkpoint."""

    norms: Floats  # [ROUNDS, 2], median length and length per step of the last rounds; 0: no round yet
    strikes: Ints  # [n_devices], refusals in a row


def nothing_seen(n_devices: int) -> Watched:
    """What the server remembers before the first round."""
    return Watched(np.zeros((ROUNDS, 2)), np.zeros(n_devices, dtype=np.int64))


def length(task: Task, update: Vector) -> Floats:
    """(length of an update, its length per local step), `[2]`; for the report of a model, its length twice."""
    norm = float(np.linalg.norm(update.astype(np.float64)))
    return np.array([norm, norm / (max(task.steps, 1) if task.report is None else 1)])


def ratio(found: Floats, usual: Floats) -> float:
    """The ratio of both lengths to the usual ones, whichever is smaller; 0 if there are no usual lengths yet."""
    return float((found / usual).min()) if (usual > 0).all() else 0.0


def against_others(found: Floats) -> list[float]:
    """The `ratio` of each row of `[n, 2]` lengths to the median of the other rows."""
    return [ratio(one, np.median(np.delete(found, row, axis=0), axis=0)) for row, one in enumerate(found)]


def refuse_rise(settings: FederationConfig, watched: Watched, task: Task, update: Vector) -> None:
    """Raise MessageError if an update is far longer than those of the last rounds."""
    found = length(task, update)
    times = ratio(found, watched.norms.max(axis=0))
    if times > settings.max_rise:
        raise MessageError(
            f"the update has length {found[0]:.3g}, {times:.3g} times that of the last rounds "
            f"(deploy.max_rise = {settings.max_rise:g})",
            "norm",
            found[0],
        )


def refuse_outliers(
    settings: FederationConfig, tasks: Sequence[Task], answers: Sequence[Answer]
) -> list[tuple[Answer, MessageError]]:
    """The answers of a round that are far longer than the others or point against them, and why each is refused."""
    of_device = {task.device: task for task in tasks}
    heard = [one for one in answers if one.update is not None]
    if len(heard) < FEW:
        return []
    found = np.array([length(of_device[one.device], one.update) for one in heard if one.update is not None])
    refused, others = [], []
    for row, (one, times) in enumerate(zip(heard, against_others(found), strict=True)):
        if times > settings.max_norm:
            text = (
                f"the update has length {found[row, 0]:.3g}, {times:.3g} times the median of the others "
                f"(deploy.max_norm = {settings.max_norm:g})"
            )
            refused.append((one, MessageError(text, "norm", found[row, 0])))
        elif of_device[one.device].report is None:
            others.append(one)
    return refused + refuse_against(settings, others)


def refuse_against(settings: FederationConfig, heard: Sequence[Answer]) -> list[tuple[Answer, MessageError]]:
    """The answers that point against the others (three or more), if those have a direction in common."""
    if len(heard) <= FEW or settings.max_against >= 1:
        return []
    updates, refused = [one.update for one in heard if one.update is not None], []
    cosine = cosines(updates)
    for row in np.flatnonzero(cosine < -settings.max_against).tolist():
        agreed = float(np.median(cosines([*updates[:row], *updates[row + 1 :]])))
        if agreed >= AGREED:
            text = (
                f"the update points against the others, with cosine {cosine[row]:.2f} where they have {agreed:.2f} "
                f"among themselves (deploy.max_against = {settings.max_against:g})"
            )
            refused.append((heard[row], MessageError(text, "direction", float(cosine[row]))))
    return refused


def cosines(updates: Sequence[Vector]) -> Floats:
    """The cosine of each update with the sum of the directions of the others; 0 for an update of zeros.

    With `u_k` of length 1 and `s` their sum, `u_k (s - u_k) / |s - u_k|`.

    >>> cosines([np.array([2.0, 0.0]), np.array([3.0, 0.0]), np.array([-1.0, 0.0]), np.zeros(2)]).tolist()
    [0.0, 0.0, -1.0, 0.0]
    """

    def unit(one: Vector) -> Floats:
        wide = one.astype(np.float64)
        return wide / (float(np.linalg.norm(wide)) or 1.0)

    total = np.zeros(len(updates[0]))
    for one in updates:
        total += unit(one)
    found = []
    for one in updates:
        rest = total - unit(one)
        found.append(float(unit(one) @ rest) / (float(np.linalg.norm(rest)) or 1.0))
    return np.array(found)


def refuse_growth(settings: FederationConfig, counts: Ints, device: int, claimed: Ints) -> None:
    """Raise MessageError if a device reports far more samples than it did before, and than the others did.

    Args:
        settings: of the federation.
        counts: `[n_devices, n_classes]`, what devices reported before; 0: nothing yet.
        device: number of the device that reports.
        claimed: `[n_classes]`, what it reports now.
    """
    size = counts.sum(axis=1)
    if not size[device]:
        return
    others = np.delete(size, device)
    usual = max(float(size[device]), float(np.median(others[others > 0])) if (others > 0).any() else 0.0)
    if claimed.sum() > settings.max_growth * usual:
        raise MessageError(
            f"the device says it holds {claimed.sum()} samples after {size[device]} (deploy.max_growth = "
            f"{settings.max_growth:g})",
            "samples",
            float(claimed.sum()),
        )


def capped(store: Store, devices: Ints, most: float) -> Store:
    """Scale down what some devices hold, so that none has more than the share `most` of their samples.

    With `L` the size such that `L = most * sum_k min(size_k, L)`, larger stores count as `floor(L)`, at least 1, with
    the samples of each label rounded by largest remainders. Fewer than three devices stay unchanged.

    >>> capped(Tally(np.array([[90, 0], [3, 2], [0, 5]]), np.array([90, 5, 5])), np.arange(3), 0.5).size.tolist()
    [10, 5, 5]
    """
    most = max(most, 1 / max(len(devices), 1))
    size = store.size[devices].astype(np.float64)
    if len(devices) < FEW or size.max() <= most * size.sum():
        return store
    limit = max(level(size, most), 1.0)
    items, sizes = store.items.copy(), store.size.copy()
    for device in devices[size > limit]:
        items[device] = scaled_to(items[device], limit)
        sizes[device] = items[device].sum()
    return Tally(items, sizes)


def scaled_to(counts: Ints, limit: float) -> Ints:
    """Counts in the same proportions that add up to `floor(limit)`: rounded down, and up for the largest remainders.

    >>> scaled_to(np.array([5, 3, 0, 1]), 4.5).tolist()
    [3, 1, 0, 0]
    """
    share = counts * (limit / counts.sum())
    found = np.floor(share + SLACK).astype(np.int64)
    lacking = max(int(limit + SLACK) - int(found.sum()), 0)
    found[np.argsort(found - share, kind="stable")[:lacking]] += 1
    return found


def shortened(sent: Round, most: float) -> Round:
    """Shorten long updates, so that none has more than the share `most` of the samples times lengths of all heard.

    Otherwise, among devices of equal weight and length, one that reverses its update and makes it eight times as long
    would decide the direction of the mean.
    """
    heard = sent.heard()
    if most >= 1 or len(heard) < FEW:
        return sent
    rows = sent.updates.delta.clone()
    place = np.searchsorted(sent.updates.device, heard)
    norms = torch.linalg.vector_norm(rows[place].double(), dim=1).cpu().numpy()
    pull = sent.observation.store.size[heard] * norms
    most = max(most, 1 / len(heard))
    if not pull.sum() or pull.max() <= most * pull.sum():
        return sent
    limit = level(pull, most)
    for row in np.flatnonzero(pull > limit):
        rows[place[row]] *= limit / pull[row]
    return sent._replace(updates=sent.updates._replace(rows=rows))


def held_back(sent: Round, tasks: Sequence[Task], most: float) -> Round:
    """Shorten updates that are longer than `most` times the median of the others to that length."""
    heard, of_device = sent.heard(), {task.device: task for task in tasks}
    if most == inf or len(heard) < FEW:
        return sent
    place = np.searchsorted(sent.updates.device, heard)
    rows = sent.updates.delta
    found = [length(of_device[int(k)], row.cpu().numpy()) for k, row in zip(heard, rows[place], strict=True)]
    times = np.array(against_others(np.array(found)))
    if times.max() <= most:
        return sent
    rows = rows.clone()
    for row in np.flatnonzero(times > most):
        rows[place[row]] *= most / times[row]
    return sent._replace(updates=sent.updates._replace(rows=rows))


def level(size: Floats, most: float) -> float:
    """Solve `L = most * sum_k min(size_k, L)` for the largest `L`; how far sizes are above it does not matter."""
    ordered = np.sort(size)
    for n_above in range(1, len(ordered)):
        below = ordered[: len(ordered) - n_above].sum()
        if most * n_above < 1 and (limit := most * below / (1 - most * n_above)) >= ordered[-n_above - 1]:
            return float(limit)
    return float(ordered[0])  # equal shares


def left_out(settings: FederationConfig, watched: Watched) -> Bools:
    """Devices that were refused too often, `[n_devices]`."""
    return np.asarray(watched.strikes >= settings.strikes) & (settings.strikes > 0)


def told_left_out(settings: FederationConfig, before: Watched, now: Watched) -> list[str]:
    """A sentence for every device that is left out from now on."""
    return [
        f"device {device} is left out from now on: it was refused {settings.strikes} times in a row"
        for device in np.flatnonzero(left_out(settings, now) & ~left_out(settings, before))
    ]


def after(watched: Watched, tasks: Sequence[Task], answers: Sequence[Answer]) -> Watched:
    """What to remember after a round: the median length of accepted updates, and how often each device was refused."""
    strikes, of_device = watched.strikes.copy(), {task.device: task for task in tasks}
    for one in answers:
        if one.outcome == Outcome.DELIVERED:
            strikes[one.device] = 0
        elif one.strike:
            strikes[one.device] += 1
    taken = [one for one in answers if one.outcome == Outcome.DELIVERED and one.update is not None]
    norms = watched.norms
    if taken:
        found = [length(of_device[one.device], one.update) for one in taken if one.update is not None]
        norms = np.concatenate([norms[1:], np.median(found, axis=0)[None]])
    return Watched(norms, strikes)
