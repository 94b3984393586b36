"""A device in a Flower federation: it trains what it is asked to on samples that never leave it.

What leaves it: the update, how many samples of each label it holds, and how long it computed. If the method has devices
keep models of their own, a report of the model leaves it instead of the update. With `server-key` in the node
configuration all of it is sealed for the server.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, cat, from_numpy, nn

from ..data.scaling import apply
from ..data.targets import Targets
from ..errors import BadInput
from ..learn import models
from ..learn.architecture import Architecture, choose
from ..learn.learner import Learner
from ..learn.model_files import checksum, split
from ..learn.optimiser import Optimiser
from ..learn.samples import Samples
from ..learn.settings import ModelConfig, TrainConfig, in_file
from ..learn.setup import check_fits, initialise, pick_device
from ..learn.statistics import Carried
from ..learn.work import Work
from ..options import from_dict
from ..types import Start, Store
from . import sealed, wire
from .calls import function_of
from .coded import payload_of
from .holding import CacheSettings, Data, counted, device_of, held, identity, share_of, state_folder
from .kept import Kept, keep, kept_in
from .meters import Meter, Metering
from .tasks import Task, Vector
from .wire import Facts

__all__ = ["CacheSettings", "Data", "client_app", "counted", "device_of", "held", "identity", "share_of"]

MODEL = "model.safetensors"  # in the folder of a device that keeps one
STATISTICS = "statistics.safetensors"  # in the folder of a device that keeps its norm layers
Train = Callable[[nn.Module, Tensor, Tensor, Task], object]  # network, samples, labels, what the server asks for
Network = Callable[[tuple[int, ...], int], nn.Module]  # shape of a sample, number of classes


def client_app(
    data: Data,
    *,
    train: Train | None = None,
    cache: CacheSettings | None = None,
    model: Network | str | None = None,
    test: Data | None = None,
    meter: Meter | None = None,
) -> ClientApp:
    """A ClientApp that trains for a server of `fedcell.deploy.flower`.

    Args:
        data: `data(context, round)` returns float32 samples, not scaled yet, and whole-number labels of this device,
            or the targets of another task. Without `cache`, return all that the device holds in a round; with it, what
            arrives in the round. The node configuration is `context.node_config`.
        train: `train(network, samples, labels, task)` moves the network in place by a loop, a loss and an optimiser of
            its own, on scaled samples; `task` has the steps, learning rate, batch size and proximal term that the
            server asks for. None: the SGD that simulated devices train with.
        cache: how samples that stream in are kept, in the folder `state-dir` of the node configuration.
        model: network instead of the one that the server's settings name; it must have as many parameters, unless
            devices keep models of their own. Or `net.py:function`, this device's copy of the server's model file, which
            must be the same; the server never says which file is executed here.
        meter: joules that this device has used so far, counted from any time; None: RAPL or `nvidia-smi`, if present.
        test: samples on which a device tests a model of its own; it reports how many the model gets right.
    """
    app = ClientApp()

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        key = sealed.public_key(context.node_config)
        asked = wire.unpack_hello(message.content)
        _, y = held(data, cache, context, asked.round, asked.learned, asked.run)
        counts = counted(y, asked.n_classes, asked.learned)
        facts = Facts(device_of(context), asked.round, counts, 0.0, identity(context))
        content = sealed.closed(wire.pack_facts(facts), key, sealed.about_hello(asked.round))
        return Message(content, reply_to=message)

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        key = sealed.public_key(context.node_config)
        task = wire.unpack_task(message.content)
        samples, targets = held(data, cache, context, task.round, task.learned, task.run)
        begun_s = time.perf_counter()
        learner = learner_of(task, samples, targets, model)
        metering = Metering(meter, gpu=learner.device.type == "cuda")
        right, tested = 0, 0
        folder = state_folder(context, task.run)
        done = trained(task, learner, folder) if train is None else own_loop(task, learner, train)
        if done.own is not None and test is not None:
            x, y = test(context, task.round)
            x = apply(task.scaling, np.asarray(x, dtype=np.float32), "the test set of this device")
            right, tested = right_of(learner, done.own, Samples(x, y, learner.device)), len(y)
        update = done.update
        payload = payload_of(task, update, folder) if task.coding else None
        compute_s, used = time.perf_counter() - begun_s, metering.used()
        counts, name = counted(targets, task.n_classes, task.learned), identity(context)
        facts = Facts(device_of(context), task.round, counts, compute_s, name, right, tested, *used)
        content = wire.pack_facts(facts, update, task.mask, payload, done.tail)
        return Message(sealed.closed(content, key, sealed.about_task(task.round, task.device)), reply_to=message)

    return app


def learner_of(task: Task, samples: np.ndarray, targets: Targets, model: Network | str | None = None) -> Learner:
    """Build the engine that also trains simulated devices, for one device with its samples and its network.

    Samples are scaled with the statistics of the task, which are those of the server's test set, not with their own.
    """
    settings: TrainConfig = from_dict(TrainConfig(), task.train)
    inputs = apply(task.scaling, samples, "the data of this device")
    here = Samples(inputs, targets, pick_device(settings.device))
    build = partial(_named, task, model) if isinstance(model, str | None) else model
    named: ModelConfig = from_dict(ModelConfig(), task.model)
    network = initialise(lambda: build(here.shape, task.n_classes), task.seed)
    architecture = Architecture.of(choose(network, named.train), named.buffers)
    check_fits(architecture, here, task.n_classes, task.learned)
    if architecture.n_params != task.n_params and task.report is None:
        raise BadInput(
            f"the network of this device has {architecture.n_params} parameters and the server's has {task.n_params}: "
            "give both the same one"
        )
    n_tail, sent = architecture.tail.n, 0 if task.tail is None else len(task.tail)
    if n_tail != sent and (sent or (architecture.tail.sent and task.report is None)):
        raise BadInput(
            f"the network of this device has {n_tail} running statistics and the server's has {sent}: give both the "
            "same one"
        )
    return Learner([architecture], here, here, settings, task.seed, task=task.learned)


class Done(NamedTuple):
    """The result of training on a device."""

    update: Vector  # sent, or the report of a model that it keeps
    own: Vector | None = None  # a whole model that it judges on test samples of its own
    tail: Vector | None = None  # running statistics that are sent beside the update


def trained(task: Task, learner: Learner, folder: Path | None) -> Done:
    """Train one task and return what the device sends. It keeps a model or norm layers of its own in its folder.

    With norm layers of its own, it tests the model that it got together with the layers it had before this training.
    """
    first = learner.initial().cpu().numpy()
    model = None if task.report is None else kept_in(folder, MODEL, first, "a model of one's own")
    begin = task.start if model is None else model.start(task.round)
    norms = _kept_norms(task, learner, begin, folder)
    row = task.tail if norms is None else norms.start(task.round)
    carried = None if row is None else Carried(_there(learner, row), _there(learner, row)[None])
    bound = learner if carried is None else learner.carrying(carried)
    found = bound.train(Start(_there(learner, begin)[None], np.zeros(1, dtype=np.int64)), work_of(task, learner))
    update = _numbers(found.delta)  # may train only now, which also fills `kept` and `carried.rows`
    own = None if model is None else _numbers(found.kept)
    after = None if carried is None or carried.rows is None else _numbers(carried.rows)
    if own is not None:
        _keep_finite(folder, MODEL, Kept(task.round, begin, own))
    if norms is None or row is None or after is None:
        return Done(update, own, after)
    _keep_finite(folder, STATISTICS, Kept(task.round, row, after))
    judged = (begin, row) if own is None else (own, after)
    return Done(update, learner.architectures[0].with_own(*map(from_numpy, judged)).numpy())


def _kept_norms(task: Task, learner: Learner, begin: Vector, folder: Path | None) -> Kept | None:
    """The norm layers that a device keeps, at first those of the model that it got; None if it keeps none."""
    if task.tail is not None or not learner.n_own:
        return None
    layout = learner.architectures[0]
    first = layout.own_of(cat([from_numpy(begin.copy()), layout.tail.of(layout.module)])).numpy()
    return kept_in(folder, STATISTICS, first, "a norm layer of one's own")


def _keep_finite(folder: Path | None, name: str, kept: Kept) -> None:
    if folder is not None and np.isfinite(kept.after).all():
        keep(folder, name, kept)


def own_loop(task: Task, learner: Learner, train: Train) -> Done:
    """Train with the user's own loop; entries outside of the task's mask do not change."""
    lacking = {"report": "a report of its model", "shift": "a constant gradient", "objective": "a loss of its own"}
    for name, what in lacking.items():
        if getattr(task, name) is not None:
            raise BadInput(f"the server's method wants {what}, which your own loop does not have: leave out train=")
    architecture, held = learner.architectures[0], learner.train_samples
    if learner.n_own and task.tail is None:
        raise BadInput("your own loop does not keep norm layers: set model.buffers=average, or leave out train=")
    network = architecture.replica(learner.device)
    own = None if task.tail is None else _there(learner, task.tail)
    architecture.load(network, _there(learner, task.start), own)
    samples, labels = held.take(np.arange(len(held)))
    train(network, samples, labels, task)
    update = architecture.flat(network).numpy() - task.start
    if task.mask is not None:
        update = np.where(task.mask, update, 0).astype(np.float32)
    return Done(update, tail=None if own is None else architecture.tail.of(network).numpy())


def work_of(task: Task, learner: Learner) -> Work:
    """The task as one row of work on all samples of the device."""
    size, home = len(learner.train_samples), learner.device
    mask, shift = (None if part is None else from_numpy(part).to(home) for part in (task.mask, task.shift))
    return Work(
        device=np.array([task.device]),
        store=Store(np.arange(size)[None], np.array([size])),
        steps=np.array([task.steps]),
        lr=task.lr,
        batch_size=task.batch_size,
        round=task.round,
        momentum=task.momentum,
        prox=task.prox,
        mask=mask,
        objective=function_of(task.objective, home),
        shift=None if shift is None else shift[None],
        report=function_of(task.report, home),
        optimiser=Optimiser.of(learner.settings),
        augment=learner.settings.augment != "none",
    )


def _there(learner: Learner, vector: Vector) -> Tensor:
    return from_numpy(vector.copy()).to(learner.device)


def _numbers(rows: Tensor) -> Vector:
    """The single row as a NumPy vector."""
    row: Vector = rows[0].cpu().numpy().copy()
    return row


def right_of(learner: Learner, model: Vector, test: Samples) -> int:
    """How many test samples a model gets right."""
    if not len(test):
        return 0
    scores = learner.evaluate(from_numpy(model).to(learner.device), test)
    return round(scores["accuracy"] * len(test))


def _named(task: Task, file: str | None, shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Build the network that the server names; for a model file, from this device's own copy."""
    settings: ModelConfig = from_dict(ModelConfig(), task.model)
    if file is None and in_file(settings.name):
        fix = f"give client_app(model={settings.name!r}) the path of this device's copy"
        raise BadInput(f"the server's network is that of the file {settings.name}, which this device has not: {fix}")
    if file is not None:
        if checksum(split(file)[0]) != settings.sha256:
            raise BadInput(f"{file} is not the model file of the server, {settings.name}: give both the same one")
        settings = replace(settings, name=file)
    return models.build(settings, shape, n_classes)
