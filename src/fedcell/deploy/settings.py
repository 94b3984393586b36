"""How a federation of real devices is run, and how a Flower app says so in its run configuration."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from .. import options, scenarios
from ..learn.model_files import pinned
from ..options import option
from ..resolve import configure, read_pairs, sort_keys
from ..scenarios import Config, Scenario


@dataclass(frozen=True)
class FederationConfig:
    """How long the server waits, and for whom. In a run configuration `_` is written `-`."""

    min_devices: int = option(0, "devices to wait for before the first round; 0: all of world.n_devices", least=0)
    join_s: float = option(600.0, "longest wait for devices before a round", above=0, infinite=True)
    patience_s: float = option(600.0, "longest wait for the answers of a round, if world.deadline_s is longer", above=0)
    wait: str = option(
        "quorum",
        "go on with the first answers that make the quorum of a method that has one (cafe), or wait for everyone until "
        "the deadline",
        choices=("quorum", "deadline"),
    )
    poll_s: float = option(0.2, "time between two looks for answers", above=0)
    seal_key: str = option(
        "", "file, on the server, with the private key that devices seal their answers for; empty: they do not"
    )


class FederationRequest(NamedTuple):
    """What a run configuration asks for."""

    config: Config
    method: str  # NAME[:key=value,...]
    settings: Mapping[str, Any]  # of the method, besides those in its text
    preset: Scenario  # where all of them start from
    federation: FederationConfig
    out: str  # folder of the record


def read(run_config: Mapping[str, Any]) -> FederationRequest:
    """The settings of a Flower run configuration: the same on the server and on every device.

    Keys are `method`, `scenario`, `settings` (`key=value` texts separated by spaces, as after `--set`), `out` and the
    fields of `FederationConfig`; all others are left to the app.
    """
    preset = scenarios.get(str(run_config.get("scenario", "cell")))
    method = str(run_config.get("method", "fedavg"))
    keys = sort_keys(read_pairs(shlex.split(str(run_config.get("settings", ""))), "settings"), [method], preset)
    config = configure(preset, keys.config)
    names = {entry.name.replace("_", "-"): entry.name for entry in fields(FederationConfig)}
    given = {name: run_config[key] for key, name in names.items() if key in run_config}
    federation: FederationConfig = options.override(FederationConfig(), given)
    return FederationRequest(
        config=config,
        method=method,
        settings=keys.methods.get(method.partition(":")[0], {}),
        preset=preset,
        federation=federation,
        out=str(run_config.get("out", "")),
    )


def with_model(asked: FederationRequest, name: str) -> FederationRequest:
    """The same with a model by name or file, as a server app gives it."""
    config = asked.config
    return asked._replace(config=replace(config, model=pinned(replace(config.model, name=name, sha256=""))))


def longest_s(config: Config, federation: FederationConfig) -> float:
    """How long the server waits for the answers of a round."""
    return min(config.world.deadline_s, federation.patience_s)
