"""How a federation of real devices is run, and how a Flower app says so in its run configuration."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from .. import options, scenarios
from ..errors import BadInput
from ..options import option
from ..scenarios import Config


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


class Asked(NamedTuple):
    """What a run configuration asks for."""

    config: Config
    method: str  # NAME[:key=value,...]
    defaults: Mapping[str, Mapping[str, Any]]  # settings by method, of the scenario
    federation: FederationConfig
    out: str  # folder of the record


def read(run_config: Mapping[str, Any]) -> Asked:
    """The settings of a Flower run configuration: the same on the server and on every device.

    Keys are `method`, `scenario`, `settings` (`key=value` texts separated by spaces, as after `--set`), `out` and the
    fields of `FederationConfig`; all others are left to the app.
    """
    scenario = scenarios.get(str(run_config.get("scenario", "cell")))
    config: Config = options.override(scenario.config, _pairs(str(run_config.get("settings", ""))))
    names = {entry.name.replace("_", "-"): entry.name for entry in fields(FederationConfig)}
    given = {name: run_config[key] for key, name in names.items() if key in run_config}
    federation: FederationConfig = options.override(FederationConfig(), given)
    return Asked(
        config=config,
        method=str(run_config.get("method", "fedavg")),
        defaults=scenario.methods,
        federation=federation,
        out=str(run_config.get("out", "")),
    )


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for part in shlex.split(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise BadInput(f"settings has {part!r} without a value: write key=value")
        found[key] = value
    return found


def longest_s(config: Config, federation: FederationConfig) -> float:
    """How long the server waits for the answers of a round."""
    return min(config.world.deadline_s, federation.patience_s)
