"""The server's side of learning: a learner that has devices do the training, and a problem without their data.

A method hands its learner a `Start` and a `Work`; here every row of them becomes a message to a device, and the
answers become the rows of `Updates`. So `decide`, `broadcast`, `local`, `aggregate` and `evaluate` of a method run as
they are. All that the server knows of training data is how many samples of each label a device holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from math import log
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from .. import options
from ..data import Dataset, Scaling, from_arrays, load, scaled, skewed
from ..data.datasets import retasked
from ..data.generated import GENERATORS
from ..data.settings import DataConfig
from ..errors import BadInput
from ..learn.learner import Extracted, Learner
from ..learn.model_files import placeless
from ..learn.samples import Samples
from ..learn.work import Work
from ..metrics import CLASSIFICATION
from ..scenarios import Config, build_problem
from ..types import Floats, Ints, Outcome, Problem, Start, Store, Stream, Tally, Updates, Uplink
from ..world.settings import StreamConfig
from .bounds import Watched, nothing_seen
from .calls import call_of
from .tasks import Answer, Task

Ask = Callable[[Sequence[Task]], list[Answer]]


class Reported(NamedTuple):
    """What devices last reported: the memory of a federation's stream."""

    counts: Ints  # [n_devices, n_counted], samples of each label; of tasks without labels, all in one
    response_s: Floats  # [n_devices], of the last answer; 0 before the first
    scores: Ints  # [n_devices, 2], test samples that its own model had right, of how many
    watched: Watched  # lengths and refusals of answers


class Unseen(Samples):
    """Training samples of which only the labels are known; using the samples raises BadInput."""

    def take(self, index: Ints | Tensor) -> NoReturn:
        raise BadInput("this method looks at samples that only devices have: choose another one, or other settings")

    at = take


class Asked:
    """The tasks and answers of a round, shared by all views of a learner."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []  # of the present round
        self.answers: list[Answer] = []  # to them
        self.trained = False  # whether they were asked


class Remote(Learner):
    """A learner that has no training samples of its own."""

    coding: Mapping[str, Any] = {}  # in which devices send updates
    run = ""  # the name of the run
    n_classes: int
    sections: Mapping[str, Mapping[str, Any]]  # settings that devices need
    scaling: Scaling  # of the test samples, and of the samples of every device
    ask: Ask | None = None  # set while a method trains locally
    asked: Asked

    def train(self, start: Start, work: Work) -> Updates:
        """Have every row trained by its device; rows of devices that were not heard are zero."""
        if self.ask is None:
            raise BadInput(
                "this method trains outside of local(), on samples that only devices have: choose another method or "
                "other settings of it"
            )
        if self.asked.trained:
            raise BadInput(
                "this method trains more than once in a round, in which a device is asked once and sends all that it "
                "trained: choose another one"
            )
        if work.rule is not None:
            raise BadInput("this method trains by a rule of its own, which devices do not have: choose another one")
        self.asked.trained = True
        n_values = self.n_params if work.report is None else self.n_reported(work.report)
        own = self._carried().begin(work.device) if self.n_own else None
        tails = own.before if own is not None and not self.keeps_statistics and work.report is None else None
        self.asked.tasks = self._tasks(start, work, n_values, tails)
        self.asked.answers = self.ask(self.tasks) if self.tasks else []
        rows = np.zeros((len(self.tasks), n_values), dtype=np.float32)
        for answer in self.answers:
            if answer.update is not None:
                rows[np.searchsorted(work.device, answer.device)] = answer.update
            if answer.tail is not None and tails is not None:
                tails[int(np.searchsorted(work.device, answer.device))] = torch.from_numpy(answer.tail).to(tails)
        if own is not None and tails is not None:
            own.leave(tails)
        kept = None if work.report is None else start.points[start.of_row]  # only devices know what they really keep
        return Updates(work.device, torch.from_numpy(rows).to(self.device), kept=kept)

    def train_parts(self, start: Start, work: Work, extracted: Extracted | None = None) -> Updates:
        """Train parts of the network: devices have all of it, and get a mask."""
        return super().train_parts(start, work)

    def with_network(self, architecture: Any, once: bool = False) -> NoReturn:
        raise BadInput("this method trains networks other than the one that devices have: choose another one")

    @property
    def answers(self) -> list[Answer]:
        """The answers of the last time that devices were asked."""
        return self.asked.answers

    @property
    def tasks(self) -> list[Task]:
        """The tasks of the last time that devices were asked."""
        return self.asked.tasks

    @property
    def n_counted(self) -> int:
        """Kinds of samples that devices count: labels, or one kind if the task has none."""
        return self.n_classes if self.task.name == CLASSIFICATION else 1

    @property
    def guessing(self) -> float:
        """The test loss of guessing: with equal probabilities, or in regression with the mean."""
        if self.task.name == "regression":
            return float(np.asarray(self.test_samples.labels, dtype=np.float64).var(axis=0).mean())
        return log(2 if self.task.name == "multi-label" else max(self.n_classes, 2))

    @property
    def keeps_statistics(self) -> bool:
        """Whether running statistics stay on devices."""
        return self.n_own > 0 and not self.architectures[0].tail.sent

    def blind(self) -> Self:
        """The same learner, but using its training samples raises BadInput."""
        other = copy(self)
        other.train_samples = copy(self.train_samples)
        other.train_samples.__class__ = Unseen
        return other

    @contextmanager
    def asking(self, ask: Ask) -> Iterator[None]:
        """Have `ask` do the training, once, while the context lasts; `answers` stay available afterwards."""
        self.ask, self.asked = ask, Asked()
        try:
            yield
        finally:
            self.ask = None

    def _tasks(self, start: Start, work: Work, n_values: int, tails: Tensor | None) -> list[Task]:
        points = start.points.detach().cpu().numpy()
        mask, shift = (None if part is None else part.cpu().numpy() for part in (work.mask, work.shift))
        objective = None if work.objective is None else call_of(work.objective, "trains with a loss")
        report = None if work.report is None else call_of(work.report, "has devices send something")
        return [
            Task(
                device=int(device),
                round=work.round,
                seed=self.seed,
                n_params=self.n_params,
                n_classes=self.n_classes,
                learned=self.task.name,
                steps=int(work.steps[row]),
                batch_size=work.batch_size,
                lr=work.lr,
                momentum=work.momentum,
                prox=work.prox,
                start=points[start.of_row[row], : None if report is None else 0],
                mask=mask if mask is None or mask.ndim == 1 else mask[row],
                shift=None if shift is None else shift[row],
                model=self.sections["model"],
                train=self.sections["train"],
                objective=objective,
                report=report,
                n_reported=0 if report is None else n_values,
                scaling=self.scaling,
                coding=self.coding,
                tail=None if tails is None else tails[row].cpu().numpy().copy(),
                run=self.run,
            )
            for row, device in enumerate(work.device)
        ]


# ---------------------------------------------------------------- the problem of a server


def federated_problem(config: Config, dataset: Dataset | None = None, model: nn.Module | None = None) -> Problem:
    """Build the problem of a server: world, network and test samples, but no training data.

    Args:
        config: the settings; `data.name` gives the test samples, and `data.scaling` scales them and those of devices.
            `stream` has no effect.
        dataset: to test on instead; its training samples give the statistics of `data.scaling=standard` alone.
        model: network instead of `model.name`; its present weights are the start.
    """
    if config.world.access == "air":
        raise BadInput(
            "world.access = 'air' is simulated and cannot be deployed: real devices send their updates one by one, so "
            "set another access"
        )
    if dataset is None and config.data.name in GENERATORS:
        fix = "give server_app(dataset=...) samples to test on"
        raise BadInput(
            f"data.name = {config.data.name!r} makes up samples of simulated devices, not of real ones: {fix}"
        )
    found = retasked(dataset, config.data.task) if dataset else load(config.data.name, config.data.task)
    if dataset is None:  # whose test samples are as devices see theirs
        found = skewed(config.data, found, config.world.n_devices, config.seed)
    found = scaled(found, config.data.scaling, reuse=dataset is None)
    n_known = max(found.n_classes, config.world.n_devices)  # one for every label, and for every store that is drawn
    targets = np.zeros((n_known, *found.y_test.shape[1:]), dtype=found.y_test.dtype)
    if found.task == CLASSIFICATION:
        targets = np.arange(n_known, dtype=np.int64) % found.n_classes
    samples = np.zeros((n_known, *found.x_test.shape[1:]), dtype=found.x_test.dtype)
    known = found._replace(x_train=samples, y_train=targets, owners=None, test_owners=None)
    data = DataConfig(name=config.data.name, scaling=config.data.scaling, partition="iid", task=found.task)
    plain = replace(config, data=data, stream=StreamConfig())
    problem = build_problem(plain, known, model)
    local = problem.learner
    if len(local.architectures) > 1:
        raise BadInput("several architectures cannot be deployed: give every device the same network")
    samples_of = local.train_samples, local.test_samples
    learner = Remote(local.architectures, *samples_of, config.train, config.seed, task=found.task)
    learner.n_classes, learner.scaling = found.n_classes, found.scaling
    alone = replace(config.train, shards=0)  # a device has itself
    learner.sections = {"model": options.to_dict(placeless(config.model)), "train": options.to_dict(alone)}
    stream = reported_stream(config.world.n_devices, learner.n_counted)
    hopeless = learner.task.hopeless(found.y_test)
    return problem._replace(learner=learner, world=problem.world._replace(stream=stream), hopeless_loss=hopeless)


def server_data(x: Any, y: Any, n_classes: int | None = None, task: str = "auto") -> Dataset:
    """Make a data set for `server_app(dataset=...)` from test samples.

    With `data.scaling=standard`, the statistics come from these samples, too.

    Args:
        x: samples `[n, ...]`, not scaled yet.
        y: labels `[n]`, whole numbers from 0, or the targets of another task.
        n_classes: number of labels, or tokens; None: as many as in `y`.
        task: what is learned, as of `fedcell.data.from_arrays`.
    """
    found = from_arrays(x, y, x, y, task=task)
    return found._replace(name="test samples", n_classes=n_classes or found.n_classes)


def reported_stream(n_devices: int, n_classes: int, each: int = 0) -> Stream:
    """A stream in which nothing arrives: devices report what they hold, which is `each` samples per label at first."""

    def start(seed: int) -> tuple[Store, Reported]:
        counts = np.full((n_devices, n_classes), each, dtype=np.int64)
        scores = np.zeros((n_devices, 2), dtype=np.int64)
        return tally(counts), Reported(counts, np.zeros(n_devices), scores, nothing_seen(n_devices))

    def arrive(seed: int, round: int, store: Store, memory: Reported) -> tuple[Store, Reported]:
        return store, memory

    return Stream(start, arrive)


def tally(counts: Ints) -> Store:
    """The stores of devices that hold so many samples of each label, `[n_devices, n_classes]`."""
    return Tally(counts, counts.sum(axis=1))


def measured(n_devices: int, answers: Sequence[Answer], round_s: float) -> Uplink:
    """The uplink of a round, from what was measured. Joules are not measured here: they are 0."""
    zero = np.zeros(n_devices)
    compute_s, upload_s, sent_bit = zero.copy(), zero.copy(), zero.copy()
    outcome = np.full(n_devices, int(Outcome.IDLE), dtype=np.int64)
    for one in answers:
        compute_s[one.device], upload_s[one.device] = one.compute_s, one.response_s - one.compute_s
        sent_bit[one.device], outcome[one.device] = one.up_bit, int(one.outcome)
    return Uplink(compute_s, upload_s, zero, zero, sent_bit, outcome, round_s)
