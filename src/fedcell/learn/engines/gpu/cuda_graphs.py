"""Run the steps of many clients together: prepare all batches of a round at once, record a step and replay it.

On a GPU, launching the kernels of a small step takes longer than running them. From the second time that a cohort of
the same shape trains, its step is a CUDA graph that one call replays; a counter on the GPU selects the batch. Cohorts
are padded to few different shapes for that: rows that have done their steps, and padding rows, move at rate zero.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import inf, prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....types import Ints
from ...architecture import Architecture
from ..common import GROWTH, Batches, Feed, Job, batch_of, padded, targets
from ..objectives import Held, signature
from ..update import Parts, Rule, Terms, direction, move

KEPT = 6  # cohorts whose memory and graphs are kept for later rounds
AT_HAND = 1 << 28  # bytes of inputs up to which all batches of a round are gathered before its first step


class Gradients(Protocol):
    """Compute the gradients of parameters `parts`, and move the running statistics `tail` in place."""

    def __call__(self, parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor, tail: list[Tensor], /) -> Parts: ...


class Kernel(NamedTuple):
    """How an engine computes with a network: the layout of its parameters, and their gradients."""

    split: Callable[[Tensor], list[Tensor]]  # [n_rows, n_params] -> parameters, each [n_rows, ...]
    gradients: "Gradients"  # of the weighted loss of each row
    move: Callable[[list[Tensor], Tensor, Tensor, Tensor], None] | None = None  # subtract the gradients at once instead
    grain: int | None = None  # granularity of the live rows in a step; None: a quarter of the cohort
    held: Held | None = None  # the objective, if it can serve several rounds


class Shape(NamedTuple):
    """The properties of a cohort that must be equal for two rounds to share memory and graphs."""

    n_rows: int
    n_steps: int  # steps that the cohort has memory for
    n_batches: int  # 1 if every step takes the whole store
    width: int  # samples of a batch
    n_draws: int  # draws that the samples of a batch stand for
    distinct: bool  # whether draws of one input are merged into one sample
    rule: Rule
    masked: bool
    padded: bool  # whether a row may have fewer samples than others
    shifted: bool
    together: bool  # whether all rows start from one point
    augmented: bool  # whether samples are changed

    @property
    def plain(self) -> bool:
        """Whether weights move only by the gradient."""
        return self.rule == Rule() and not (self.masked or self.shifted)


class Replays:
    """State of engines that is kept between rounds: cohorts by network and shape, their GPU memory, and traces.

    Args:
        most_bytes: GPU memory that this run may use.
        once: no later round can use what this one leaves.
    """

    def __init__(self, most_bytes: float = inf, once: bool = False) -> None:
        self.most_bytes, self.once = most_bytes, once
        self.traces: OrderedDict[Hashable, Any] = OrderedDict()  # of the CPU engine
        self.trained_by: dict[str, None] = {}  # the engines that trained rows, in words
        self.room: dict[Architecture, int] = {}
        self.draws: dict[Architecture, bool] = {}  # whether networks draw random numbers
        self._kept: OrderedDict[tuple[int, Shape, Hashable], Cohort] = OrderedDict()

    def cohort(self, job: Job, kernel: Callable[[], Kernel], shape: Shape) -> "Cohort":
        """The memory and graphs for a cohort of a shape, new or kept from an earlier round."""
        same = signature(job.work.objective)
        if same is None:  # it may hold other tensors in every round
            return Cohort(job, kernel(), shape)
        key = (id(job.architecture), shape, same)
        self._kept[key] = found = self._kept.pop(key, None) or Cohort(job, kernel(), shape)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def give_up(self) -> None:
        """Drop the memory of all cohorts; they are made anew when they are needed."""
        self._kept.clear()


def train_rows(job: Job, kernel: Callable[[], Kernel], batches: Batches, rows: Ints) -> None:
    """Fill `job.out[rows]` with updates; rows with most steps must come first."""
    work, n_steps = job.work, int(job.work.steps[rows[0]])
    feed = batches.feed(rows, 0, n_steps)
    room = 1 << (n_steps - 1).bit_length()
    shape = Shape(
        n_rows=padded(len(rows)) if len(rows) > GROWTH else len(rows),
        n_steps=room,
        n_batches=1 if batches.full else room,
        width=padded(feed.sample.shape[2]) if not work.batch_size and feed.number is None else feed.sample.shape[2],
        n_draws=padded(feed.share.shape[1]) if not work.batch_size else feed.share.shape[1],
        distinct=feed.number is not None,
        rule=Rule.of(work),
        masked=work.mask is not None,
        padded=work.batch_size == 0,
        shifted=work.shift is not None,
        together=len(job.points) == 1,
        augmented=work.augment,
    )
    cohort = job.replays.cohort(job, kernel, shape)
    cohort.load(job, feed, rows)
    cohort.play(work.steps[rows])
    cohort.tell(job.out, rows)
    if job.tail is not None:
        after = [part[: len(rows)].flatten(1) for part in cohort.tail]
        job.tail[torch.from_numpy(rows).to(job.device)] = torch.cat(after, dim=1)


class Cohort:
    """The memory of a cohort of one shape, and its recorded steps."""

    def __init__(self, job: Job, kernel: Kernel, shape: Shape) -> None:
        self.architecture = job.architecture  # kept alive, so that no other architecture can get its id
        self.kernel, self.shape, self.samples = kernel, shape, job.samples
        self.lasting = signature(job.work.objective) is not None  # whether the step of the next round is the same

        def room(*size: int, of: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(size, dtype=of, device=job.device)

        n_rows = shape.n_rows
        self.start = kernel.split(room(1 if shape.together else n_rows, job.architecture.n_params))
        self.weights = [_rows_like(part, n_rows) for part in self.start]
        self.memory = shape.rule.memory(self.weights)
        shift = [part.clone() for part in self.weights] if shape.shifted else []
        mask = [part.clone() for part in self.weights] if shape.masked else []
        self.terms = Terms(self.start, shift, mask)
        self.index = room(shape.n_batches, n_rows, shape.width, of=torch.int64)
        self.number = room(shape.n_batches, n_rows, shape.n_draws if shape.distinct else 0, of=torch.int64)
        self.share = room(n_rows, shape.n_draws)
        self.rate = room(shape.n_steps, n_rows)
        self.tail = job.architecture.tail.split(room(n_rows, job.architecture.tail.n)) if job.tail is not None else []
        self.due = room(shape.n_steps, n_rows, of=torch.bool) if self.tail else room(0)
        self.x, self.y = room(0, of=job.samples.dtype), room(0, of=job.samples.y.dtype)
        if self.x.itemsize * self.index.numel() * prod(job.samples.shape) <= AT_HAND:
            self.x = room(*self.index.shape, *job.samples.shape, of=self.x.dtype)
            self.y = room(*self.index.shape, *job.samples.y.shape[1:], of=self.y.dtype)
        self.step = room(1, of=torch.int64)
        self.first = room(1, of=torch.int64)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.rounds = 0

    def load(self, job: Job, feed: Feed, rows: Ints) -> None:
        """Load the models, batches and rates of a round; padding rows repeat the last client at rate zero."""
        work, n = job.work, len(rows)
        if self.kernel.held and isinstance(work.objective, partial):
            self.kernel.held.take(work.objective)
        of_row = np.pad(job.of_row[rows], (0, self.shape.n_rows - n), mode="edge")
        points = job.points if self.shape.together else job.points[torch.from_numpy(of_row).to(job.device)]
        _fill(self.start, self.kernel.split(points))
        _fill(self.weights, self.start)
        for parts in self.memory:
            torch._foreach_zero_(parts)
        if work.mask is not None:
            entries = work.mask if work.mask.dim() == 1 else work.mask[torch.from_numpy(rows).to(work.mask.device)]
            _fill([part[:n] for part in self.terms.mask], self.kernel.split(entries.to(self.rate).expand(n, -1)))
        if work.shift is not None:
            added = work.shift[torch.from_numpy(rows).to(work.shift.device)].to(self.rate)
            _fill([part[:n] for part in self.terms.shift], self.kernel.split(added))
        _bring(self.index, feed.sample)
        _bring(self.share, feed.share)
        if self.x.numel():
            x, y = self.samples.take(self.index.reshape(-1))
            self.x.copy_(x.view(self.x.shape)), self.y.copy_(y.view(self.y.shape))
        if feed.number is not None:
            _bring(self.number, feed.number)
        due = np.arange(int(work.steps[rows[0]]))[:, None] < work.steps[rows]
        _bring(self.rate, np.where(due, work.lr, 0.0))
        if job.tail is not None:
            _bring(self.due, due)
            begun = job.tail[torch.from_numpy(rows).to(job.device)]
            _fill([part[:n] for part in self.tail], job.architecture.tail.split(begun))

    def play(self, steps: Ints) -> None:
        """Run all steps; rows that have done theirs are left out, `grain` at a time."""
        grain = self.kernel.grain or -(-self.shape.n_rows // 4)
        live = np.searchsorted(-steps, -np.arange(int(steps[0])), side="left")  # rows with more steps than that
        counts = np.minimum(-(-live // grain) * grain, self.shape.n_rows).tolist()
        if self.rounds and self.lasting and self.step.is_cuda:
            self._record(set(counts) - set(self.graphs))
        self.rounds += 1
        self.step.zero_()
        for count in counts:
            graph = self.graphs.get(count)
            if graph is None:
                self._advance(count)
            else:
                graph.replay()

    def tell(self, out: Tensor, rows: Ints) -> None:
        """Write the update of every client into its row of `out`, `[n_rows, n_params]`, one parameter after another."""
        n, place, first = len(rows), torch.from_numpy(rows).to(out.device), 0
        for now, start in zip(self.weights, self.start, strict=True):
            moved = (now[:n] - start[:n]).flatten(1)
            out[:, first : first + moved.shape[1]].index_copy_(0, place, moved)
            first += moved.shape[1]

    def _record(self, counts: set[int]) -> None:
        """Record a graph for each number of rows; none if the forward pass waits for the GPU, which no graph can."""
        for count in sorted(counts):
            graph = torch.cuda.CUDAGraph()
            memory = next((other.pool() for other in self.graphs.values()), None)
            try:
                with torch.cuda.graph(graph, pool=memory):
                    self._advance(count)
            except RuntimeError:
                self.lasting = False
                return
            self.graphs[count] = graph

    def _advance(self, n: int) -> None:
        """Run the step given by the counter for the first `n` rows."""
        x, y, weight = self._batch(n)
        rate = self.rate.index_select(0, self.step)[0, :n]
        now = [part[:n] for part in self.weights]
        if self.kernel.move and self.shape.plain:
            y = y * rate[:, None, None] if y.is_floating_point() else y  # shares of labels are weights, too
            self.kernel.move(now, x, y, weight * rate[:, None])
        else:
            moved = [part[:n].clone() for part in self.tail]
            terms = Terms(*([part[:n] for part in parts] for parts in self.terms))
            memory = tuple([part[:n] for part in parts] for parts in self.memory)
            gradients = self.kernel.gradients(now, x, y, weight, moved)
            against, after = direction(self.shape.rule, gradients, now, terms, memory, self.step, by_row=True)
            move(now, against, rate)
            for parts, new in zip(memory, after, strict=True):
                torch._foreach_copy_(parts, new)
            self._keep(moved, n)
        self.step.add_(1)

    def _keep(self, moved: Sequence[Tensor], n: int) -> None:
        """Keep the new statistics of rows that are still training."""
        for part, value in zip(self.tail, moved, strict=True):
            due = self.due.index_select(0, self.step)[0, :n].view(-1, *[1] * (part.dim() - 1))
            part[:n] = torch.where(due, value, part[:n])

    def _batch(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        at = self.step if self.shape.n_batches > 1 else self.first
        number = self.number.index_select(0, at)[0, :n] if self.shape.distinct else None
        if not self.x.numel():
            return batch_of(self.samples, self.index.index_select(0, at)[0, :n], self.share[:n], number)
        x, y = (part.index_select(0, at)[0, :n] for part in (self.x, self.y))
        return x, *targets(y, self.share[:n], number, 0 if number is None else self.samples.n_labels)


def _fill(into: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
    for room, part in zip(into, parts, strict=True):
        room.copy_(part)


def _bring(room: Tensor, values: NDArray[Any] | Tensor) -> None:
    """Copy values into the first entries of each axis of `room`; the rest becomes zero."""
    room.zero_()
    room[tuple(slice(0, n) for n in values.shape)] = torch.as_tensor(values).to(room)


def _rows_like(part: Tensor, n: int) -> Tensor:
    """Zeros for `n` rows, each with the memory layout of the rows of `part`."""
    row = part[0]
    return part.new_zeros(n * row.numel()).as_strided((n, *row.shape), (row.numel(), *row.stride()))
