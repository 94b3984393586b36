"""Any network as a list of kernels: traced once per network and batch size, checked against autograd, then replayed."""

from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ....machine import one_thread
from ... import streams
from ...architecture import trainable
from ...work import Work
from ..common import Batches, Job
from ..objectives import Held, signature
from .autograd import AutogradClient
from .native import sequences
from .planned import altered
from .replay import Replay, WorkerRows
from .row_client import RowClient, spans_without
from .steps import RowLayout
from .trace import CannotTraceError, Trace, record

WIDE = 10_000  # weights of a dense layer from which on it moves in the backward pass
APART = 0.02  # distance over the norm from which on gradients differ by more than rounding and a ReLU's kink
KEPT = 8  # traces that are kept for later rounds
Draw = tuple[Tensor, Tensor]


class Traced(NamedTuple):
    """A traced gradient, and its replays that no worker uses at the moment."""

    trace: Trace
    chosen: list[int]  # places of parameters that may move in the backward pass
    waiting: list[Replay]
    held: Held | None  # the traced objective, whose tensors every round fills anew; None: it is no partial


class TracedClient(RowClient):
    """A worker that replays a traced gradient on rows of its own."""

    def __init__(self, job: Job, layout: RowLayout, traced: Traced) -> None:
        super().__init__(job, layout)
        self._traced = traced
        try:
            self._replay = traced.waiting.pop()
        except IndexError:
            self._replay = replay_of(job, layout, traced)
        rows = self._replay.rows
        self.weights, self.gradient, self.stream = rows.weights, rows.gradient, rows.stream
        self.tail = rows.tail if job.tail is not None else None
        self.spans = spans_without(job.architecture, self._replay.moved)
        rows.rate = job.work.lr

    def backward(self, x: Tensor, y: Tensor) -> None:
        self._replay.x.copy_(x)
        self._replay.y.copy_(y)
        with torch.enable_grad():  # some kernels leave out what autograd would ask for
            self._replay.calls.run()

    def close(self) -> None:
        """Leave the replay to another worker or a later round."""
        self._traced.waiting.append(self._replay)


def replay_of(job: Job, layout: RowLayout, traced: Traced) -> Replay:
    """Make a replay of a trace, with rows of its own."""
    with torch.inference_mode():
        weights, gradient = (torch.zeros(job.architecture.n_params) for _ in range(2))
        tail, quick = torch.zeros(job.architecture.tail.n), sequences.win(job.architecture.n_params) and not _alone(job)
        rows = WorkerRows(weights, gradient, layout.views(gradient), tail, quick)
        return Replay(traced.trace, rows, traced.chosen)


def find(job: Job, layout: RowLayout, batches: Batches) -> Traced | str:
    """Return the traced gradient of a job, of an earlier round if it was kept; or the reason why there is none."""
    if why := _unfit(job, batches):
        return why
    known: OrderedDict[Any, Traced | str] = job.replays.traces
    work = job.work
    same = _plain(work), signature(work.objective), job.tail is None, _alone(job)
    key = job.architecture, int(batches.size[0]), *same
    if key not in known:
        known[key] = _traced(job, layout, batches)
    known.move_to_end(key)
    while len(known) > KEPT:
        known.popitem(last=False)
    found = known[key]
    if isinstance(found, Traced) and found.held is not None:
        assert isinstance(work.objective, partial)
        found.held.take(work.objective)
    return found


def _alone(job: Job) -> bool:
    """Whether the job has a single client, for which PyTorch's kernels may use every core."""
    return len(job.work.steps) == 1


def _unfit(job: Job, batches: Batches) -> str:
    """Return why a job cannot be traced; empty if it may be."""
    if job.device.type != "cpu":
        return "it trains on a GPU"
    if job.replays.once:
        return "no later round has a network of this shape"
    if signature(job.work.objective) is None:
        return "its objective is no partial of a function with positional arguments"
    if batches.shares_inputs:
        return "samples share inputs, so that batches differ in size"
    if len(set(batches.size.tolist())) > 1:
        return "devices take their whole stores, which differ in size"
    return altered(job.architecture.module)


def _traced(job: Job, layout: RowLayout, batches: Batches) -> Traced | str:
    steps, last = job.work.steps, len(batches.size) - 1
    first = _last_batch(batches, 0, int(steps[0]))
    other = _last_batch(batches, last, int(steps[last]) if last else 1)  # of a single row: that of its first step
    objective = job.work.objective
    held = Held(objective) if isinstance(objective, partial) else None
    client = AutogradClient(job._replace(work=job.work._replace(objective=held or objective)), layout)
    point = layout.pack(job.points[:1].clone())[0]  # a forward pass may write to it
    with streams.lent(), one_thread():  # with several, some kernels of PyTorch crash on odd images
        try:
            trace = _trace(job, client, point, first)
            traced = Traced(trace, _chosen(job), [], held)
            replay = replay_of(job, layout, traced)
            _check(job, client, 0.97 * point, other, replay)
        except CannotTraceError as error:
            return str(error)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            return f"{type(error).__name__} while it was traced: {str(error).splitlines()[0]}"
    traced.waiting.append(replay)
    return traced


def _last_batch(batches: Batches, row: int, n_steps: int) -> Draw:
    """The batch that a row takes in the last of so many steps."""
    return batches.take(batches.of_row(row, n_steps)[-int(batches.size[row]) :])


def _plain(work: Work) -> bool:
    """Whether a step is just `w -= lr * gradient`, of whatever is minimised."""
    return work._replace(objective=None).plain


def _chosen(job: Job) -> list[int]:
    """Places of wide weights, which may move in the backward pass; embeddings only if the objective is cross-entropy.

    Embeddings move word by word, which rounds more.
    """
    if not _plain(job.work):
        return []
    module = job.architecture.module
    words = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding) and not job.work.plain}
    given = enumerate(trainable(module))
    return [place for place, one in given if one.dim() == 2 and one.numel() >= WIDE and id(one) not in words]


def _put(job: Job, client: AutogradClient, point: Tensor) -> dict[str, Tensor]:
    """Put a packed point and the running statistics of the first row into a client's module.

    Returns: the statistics by name, as views into one memory.
    """
    client.at(point)
    tail = job.architecture.tail
    if job.tail is None:
        return {}
    named = dict(zip(tail.names, tail.split(job.tail[0].clone()), strict=True))
    for name, value in named.items():
        owner, _, last = name.rpartition(".")
        client.module.get_submodule(owner)._buffers[last] = value
    return named


def _trace(job: Job, client: AutogradClient, point: Tensor, batch: Draw) -> Trace:
    tail = _put(job, client, point)
    return record(client.gradient, client.module, client.parameters, *batch, point, tail)


def _check(job: Job, client: AutogradClient, point: Tensor, batch: Draw, replay: Replay) -> None:
    """Raise CannotTraceError if gradients or statistics of a replay are not those of autograd.

    `point` is another one than that of the trace, and `batch` another one if the job has several.
    """
    tail, rows = _put(job, client, point), replay.rows
    torch.manual_seed(1)
    rows.stream.manual_seed(1)
    wanted = client.gradient(*batch)
    with torch.inference_mode():
        rows.weights.copy_(point)
        if job.tail is not None:
            rows.tail.copy_(job.tail[0])
        rows.rate = 1.0
        replay.x.copy_(batch[0])
        replay.y.copy_(batch[1])
        with torch.enable_grad():
            replay.calls.run()
        moved = client.layout.views(point - rows.weights)
        found = [moved[at] if at in replay.moved else one for at, one in enumerate(rows.gradients)]
        if tail:
            now = client.job.architecture.tail.of(client.module)
            wanted, found = (*wanted, now), [*found, rows.tail]
        _compare(wanted, found)


def _compare(wanted: tuple[Tensor, ...], found: list[Tensor]) -> None:
    least = APART * max(float(one[one.isfinite()].norm()) for one in wanted)
    if not all(alike(one, other, APART, least) for one, other in zip(wanted, found, strict=True)):
        raise CannotTraceError(
            "it does other things with another batch, or gives no finite numbers: its forward pass is no fixed list of "
            "kernels"
        )


def alike(wanted: Tensor, found: Tensor, share: float, least: float = 0.0) -> bool:
    """Whether numbers agree: the same ones are finite, and these differ by at most a share of their norm.

    Numbers of which none is finite show nothing, so they do not agree.

    Args:
        wanted: what PyTorch finds.
        found: what a list of kernels finds.
        share: of the norm of the wanted numbers.
        least: added to that norm, so that nearly zero numbers may differ.
    """
    finite = wanted.isfinite()
    if not finite.any() or not torch.equal(finite, found.isfinite()):
        return False
    wanted, found = (wanted, found) if finite.all() else (wanted[finite], found[finite])
    return float((wanted - found).norm()) <= share * (float(wanted.norm()) + least)


def explanation(found: Traced | str) -> str:
    """Say in words what trains a network."""
    if isinstance(found, str):
        return f"autograd, because {found}"
    return f"a traced list of {len(found.trace.ops)} kernels, without autograd"
