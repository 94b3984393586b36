"""Named presets, and the way from settings to a problem.

A scenario is a file in this folder with a docstring, `CONFIG`, and optionally `METHODS` (settings per
method) and `COMPARE` (the methods a bare `fedcell run` compares).
"""

import importlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from .. import rng
from ..arguments import kind_of
from ..data import Dataset, devices_of_test, load, partition, scaled, skewed
from ..data.characters import CharactersConfig
from ..data.datasets import retasked
from ..data.generated import GENERATORS, Drawn
from ..data.partition import BY_LABEL
from ..data.poison import flipped_labels
from ..data.settings import DataConfig
from ..data.targets import Targets
from ..data.video import VideoConfig
from ..errors import BadInput, did_you_mean
from ..learn import models
from ..learn.architecture import Architecture, choose
from ..learn.engines.cpu.native import compiler_path
from ..learn.learner import Learner
from ..learn.samples import Samples
from ..learn.settings import ModelConfig, TrainConfig
from ..learn.setup import check_fits, initialise, pick_device
from ..learn.steadiness import check_steady
from ..learn.tasks import LEARNED, refuse_without_labels
from ..machine import cores, one_thread
from ..metrics import CLASSIFICATION
from ..options import check, keys, option, written
from ..types import Ints, Problem, Store, Stream
from ..until import written_goals
from ..unused_settings import unused_settings
from ..world import binomial_stream, build_world, markov_stream, static_stream
from ..world.attack import attackers
from ..world.settings import StreamConfig, WorldConfig


@dataclass(frozen=True)
class Config:
    """Everything that defines a run except the method: the command line, the record and the docs."""

    scenario: str = option("cell", "the preset these settings start from")
    seed: int = option(1, "every random draw of the run follows from it", least=0)
    rounds: int = option(60, "rounds to simulate", least=1)
    eval_every: int = option(1, "rounds between two evaluations on the test set", least=1)
    until: str = option(
        "",
        "stop after the round that meets one of these: a metric, seconds, joules or bits, as in accuracy=0.9,joules=50",
    )
    world: WorldConfig = field(default_factory=WorldConfig)
    data: DataConfig = field(default_factory=DataConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    video: VideoConfig = field(default_factory=VideoConfig)
    characters: CharactersConfig = field(default_factory=CharactersConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", written_goals(self.until))


class Scenario(NamedTuple):
    """A preset."""

    config: Config
    methods: Mapping[str, Mapping[str, Any]]
    compare: tuple[str, ...]
    summary: str


def names() -> list[str]:
    """Every scenario in this folder."""
    return [*_names()]


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in iter_modules(__path__)))


def get(name: str) -> Scenario:
    """The scenario called `name`."""
    if name not in names():
        hint = did_you_mean(str(name), names())
        raise BadInput(f"unknown scenario {name!r}{hint} (fedcell list scenarios shows all)")
    module = importlib.import_module(f"{__name__}.{name}")
    summary = (module.__doc__ or "").strip().split("\n")[0]
    return Scenario(
        module.CONFIG, getattr(module, "METHODS", {}), getattr(module, "COMPARE", ("fedavg", "central")), summary
    )


def build_problem(
    config: Config, dataset: Dataset | None = None, model: nn.Module | None = None, samples_each: int = 0
) -> Problem:
    """Data, split, network, world and learner of the settings.

    Args:
        config: the settings; validated here.
        dataset: samples to use instead of `data.name`.
        model: network to use instead of `model.name`; its present weights are the start.
        samples_each: samples that every device holds instead of its part of a split. Devices may share samples, so
            there may be more devices than samples. Only for plans, which train nothing. 0: as the settings say.
    """
    if not isinstance(config, Config):
        raise BadInput(f"config is {kind_of(config)}: give a fedcell.Config, such as scenarios.get('cell').config")
    check(config)
    _check_own(dataset, model)
    _check_used(config, dataset)
    cores()  # refuses a FEDCELL_CORES that is no number before anything is done
    compiler_path()  # and a FEDCELL_COMPILER that is not there
    device = pick_device(config.train.device)
    train, test, stream, n_classes, scaling, task = _samples(config, dataset, device, samples_each)
    with one_thread():  # others take longer to start than networks to be copied
        own = [Architecture.of(_chosen(model, config.model.train), config.model.buffers)] if model else None
        architectures = own or _architectures(config, train.shape, n_classes)
        for architecture in architectures:
            check_fits(architecture, train, n_classes, task)
            check_steady(architecture, train, config.model.buffers)
            if config.model.buffers == "local" and architecture.tail.n:  # devices are judged on classes that they hold
                refuse_without_labels(task, "model.buffers = 'local'", "use average or frozen")
        of_device = _of_device(config, len(architectures))
        learner = Learner(architectures, train, test, config.train, config.seed, of_device, task)
    learner.n_classes = n_classes
    flops = np.zeros(len(architectures))
    if (
        0 in config.world.cycles_per_sample.values or config.world.device_table
    ):  # counting is slow to start, so only if it is asked for
        sample = train.take(np.zeros(1, dtype=np.int64))[0][0].cpu()
        flops = np.array([one.flops_per_sample(sample, config.model.flops) for one in architectures])
    each = flops[0] if of_device is None else flops[of_device]
    world = build_world(config.world, stream, learner.n_sent, each, config.seed)
    hopeless = LEARNED[task].hopeless(train.labels)
    return Problem(world, learner, config.train, config.seed, config.rounds, config.eval_every, scaling, hopeless)


def _check_own(dataset: object, model: object) -> None:
    """Raise BadInput unless a given data set and a given model are of the right types."""
    if dataset is not None:
        check_dataset(dataset)
    if not isinstance(model, nn.Module | None):
        found = f"the class {model.__name__}" if isinstance(model, type) else kind_of(model)
        raise BadInput(
            f"model is {found}: give a torch.nn.Module that is built, such as torch.nn.Linear(64, 10), or a text "
            "such as 'net.py:function'"
        )


def check_dataset(dataset: object) -> None:
    """Raise BadInput unless this is a `Dataset`."""
    if not isinstance(dataset, Dataset):
        raise BadInput(
            f"dataset is {kind_of(dataset)}: make one with fedcell.from_arrays, or give a text such as 'mine.npz'"
        )


def without_effect(config: Config, given: Iterable[str], dataset: Dataset | None = None) -> dict[str, str]:
    """`unused_settings` of the given keys, without those of unused sections, which `build_problem` refuses."""
    unused = _unused(config, dataset)
    return unused_settings(config, [key for key in given if key.partition(".")[0] not in unused])


def _check_used(config: Config, dataset: Dataset | None) -> None:
    """Refuse changed settings of sections that are not used; values of the defaults or the scenario are no change."""
    preset = get(config.scenario).config if config.scenario in names() else Config()
    usual = (Config(), preset)
    unused = _unused(config, dataset)
    for key, _, value in keys(config):
        cause = unused.get(key, unused.get(key.partition(".")[0]))
        if cause and all(value != attrgetter(key)(one) for one in usual):
            raise BadInput(f"{key} = {written(value)} changes nothing with {cause}: drop the one or change the other")


def _unused(config: Config, dataset: Dataset | None) -> dict[str, str]:
    """Sections that are not used, each with the setting that is the cause; an empty cause marks a key that is used."""
    name, kind = f"data.name = {config.data.name}", f"stream.kind = {config.stream.kind}"
    if dataset is None and config.data.name in GENERATORS:
        others = dict.fromkeys(GENERATORS.keys() - {config.data.name}, name)
        return {"data": name, "data.name": "", "stream": name, **others}
    unused = dict.fromkeys(GENERATORS, name if dataset is None else "a data set of your own")
    if config.stream.kind == "markov":  # draws labels itself
        unused |= {"data": kind, "data.name": "", "data.scaling": "", "data.task": ""}
    return unused | {"stream": kind} if config.stream.kind == "static" else unused


def _chosen(model: nn.Module, names: str) -> nn.Module:
    """The user's network if all of it trains, else a copy in which only the chosen parameters train."""
    return model if names == "all" else choose(deepcopy(model), names)


def _architectures(config: Config, shape: tuple[int, ...], n_classes: int) -> list[Architecture]:
    """The networks that devices have, each with a start of its own."""
    return [
        Architecture.of(
            initialise(
                lambda one=one: choose(models.build(one, shape, n_classes), one.train),  # type: ignore[misc]
                config.seed,
                f"model {one.hidden[-2]}" if config.model.widths else "model",
            ),
            config.model.buffers,
        )
        for one in config.model.variants()
    ]


def _of_device(config: Config, n_architectures: int) -> Ints | None:
    """Draw the architecture of each device, `[n_devices]`; None if there is only one."""
    if n_architectures == 1:
        return None
    return rng.stream(config.seed, rng.SETUP, "model.widths").integers(n_architectures, size=config.world.n_devices)


def _samples(config: Config, dataset: Dataset | None, device: torch.device, samples_each: int) -> Drawn:
    """Training samples, test samples, how they reach the devices, the number of classes, and how inputs are scaled."""
    if dataset is None and (generate := GENERATORS.get(config.data.name)):
        if samples_each:
            raise BadInput(f"{config.data.name} says how many samples each device holds: drop --samples")
        if config.world.attack == "label_flip":
            raise BadInput(
                f"world.attack = 'label_flip' does not go with data.name = {config.data.name!r}, whose samples are "
                "made as devices meet them: use sign_flip, scale or noise"
            )
        settings = getattr(config, config.data.name)
        return generate(settings, config.world.n_devices, config.rounds, config.seed, device)
    own = dataset is None  # nobody else holds what is loaded here
    found = retasked(dataset, config.data.task) if dataset else load(config.data.name, config.data.task)
    if found.task == "next-token" and config.data.scaling != "unit":
        raise BadInput(f"data.scaling = {config.data.scaling!r} would change the tokens of {found.name!r}: use unit")
    _refuse_label_rules(config, found.task)
    test_owner = None
    if config.stream.kind != "markov" and not samples_each:  # else no device has samples of its own
        found = skewed(config.data, found, config.world.n_devices, config.seed)
        test_owner = devices_of_test(config.data, found, config.world.n_devices, config.seed)
    found = scaled(found, config.data.scaling, reuse=own)
    labels = found.y_train if samples_each else _labels(config, found)
    train, test = Samples(found.x_train, labels, device), Samples(found.x_test, found.y_test, device)
    test.owner = test_owner
    stream = _equal_stores(config, len(train), samples_each) if samples_each else build_stream(config, found)
    return Drawn(train, test, stream, found.n_classes, found.scaling, found.task)


def _labels(config: Config, dataset: Dataset) -> Targets:
    """Labels as devices have them: those of attackers may be wrong."""
    if config.world.attack != "label_flip":
        return dataset.y_train
    refuse_without_labels(dataset.task, "world.attack = 'label_flip'", "use sign_flip, scale or noise")
    if config.stream.kind == "markov":
        raise BadInput(
            "world.attack = 'label_flip' needs samples that belong to one device, and stream.kind = 'markov' draws "
            "from all: use stream.kind=static or binomial, or sign_flip, scale or noise"
        )
    attacker = attackers(config.world, config.world.n_devices, config.seed)
    return flipped_labels(config.data, dataset, attacker, config.seed)


def _equal_stores(config: Config, n_samples: int, each: int) -> Stream:
    """Every device holds so many samples, and one sample may be on several devices."""
    n_devices = config.world.n_devices
    items = np.arange(n_devices * each, dtype=np.int64).reshape(n_devices, each) % n_samples
    return static_stream(Store(items, np.full(n_devices, each)))


def build_stream(config: Config, dataset: Dataset) -> Stream:
    """How samples reach the devices, as the `stream` and `data` settings say."""
    settings, n_devices, labels = config.stream, config.world.n_devices, dataset.y_train
    _refuse_label_rules(config, dataset.task)
    if settings.kind == "markov":
        return markov_stream(settings, labels, dataset.n_classes, n_devices, config.seed)
    store = partition(config.data, labels, n_devices, dataset.n_classes, config.seed, dataset.owners)
    if settings.kind == "binomial":
        if dataset.task != CLASSIFICATION:  # the rules that are left look at nothing but the order of arrival
            return binomial_stream(settings, store, np.zeros(len(labels), np.int64), 1, config.seed)
        return binomial_stream(settings, store, labels, dataset.n_classes, config.seed)
    return static_stream(store)


def _refuse_label_rules(config: Config, task: str) -> None:
    """Refuse splits, streams and cache rules that look at class labels if there are none."""
    if config.stream.kind == "markov":
        refuse_without_labels(task, "stream.kind = 'markov'", "use static or binomial")
    elif config.data.partition in BY_LABEL:
        refuse_without_labels(task, f"data.partition = {config.data.partition!r}", "use iid or counts")
    if config.stream.kind == "binomial" and config.stream.cache in ("srsr", "drsr"):
        refuse_without_labels(task, f"stream.cache = {config.stream.cache!r}", "use fifo or lazy")
