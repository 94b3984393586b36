"""The learner: data, networks and an engine, behind the three calls a method makes."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from math import inf
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput
from ..machine import cores, precision
from ..metrics import CLASSIFICATION
from ..types import Ints, Start, Store, Updates
from .architecture import Architecture
from .augment import Augmented
from .buffers import Buffers
from .carrier import Carrier
from .deferred import Deferred, block_bytes, block_rows, defers
from .engines import batched, sharded
from .engines.common import Job, draws
from .engines.dispatch import choose_engine, train_with
from .engines.gpu.cuda_graphs import Replays
from .evaluation import places, spread_columns, top_columns
from .memory import keep_freed_memory
from .samples import Samples
from .scoring import Scoring
from .settings import TrainConfig
from .statistics import OwnRows
from .statistics import places as kept_places
from .tasks import LEARNED, LearningTask, refuse_without_labels
from .work import Report, Work, rounded, rows_of

Extracted = Callable[[Start, Work], Updates]


class Learner(Carrier):
    """Trains cohorts and evaluates models, on one device, with one or several architectures.

    Vectors of all architectures have the length of the largest one, `n_params`; the rest of a
    smaller one is zero and stays zero. If networks keep running statistics, those that models have at the moment are
    `carried`.
    """

    n_classes: int = 0  # classes that networks were built for; 0: not known

    def __init__(
        self,
        architectures: Sequence[Architecture],
        train: Samples,
        test: Samples,
        settings: TrainConfig,
        seed: int,
        of_device: Ints | None = None,
        task: str = CLASSIFICATION,
    ) -> None:
        self.architectures = tuple(architectures)
        self.train_samples, self.test_samples = train, test
        self.settings, self.seed = settings, seed
        self.task: LearningTask = LEARNED[task]
        self.of_device = of_device  # [n_devices] architecture of each device; None: all have the first
        self.n_params = max(architecture.n_params for architecture in self.architectures)
        self.device = train.y.device
        self._augmented = Augmented.of(train, settings)
        self._buffers, self._replays = Buffers(), self._no_replays()
        self._others: dict[Architecture, Self] = {}  # learners of other networks, with the memory of their rounds
        self._scoring = Scoring(self.architectures[0], self.device, settings, seed, lambda: self._replays.give_up())
        self._block_bytes = 0  # of updates on a GPU; 0: not looked at yet
        for name in ("top", "spread"):
            if getattr(settings, name):
                refuse_without_labels(task, f"train.{name}", "leave it out")
        if settings.shards:
            sharded.check(settings.shards)

    def with_network(self, architecture: Architecture, once: bool = False) -> Self:
        """A copy of the learner that trains one other network, such as a part of its own, and cannot evaluate it.

        Args:
            architecture: the network.
            once: no later round trains a network of its shape, so keep nothing for it.
        """
        if not once and architecture in self._others:
            return self._others[architecture]
        other = copy(self)
        other._others = {}
        other.architectures, other.of_device, other.n_params = (architecture,), None, architecture.n_params
        other.carried = None
        other._buffers, other._replays = Buffers(), self._no_replays(once)
        other._replays.trained_by = self._replays.trained_by
        if not once:
            self._others[architecture] = other
        return other

    @property
    def trained_by(self) -> dict[str, None]:
        """Every engine that trained devices so far, in words."""
        return self._replays.trained_by

    def initial(self, architecture: int = 0) -> Tensor:
        """The start vector `[n_params]`: the given module's own values."""
        layout = self.architectures[architecture]
        vector = torch.zeros(self.n_params)
        vector[: layout.n_params] = layout.flat(layout.module)
        return vector.to(self.device)

    def kinds(self, device: Ints) -> Ints:
        """The architecture of each given device, as an index into `architectures`."""
        return np.zeros(len(device), np.int64) if self.of_device is None else self.of_device[device]

    def train(self, start: Start, work: Work) -> Updates:
        """Train every row from its start point; one flat update per row, trained on demand if all need much memory.

        With a `work.report`, rows are the reports of the trained models, and `kept` has the models.
        """
        if work.report is not None:
            models = start.points[start.of_row] + Learner.train(self, start, work._replace(report=None)).delta
            rows = self._carried().begin(self._numbered(work.device)).before if self.n_own else None
            found = self._reports(work.report, models, Learner.kinds(self, work.device), work.store, rows)
            return Updates(work.device, found, kept=models)
        own = self._carried().begin(self._numbered(work.device)) if self.n_own else None
        room = self._room_bytes()
        if not defers(len(work.steps), self.n_params, room) or len(self.architectures) > 1:
            return Updates(work.device, self._train(start, work, own))

        def some(rows: Ints | None) -> Tensor:
            if rows is None:
                return self._train(start, work, own)
            point, of_row = np.unique(start.of_row[rows], return_inverse=True)
            part = Start(start.points[point], of_row)
            return self._train(part, rows_of(work, rows), None if own is None else own.some(rows))

        if self.device.type == "cpu":
            together = batched.rows_per_chunk(self.architectures[0])
            block = block_rows(self.n_params, self.settings.workers or cores())
        else:
            together = block = max(room // (4 * self.n_params), 1)
        return Updates(work.device, Deferred(some, work.steps, self.n_params, together, block, self.device))

    def _room_bytes(self) -> int:
        """Bytes of updates above which they are trained and added up in blocks."""
        if self.device.type == "cpu":
            return block_bytes(self.device)
        self._block_bytes = self._block_bytes or block_bytes(self.device, self._replays.most_bytes)
        return self._block_bytes

    def _no_replays(self, once: bool = False) -> Replays:
        return Replays(self.settings.gpu_gib * 2**30 or inf, once)

    def reports(self, report: Report, models: Tensor, device: Ints, store: Store) -> Tensor:
        """`report` of the model of each row on the samples that its device holds, `[n_rows, n_values]`."""
        own = [self.own_of(one) for one in device.tolist()] if self.n_own else None
        return self._reports(report, models, self.kinds(device), store, own)

    def _reports(
        self, report: Report, models: Tensor, kinds: Ints, store: Store, own: Sequence[Tensor | None] | Tensor | None
    ) -> Tensor:
        nets = [one.replica(self.device).eval() for one in self.architectures]
        found = []
        for row, (model, kind) in enumerate(zip(models, kinds, strict=True)):
            self.architectures[kind].load(nets[kind], model, None if own is None else own[row])
            found.append(report(nets[kind], *self.train_samples.take(store.items[row, : store.size[row]])))
        return torch.stack(found) if found else models.new_zeros((0, self.n_reported(report)))

    def n_reported(self, report: Report) -> int:
        """Length of a report, found by calling it on a test sample."""
        return report(self._scoring.module, *self.test_samples.take(np.arange(1))).numel()

    def train_parts(self, start: Start, work: Work, extracted: Extracted | None = None) -> Updates:
        """Train rows that keep only the entries of `work.mask` and have zeros for all others.

        `extracted` does the same, up to rounding, on networks of only the kept entries. If it is given, it is called
        instead; learners that do not train in this process ignore it.
        """
        assert work.mask is not None
        if extracted is not None:
            return extracted(start, work)
        points = start.points[torch.from_numpy(start.of_row).to(start.points.device)] * work.mask
        return self.train(Start(points, np.arange(len(work.steps))), work)

    def _train(self, start: Start, work: Work, own: OwnRows | None) -> Tensor:
        keep_freed_memory()
        delta = self._rows(len(work.steps))
        kinds = Learner.kinds(self, work.device)  # not as a cell view overrides it: `work` has real numbers
        with precision(self.settings.tf32):
            for kind, architecture in enumerate(self.architectures):
                if len(rows := np.flatnonzero(kinds == kind)):
                    self._train_kind(architecture, start, work, rows, delta, own)
        return delta

    def _rows(self, n_rows: int) -> Tensor:
        """Memory for one update per row; zeros if a row may be longer than its network, whose engine leaves its end."""
        if self.device.type != "cpu":
            room = torch.zeros if len(self.architectures) > 1 else torch.empty
            return room(n_rows, self.n_params, device=self.device)
        rows = self._buffers.matrix(n_rows, self.n_params)
        return rows.zero_() if len(self.architectures) > 1 else rows

    def _train_kind(
        self, architecture: Architecture, start: Start, work: Work, rows: Ints, delta: Tensor, own: OwnRows | None
    ) -> None:
        alone = len(rows) == len(delta) and architecture.n_params == self.n_params
        out = delta if alone else torch.empty(len(rows), architecture.n_params, device=self.device)
        points = start.points[:, : architecture.n_params]
        part = work if alone else rows_of(work, rows, architecture.n_params)
        if part.objective is None:
            part = part._replace(objective=self.task.objective)
        if self.settings.bf16:
            part = part._replace(objective=rounded(part.objective, self.device.type))
        job = Job(
            architecture=architecture,
            samples=self._augmented if part.augment and self._augmented is not None else self.train_samples,
            points=points,
            of_row=start.of_row[rows],
            work=part,
            sampling=self.settings.sampling,
            seed=self.seed,
            out=out,
            replays=self._replays,
        )
        if own is None:
            self._engine(job)
        else:
            own.leave(self._train_with_statistics(job, own.before))
        if not alone:
            delta[torch.from_numpy(rows).to(self.device), : architecture.n_params] = out

    def _train_with_statistics(self, job: Job, own: Tensor) -> Tensor:
        """Train from own rows `[n_rows, n_own]` and return the new ones; what devices keep has update 0."""
        kept = kept_places(job.architecture.tail.kept, self.device)
        begun, tail = own[:, : len(kept)], own[:, len(kept) :].clone()
        job = job._replace(tail=tail)
        if len(kept):
            points = job.points[torch.from_numpy(job.of_row).to(self.device)].index_copy(1, kept, begun)
            job = job._replace(points=points, of_row=np.arange(len(points)))
        self._engine(job)
        after = torch.cat([begun + job.out[:, kept], tail], dim=1)
        job.out[:, kept] = 0
        return after

    def _engine(self, job: Job) -> None:
        name, workers = self.settings.engine, self.settings.workers
        if name == "auto":
            name = choose_engine(job)
        if name == "batched" and self.settings.bf16:
            raise BadInput("train.engine = 'batched' has float32 alone and train.bf16 = true: use 'auto'")
        own = job.work.objective is not None and job.work.rule is None
        if name == "batched" and (batched.chain(job.architecture) is None or own):
            raise BadInput("train.engine = 'batched' needs a chain of dense layers and cross-entropy: use 'auto'")
        if name == "vmap" and job.tail is not None and not job.architecture.batchable:
            raise BadInput("train.engine = 'vmap' cannot train your own norms that keep statistics: use 'auto'")
        if name == "vmap" and draws(job):
            raise BadInput("train.engine = 'vmap' cannot train networks that draw random numbers (dropout): use 'auto'")
        if self.settings.shards and len(job.work.steps) > 1:
            sharded.train(job, name, self.settings.shards, self.settings.tf32)
        else:
            train_with(name, job, workers)

    @torch.no_grad()
    def evaluate(self, params: Tensor, samples: Samples | None = None) -> dict[str, float]:
        """The metrics of the task for one vector on the test samples (or the given ones).

        `train.top` and `train.spread` add columns.
        """
        if self.judged is not None and samples is None:
            return self.judged(params)
        samples = self.test_samples if samples is None else samples
        if not len(samples):
            raise BadInput("evaluate() got 0 samples: give it at least one, or leave them out for the test samples")
        sums, order, found = np.zeros(1), [], []
        for index, scores in self.scores(params, samples):
            y = samples.y[torch.from_numpy(index).to(self.device)]
            sums = sums + self.task.tally(scores, y).cpu().numpy()
            if self.settings.top or self.settings.spread:
                order.append(index)
                found.append((scores.argmax(1) == y, places(scores, y)))
        columns = self.task.columns(sums, len(samples))
        if self.settings.top:
            columns |= top_columns(torch.cat([place for _, place in found]).cpu().numpy(), self.settings.top)
        if self.settings.spread:
            hits = np.empty(len(samples))
            hits[np.concatenate(order)] = torch.cat([hit for hit, _ in found]).cpu().numpy()
            columns |= spread_columns(hits, samples)
        return columns

    @torch.no_grad()
    def scores(self, params: Tensor, samples: Samples) -> Iterator[tuple[Ints, Tensor]]:
        """Evaluate one vector: yield the sample numbers of each batch and its scores `[n, ..., n_outputs]`."""
        own = None if len(params) > self.n_params else self.own_of()
        yield from self._scoring(params, own, samples)
