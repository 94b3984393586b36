"""Local training of width-pruned sub-models, in two forms that give the same updates up to rounding.

- `extract`: the kept entries become a small dense network, which is trained and put back. It costs what it keeps. A
  GPU pads the networks of a round to one of few shapes, so that it can train them together and replay recorded steps.
  If little is dropped, it uses masks instead.
- `mask`: the full network with its dropped entries zeroed, which stay as they are. All devices have one shape.
"""

from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor

from ...learn.architecture import Architecture
from ...learn.learner import Learner
from ...learn.work import Work, rows_of
from ...machine import for_each, precision
from ...types import Bools, Ints, Start, Updates
from .units import Units, cut, entry_masks, kept_units, load

SHARES = 16  # layers are padded to sixteenths of their units, the same share in all layers, so that shapes are few
WORTH = 1 / 3  # of the FLOPs, up to which a GPU trains padded networks at least as fast as full ones with masks (H200)


def train(learner: Learner, units: Units, start: Start, work: Work, form: str = "extract") -> Updates:
    """Local SGD of every row on its sub-model.

    Args:
        learner: data and engine.
        units: of the learner's network.
        start: full vectors; entries that a row drops count as zero while it trains.
        work: its `mask` `[n_rows, n_params]` is that of `entry_masks`; None trains full models.
        form: `extract` or `mask`; a learner whose devices train elsewhere always uses `mask`.

    Returns: full rows, zero for entries that were dropped.
    """
    if work.mask is None:
        return learner.train(start, work)
    extracted = train_one_by_one if work.mask.device.type == "cpu" else train_padded
    return learner.train_parts(start, work, None if form == "mask" else partial(extracted, learner, units))


# ---------------------------------------------------------------- one shape for all rows


def train_padded(learner: Learner, units: Units, start: Start, work: Work, worth: float = WORTH) -> Updates:
    """Train sub-models padded to one shape, wide enough for every row; padding units are zero and stay zero.

    If that shape has more than the share `worth` of the full network's FLOPs, train the full network with masks.
    """
    assert work.mask is not None
    masks = work.mask
    if not len(masks):
        return Updates(work.device, torch.zeros(masks.shape, device=masks.device))
    widths, wide = _widened(units, kept_units(units, masks))
    if load(units, np.array(widths))[1] > worth * load(units, np.array(units.sizes))[1]:
        return learner.train_parts(start, work)
    place = entry_masks(units, wide, masks.device).flatten().nonzero().squeeze(1)  # of all rows, each as many
    points = start.points[torch.from_numpy(start.of_row).to(masks.device)] * masks
    part = work._replace(mask=_taken(masks, place))
    if work.shift is not None:
        part = part._replace(shift=_taken(work.shift, place))
    small = learner.with_network(_network(units, widths, masks.device))
    moved = small.train(Start(_taken(points, place), np.arange(len(points))), part).delta
    delta = torch.zeros_like(points)
    delta.view(-1)[place] = moved.flatten()
    return Updates(work.device, delta)


def _widened(units: Units, keep: Bools) -> tuple[tuple[int, ...], Bools]:
    """Common widths of the layers, and for every row a mask of so many units: its kept ones, padded with others."""
    kept = units.split(keep)
    most = [int(part.sum(axis=1).max()) for part in kept]
    share = max((-(-n * SHARES // size) for n, size in zip(most, units.sizes, strict=True)), default=0)
    widths, parts = [], [np.zeros((len(keep), 0), dtype=bool)]
    for size, part in zip(units.sizes, kept, strict=True):
        widths.append(-(-size * share // SHARES))
        place = np.argsort(np.argsort(~part, axis=1, kind="stable"), axis=1)
        parts.append(place < widths[-1])
    return tuple(widths), np.concatenate(parts, axis=1)


@lru_cache(maxsize=32)
def _network(units: Units, widths: tuple[int, ...], device: torch.device) -> Architecture:
    return cut(units, widths, device)


def _taken(rows: Tensor, place: Tensor) -> Tensor:
    """The entries at `place` in the flattened matrix, as rows; every row must have equally many."""
    return rows.reshape(-1)[place].view(len(rows), -1)


# ---------------------------------------------------------------- each shape by itself


def train_one_by_one(learner: Learner, units: Units, start: Start, work: Work) -> Updates:
    """Train sub-models without padding: all rows together if they have one shape, else row by row, one per core."""
    assert work.mask is not None
    masks = work.mask
    delta = torch.zeros(masks.shape, device=masks.device)
    counts = units.counts(kept_units(units, masks))

    def train_group(rows: Ints) -> None:
        at, point = (torch.from_numpy(places).to(masks.device) for places in (rows, start.of_row[rows]))
        points = start.points[point][masks[at]].view(len(rows), -1)
        part = rows_of(work._replace(mask=None), rows)
        if part.shift is not None:
            part = part._replace(shift=part.shift[masks[at]].view(len(rows), -1))
        small = learner.with_network(cut(units, counts[rows[0]].tolist(), masks.device), once=True)
        moved = small.train(Start(points, np.arange(len(rows))), part).delta
        for row, line in zip(rows, moved, strict=True):
            delta[row].masked_scatter_(masks[row], line)

    groups = _groups(counts)
    with precision(learner.settings.tf32):
        if len(groups) > 1:  # rows of different shapes, one after the other on each core
            alone = np.argsort(-load(units, counts)[1], kind="stable")[:, None]
            for_each(train_group, alone, learner.settings.workers)
        else:
            for rows in groups:
                train_group(rows)
    return Updates(work.device, delta)


def _groups(counts: Ints) -> list[Ints]:
    """Rows whose sub-models have the same shape, which an engine can train together."""
    if not len(counts):
        return []
    _, group = np.unique(counts, axis=0, return_inverse=True)
    group = group.reshape(-1)
    return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]
