"""A device in a Flower federation: it trains what it is asked to on samples that never leave it.

What leaves it: the update, how many samples of each label it holds, and how long it computed. If the method has devices
keep models of their own, a report of the model leaves it instead of the update. With `server-key` in the node
configuration all of it is sealed for the server.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, from_numpy, nn
from torch.nn.utils import vector_to_parameters

from ..data import load, partition
from ..data.scaling import apply
from ..errors import BadInput
from ..learn import models
from ..learn.architecture import Architecture, trainable
from ..learn.learner import Learner, check_fits, initialise, pick_device
from ..learn.samples import Samples
from ..learn.settings import ModelConfig, TrainConfig
from ..learn.work import Work
from ..options import from_dict
from ..record.files import write_atomic
from ..types import Ints, Start, Store
from . import sealed, wire
from .cache import DiskCache
from .calls import function_of
from .coded import payload_of
from .kept import Kept, keep, kept_in
from .meters import Meter, Metering
from .settings import read
from .tasks import Task, Vector
from .wire import Facts

Data = Callable[[Context, int], tuple[np.ndarray, Ints]]  # node and run, round -> samples, labels
MODEL = "model.safetensors"  # in the folder of a device that keeps one
Train = Callable[[nn.Module, Tensor, Tensor, Task], object]  # network, samples, labels, what the server asks for
Network = Callable[[tuple[int, ...], int], nn.Module]  # shape of a sample, number of classes


class CacheSettings(NamedTuple):
    """What a device keeps of samples that stream in."""

    capacity: int
    rule: str = "drsr"
    theta: float = 2 / 3


def client_app(
    data: Data,
    *,
    train: Train | None = None,
    cache: CacheSettings | None = None,
    model: Network | None = None,
    test: Data | None = None,
    meter: Meter | None = None,
) -> ClientApp:
    """A ClientApp that trains for a server of `fedcell.deploy.flower`.

    Args:
        data: float32 samples, not scaled yet, and whole-number labels of this device. Without `cache`, all that it
            holds in a round; with it, what arrives in a round. The node configuration is `context.node_config`.
        train: `train(network, samples, labels, task)` moves the network in place by a loop, a loss and an optimiser of
            its own, on scaled samples; `task` has the steps, learning rate, batch size and proximal term that the
            server asks for. None: the SGD that simulated devices train with.
        cache: how samples that stream in are kept, in the folder `state-dir` of the node configuration.
        model: network instead of the one that the server's settings name; it must have as many parameters, unless
            devices keep models of their own.
        meter: joules that this device has used so far, from any beginning; None: RAPL or `nvidia-smi`, if there is one.
        test: samples that a device judges a model of its own on, and says how many it has right.
    """
    app = ClientApp()

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        key = sealed.public_key(context.node_config)
        round, n_classes = wire.unpack_hello(message.content)
        _, labels = held(data, cache, context, round)
        facts = Facts(device_of(context), round, counted(labels, n_classes), 0.0, identity(context))
        content = sealed.closed(wire.pack_facts(facts), key, sealed.about_hello(round))
        return Message(content, reply_to=message)

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        key = sealed.public_key(context.node_config)
        task = wire.unpack_task(message.content)
        samples, labels = held(data, cache, context, task.round)
        begun_s = time.perf_counter()
        learner = learner_of(task, samples, labels, model)
        metering = Metering(meter, gpu=learner.device.type == "cuda")
        right, tested = 0, 0
        if train is not None:
            update, own = own_loop(task, learner, train), None
        else:
            update, own = trained(task, learner, state_folder(context))
        if own is not None and test is not None:
            x, y = test(context, task.round)
            x = apply(task.scaling, np.asarray(x, dtype=np.float32), "the test set of this device")
            right, tested = right_of(learner, own, Samples(x, y, learner.device)), len(y)
        payload = payload_of(task, update, state_folder(context)) if task.coding else None
        compute_s, used = time.perf_counter() - begun_s, metering.used()
        counts, name = counted(labels, task.n_classes), identity(context)
        facts = Facts(device_of(context), task.round, counts, compute_s, name, right, tested, *used)
        content = wire.pack_facts(facts, update, task.mask, payload)
        return Message(sealed.closed(content, key, sealed.about_task(task.round, task.device)), reply_to=message)

    return app


def learner_of(task: Task, samples: np.ndarray, labels: Ints, model: Network | None = None) -> Learner:
    """The engine that simulated devices are trained with, for one device, its samples and its network.

    Samples are scaled with the statistics of the task, which are those of the server's test set, not with their own.
    """
    settings: TrainConfig = from_dict(TrainConfig(), task.train)
    inputs = apply(task.scaling, samples, "the data of this device")
    here = Samples(inputs, labels, pick_device(settings.device))
    build = model or partial(_named, task)
    architecture = Architecture.of(initialise(lambda: build(here.shape, task.n_classes), task.seed))
    check_fits(architecture, here, task.n_classes)
    if architecture.n_params != task.n_params and task.report is None:
        raise BadInput(
            f"the network of this device has {architecture.n_params} parameters and the server's has {task.n_params}: "
            "give both the same one"
        )
    return Learner([architecture], here, here, settings, task.seed)


def trained(task: Task, learner: Learner, folder: Path | None) -> tuple[Vector, Vector | None]:
    """What a device sends of one task, and its model if it keeps one, which lies in its folder."""
    if task.report is None:
        found = learner.train(_start(learner, task.start), work_of(task, learner))
        return _numbers(found.delta), None
    kept = kept_in(folder, MODEL, learner.initial().cpu().numpy(), "a model of one's own")
    begin = kept.start(task.round)
    found = learner.train(_start(learner, begin), work_of(task, learner))
    own = _numbers(found.kept)
    if np.isfinite(own).all() and folder is not None:
        keep(folder, MODEL, Kept(task.round, begin, own))
    return _numbers(found.delta), own


def own_loop(task: Task, learner: Learner, train: Train) -> Vector:
    """What a training loop of one's own moved; entries outside of the task's mask stay."""
    lacking = {"report": "a report of its model", "shift": "a constant gradient", "objective": "a loss of its own"}
    for name, what in lacking.items():
        if getattr(task, name) is not None:
            raise BadInput(
                f"the server's method wants {what}, which a loop of one's own does not have: leave out train="
            )
    architecture, held = learner.architectures[0], learner.train_samples
    network = architecture.replica(learner.device)
    vector_to_parameters(from_numpy(task.start.copy()).to(learner.device), trainable(network))
    samples, labels = held.take(np.arange(len(held)))
    train(network, samples, labels, task)
    update = architecture.flat(network).numpy() - task.start
    return np.where(task.mask, update, 0).astype(np.float32) if task.mask is not None else update


def work_of(task: Task, learner: Learner) -> Work:
    """One row of work on all samples of the device."""
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
    )


def _start(learner: Learner, vector: Vector) -> Start:
    return Start(from_numpy(vector.copy()).to(learner.device)[None], np.zeros(1, dtype=np.int64))


def _numbers(rows: Tensor) -> Vector:
    """The one row of a device."""
    row: Vector = rows[0].cpu().numpy().copy()
    return row


def right_of(learner: Learner, model: Vector, test: Samples) -> int:
    """Test samples that a model has right."""
    scores = learner.evaluate(from_numpy(model).to(learner.device), test)
    return round(scores["accuracy"] * len(test))


def _named(task: Task, shape: tuple[int, ...], n_classes: int) -> nn.Module:
    settings: ModelConfig = from_dict(ModelConfig(), task.model)
    return models.build(settings, shape, n_classes)


# ---------------------------------------------------------------- what a device holds and who it is


def held(data: Data, cache: CacheSettings | None, context: Context, round: int) -> tuple[np.ndarray, Ints]:
    """What a device trains on in a round; with a cache, all rounds since the last one are offered in their order."""
    if cache is None:
        samples, labels = data(context, round)
        return np.ascontiguousarray(samples, dtype=np.float32), np.asarray(labels, dtype=np.int64)
    folder = state_folder(context)
    if folder is None:
        raise BadInput("a cache needs state-dir in the node configuration: name a folder that survives a restart")
    kept = DiskCache(folder / "cache.safetensors", cache.capacity, cache.rule, cache.theta, seed=device_of(context))
    for passed in range(kept.next_round, round + 1):
        samples, labels = data(context, passed)
        kept.offer(passed, np.asarray(samples, dtype=np.float32), np.asarray(labels, dtype=np.int64))
    return kept.contents()


def device_of(context: Context) -> int:
    """The number of this device: `partition-id` of the node configuration, as Flower's own tools set it."""
    number = context.node_config.get("partition-id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise BadInput(f"partition-id = {number!r} in the node configuration is no device: give a number from 0")
    return number


def state_folder(context: Context) -> Path | None:
    """Where this device keeps what must survive a restart; None where the node configuration has no `state-dir`."""
    place = context.node_config.get("state-dir")
    return Path(str(place)).expanduser() if place else None


def identity(context: Context) -> str:
    """A random name that a device keeps in its folder, by which the server knows it again after a restart."""
    folder = state_folder(context)
    if folder is None:
        return ""
    path = folder / "identity"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, secrets.token_hex(16).encode())
    return path.read_text()


def counted(labels: Ints, n_classes: int) -> Ints:
    """Samples of each label, `[n_classes]`."""
    if len(labels) and (labels.min() < 0 or labels.max() >= n_classes):
        raise BadInput(f"labels go from {labels.min()} to {labels.max()} but the server knows {n_classes} classes")
    return np.bincount(labels, minlength=n_classes).astype(np.int64)


def share_of(context: Context, round: int = 0) -> tuple[np.ndarray, Ints]:
    """This device's part of the data set that the run configuration names, as loaded, split as in a simulation."""
    config, device = read(context.run_config).config, device_of(context)
    found = load(config.data.name)
    store = partition(config.data, found.y_train, config.world.n_devices, found.n_classes, config.seed)
    if device >= len(store.size):
        raise BadInput(f"partition-id = {device} but world.n_devices = {len(store.size)}: number devices from 0")
    mine = store.items[device, : store.size[device]]
    return found.x_train[mine], found.y_train[mine]
