"""Settings of a federation of real devices, and how to read them from a Flower run configuration."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

from .. import options, scenarios
from ..errors import BadInput
from ..learn.model_files import pinned
from ..methods import pairs
from ..methods.parts.robust import RobustConfig
from ..options import option
from ..resolve import configure, read_pairs, sort_keys
from ..scenarios import Config, Scenario

SECTION = "deploy."  # of keys that are about the federation, among `settings`


@dataclass(frozen=True)
class FederationConfig:
    """How long the server waits, for whom, and what it takes from devices.

    A run configuration has these keys with `-` for `_`, such as `max-share`; its `settings` have `deploy.max_share`.
    """

    min_devices: int = option(0, "devices to wait for before the first round; 0: all of world.n_devices", least=0)
    join_s: float = option(600.0, "longest wait for devices before a round", above=0, infinite=True)
    patience_s: float = option(600.0, "longest wait for the answers of a round, if world.deadline_s is longer", above=0)
    wait: str = option(
        "quorum",
        "continue with the first answers that make the quorum of a method that has one (cafe), or wait for everyone "
        "until the deadline",
        choices=("quorum", "deadline"),
    )
    poll_s: float = option(0.2, "time between two looks for answers", above=0)
    seal_key: str = option(
        "", "file, on the server, with the private key that devices seal their answers for; empty: they do not"
    )
    known_nodes: str = option(
        "",
        "file, on the server, with a line `DEVICE NODE` for each device: the node that its registered key belongs to; "
        "empty: any node may say that it is any device",
    )
    max_norm: float = option(
        10.0,
        "an update longer than so many times the median of the other updates of its round is refused (with three or "
        "more, by length and by length per local step); inf: none is",
        least=1,
        infinite=True,
    )
    max_rise: float = option(
        30.0,
        "an update longer than so many times the longest median of the last 10 rounds is refused; inf: none is",
        least=1,
        infinite=True,
    )
    max_share: float = option(
        0.5, "most that one device counts for among the samples of three or more devices heard; 1: any", above=0, most=1
    )
    max_pull: float = option(
        1.0,
        "most that one device counts for among samples times lengths of three or more updates heard; a longer one is "
        "shortened; 1: any",
        above=0,
        most=1,
    )
    max_stretch: float = option(
        2.0,
        "an update longer than so many times the median of the other updates of its round (three or more) is shortened "
        "to that; inf: none is",
        least=1,
        infinite=True,
    )
    max_against: float = option(
        0.5,
        "an update whose cosine with the sum of the directions of the others (three or more) is below minus this is "
        "refused, if those have a median of 0.2 or more among themselves; 1: none is",
        least=0,
        most=1,
    )
    max_growth: float = option(
        10.0,
        "a device that says it holds more than so many times what it said before, and what the median device holds, is "
        "refused; inf: none is",
        least=1,
        infinite=True,
    )
    max_loss: float = option(
        5.0,
        "a round is not accepted if the test loss after it is more than so many times the loss before it, or that of "
        "guessing if that is higher; inf: any finite model is accepted, and nothing is tested",
        least=1,
        infinite=True,
    )
    robust: str = option(
        "",
        "rule of robust aggregation around the method: median, trimmed:trim=0.2, krum:n_wrong=1, clip or geometric; "
        "empty: as the method does it",
    )
    strikes: int = option(5, "a device refused so many times in a row is left out; 0: never", least=0)


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
    own, texts = split_own(read_pairs(_words(str(run_config.get("settings", ""))), "settings"))
    keys = sort_keys(texts, [method], preset)
    config = configure(preset, keys.config)
    federation: FederationConfig = options.override(FederationConfig(), _told(run_config, own), SECTION)
    return FederationRequest(
        config=config,
        method=method,
        settings=keys.methods.get(method.partition(":")[0], {}),
        preset=preset,
        federation=federation,
        out=str(run_config.get("out", "")),
    )


def _words(text: str) -> list[str]:
    """The texts of `settings`, split as a shell does; raises BadInput for an open quote."""
    try:
        return shlex.split(text)
    except ValueError as error:
        reason = str(error).lower()
        raise BadInput(f"settings {text!r} cannot be split ({reason}): close the quote, or escape it as \\'") from None


def _told(run_config: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `FederationConfig` in a run configuration and in its `settings`; raises BadInput for one in both."""
    names = {entry.name.replace("_", "-"): entry.name for entry in fields(FederationConfig)}
    given = {name: run_config[key] for key, name in names.items() if key in run_config}
    for key, name in names.items():
        if name in given and name in own:
            both = f"{key} = {given[name]} in the run configuration and {SECTION}{name} = {own[name]} in its settings"
            raise BadInput(f"{both}: drop one of them")
    return {**given, **own}


def split_own(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split settings by dotted key into those of the federation, without `deploy.`, and all others.

    >>> split_own({"deploy.strikes": 3, "rounds": 5})
    ({'strikes': 3}, {'rounds': 5})
    """
    own = {key.removeprefix(SECTION): value for key, value in settings.items() if key.startswith(SECTION)}
    return own, {key: value for key, value in settings.items() if not key.startswith(SECTION)}


def with_model(asked: FederationRequest, name: str) -> FederationRequest:
    """The request with another model, by name or file, that a server app was given."""
    config = asked.config
    return asked._replace(config=replace(config, model=pinned(replace(config.model, name=name, sha256=""))))


def robust_rule(text: str) -> RobustConfig | None:
    """The rule that `deploy.robust` names; None without one."""
    name = text.partition(":")[0]
    if not name:
        return None
    return cast(RobustConfig, options.override(RobustConfig(), {"rule": name, **dict(pairs(text))}, "deploy.robust."))


def longest_s(config: Config, federation: FederationConfig) -> float:
    """How long the server waits for the answers of a round."""
    return min(config.world.deadline_s, federation.patience_s)
