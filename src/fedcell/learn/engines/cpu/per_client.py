"""Train clients in one single-threaded worker per core, each one client after another: the fast way on a CPU.

Chains of known layers train without autograd (`planned`), and so does any other network whose gradient is a fixed list
of kernels (`traced`); the rest trains by `autograd`. Convolution weights lie channels-last inside the row while it
trains and return to canonical order at the end.
"""

from itertools import count

import numpy as np

from ....machine import cores, for_each
from ... import streams
from ..common import Batches, Job, draws
from .autograd import AutogradClient
from .planned import PlannedClient, chain_of
from .steps import RowLayout
from .traced import TracedClient, explanation, find


def train(job: Job, workers: int = 0) -> None:
    """Train every row and write its update, end minus start, to `job.out`; it does not depend on `workers`."""
    n_rows = len(job.work.steps)
    layout, batches = RowLayout(job.architecture), Batches(job)
    chain = chain_of(job)
    traced = find(job, layout, batches) if chain is None else ""
    chained = "a chain of known layers, without autograd"
    job.replays.trained_by[f"sequential: {explanation(traced) if chain is None else chained}"] = None
    shared = chain is None and isinstance(traced, str) and draws(job)  # streams that all share
    wanted = 1 if shared else workers or cores()
    points = layout.pack(job.points)  # perhaps those of other engines and rounds: workers only read them
    heaviest_first = np.argsort(-job.work.steps, kind="stable")
    ticket = count()  # next() is atomic, so idle workers just take the next client

    def work_through(_: int) -> None:
        client = make()
        while (turn := next(ticket)) < n_rows:
            row = int(heaviest_first[turn])
            client.train(row, points[job.of_row[row]], batches)
        client.close()

    def make() -> PlannedClient | TracedClient | AutogradClient:
        if chain is not None:
            return PlannedClient(job, layout, chain)
        return AutogradClient(job, layout) if isinstance(traced, str) else TracedClient(job, layout, traced)

    with streams.lent(job.device, shared):
        if job.device.type == "cpu" and n_rows > 1:
            for_each(work_through, range(min(wanted, n_rows)), wanted)
        else:  # a GPU, or a single client that may as well have every core
            work_through(0)
    layout.unpack(job.out)
