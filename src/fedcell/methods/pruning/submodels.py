"""Local training of width-pruned sub-models, in two forms that give the same updates up to rounding.

- `extract`: the kept entries become a small dense network, which is trained and put back. Costs what it keeps.
- `mask`: the full network with its dropped entries zeroed, which stay as they are. All devices have one shape.
"""

from functools import partial

import numpy as np
import torch

from ...learn.learner import Learner, precision
from ...learn.work import Work, rows_of
from ...machine import for_each
from ...types import Ints, Start, Updates
from .units import Units, cut, kept_units, load


def train(learner: Learner, units: Units, start: Start, work: Work, form: str = "extract") -> Updates:
    """Local SGD of every row on its sub-model.

    Args:
        learner: data and engine.
        units: of the learner's network.
        start: full vectors; entries that a row drops count as zero while it trains.
        work: its `mask` `[n_rows, n_params]` is that of `entry_masks`; None trains full models.
        form: `extract` or `mask`; a learner whose training is done elsewhere has the second alone.

    Returns: full rows, zero where an entry was dropped.
    """
    if work.mask is None:
        return learner.train(start, work)
    return learner.train_parts(start, work, None if form == "mask" else partial(_train_extracted, learner, units))


def _train_extracted(learner: Learner, units: Units, start: Start, work: Work) -> Updates:
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
        if len(groups) > 1 and masks.device.type == "cpu":  # rows of different shapes, one after the other on each core
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
