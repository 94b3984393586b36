"""The settings of runs as tables: what was changed first, and what it was changed from."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import coding, methods, options, scenarios
from ..methods.parts.pairing import split
from ..record.index import RunInfo
from .runs import texts

SettingRow = dict[str, Any]


def config_table(infos: Sequence[RunInfo]) -> list[SettingRow]:
    """Every setting of world, data, model and training: its values here, in the scenario's preset, and by default."""
    here = [texts(info.config) for info in infos]
    default = texts(options.to_dict(scenarios.Config()))
    preset = dict(default)
    names = {info.scenario for info in infos}
    if len(names) == 1 and names <= set(scenarios.names()):
        preset = texts(options.to_dict(scenarios.get(*names).config))
    about = {key: help for key, _, _, help in options.describe(scenarios.Config())}
    rows = [_row(key, here, preset.get(key, ""), default.get(key, ""), about.get(key, "")) for key in _keys(here)]
    return sorted(rows, key=lambda row: row["rank"])


def method_table(infos: Sequence[RunInfo]) -> list[SettingRow]:
    """Every setting of the methods; files of a user are not executed for it, so theirs have no defaults."""
    rows = []
    known = {*methods.names()}
    codings = {"", *coding.names()}
    for info in {info.label: info for info in infos}.values():
        name = info.method.partition(":")[0]
        method, coded_by = split(name)
        builtin = method in known and coded_by in codings
        config = methods.load(name).Config() if builtin else None
        default = texts(options.to_dict(config)) if builtin else {}
        about = {key: help for key, _, _, help in options.describe(config)} if builtin else {}
        for key, value in texts(info.settings).items():
            before = default.get(key, "" if builtin else value)
            rows.append(_row(key, [{key: value}], before, before, about.get(key, "")) | {"method": info.label})
    return sorted(rows, key=lambda row: row["rank"])


def _row(key: str, here: Sequence[Mapping[str, str]], preset: str, default: str, help: str) -> SettingRow:
    values = list(dict.fromkeys(one.get(key, "") for one in here))
    changed, special = values != [preset], values != [default]
    rank = 0 if len(values) > 1 else 1 if changed else 2 if special else 3
    return {"key": key, "values": values, "preset": preset, "default": default, "help": help, "rank": rank}


def _keys(here: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(key for one in here for key in one))
