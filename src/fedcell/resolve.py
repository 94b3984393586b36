"""The front door: from methods and dotted keys, as a user writes them, to checked settings and parsed methods.

`run`, `sweep`, `deploy` and Python share it. A key belongs to the config, such as `world.radius_m`, or to a method that
is part of the run, such as `fedprox.mu`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from . import coding as codings
from . import methods as library
from . import options, scenarios
from .data import Dataset
from .errors import BadInput, did_you_mean
from .learn.model_files import pinned
from .methods import Choice
from .options import flat
from .scenarios import Config, Scenario
from .types import Method
from .until import written_goals
from .unused_settings import notices


class Keys(NamedTuple):
    """Settings sorted by what they belong to."""

    config: dict[str, Any]
    methods: dict[str, dict[str, Any]]  # by the name or file of a method


class Resolved(NamedTuple):
    """What a user asked for, ready to run."""

    config: Config
    methods: tuple[Choice | tuple[str, Method], ...]
    notices: tuple[str, ...]  # settings that change nothing


def resolve(
    preset: Scenario,
    methods: Sequence[str | tuple[str, Method]],
    settings: Mapping[str, Any],
    dataset: Dataset | None = None,
) -> Resolved:
    """Apply dotted keys to a preset and to the methods of a run; raises BadInput for a key that belongs to neither.

    Args:
        preset: where the settings start from.
        methods: texts `NAME[+CODING][:key=value,...]`, or pairs of a label and a `Method`, which are left as they are.
        settings: values by dotted key. A setting in a method's text wins over one given here.
        dataset: the user's own samples, on which some settings have no effect.
    """
    keys = sort_keys(settings, [one for one in methods if isinstance(one, str)], preset)
    config = configure(preset, keys.config)
    found, unused = list[Any](methods), [scenarios.without_effect(config, keys.config, dataset)]
    for n, text in enumerate(methods):
        if isinstance(text, str):
            given = keys.methods.get(text.partition(":")[0], {})
            found[n] = choose(text, preset, given)
            unused.append(library.without_effect(found[n], given))
    return Resolved(config, tuple(found), tuple(notices(unused)))


def configure(preset: Scenario, changes: Mapping[str, Any]) -> Config:
    """Return the preset's config with dotted keys changed; a model file gets its absolute path and its checksum."""
    config: Config = options.override(preset.config, changes)
    return replace(config, model=pinned(config.model))


def with_names(settings: Mapping[str, Any], model: object, dataset: object) -> dict[str, Any]:
    """Add a model or data set given as a text, `net.py:function` or `wine.npz`, to the settings under its key."""
    changes = dict(settings)
    for key, value in (("model.name", model), ("data.name", dataset)):
        if isinstance(value, str) and changes.setdefault(key, value) != value:
            raise BadInput(f"{key} is set to {changes[key]} and to {value}: drop one of them")
    return changes


def choose(text: str, preset: Scenario, given: Mapping[str, Any]) -> Choice:
    """Parse a method's text. Its settings come from the preset, `given` and the text; later ones win."""
    name = text.partition(":")[0]
    return library.parse(text, {**preset.methods, name: {**preset.methods.get(name, {}), **given}})


def sort_keys(values: Mapping[str, Any], methods: Sequence[str], preset: Scenario) -> Keys:
    """Sort keys into those of the config and those of the methods, whose texts are given as the user wrote them.

    `topk.fraction` and `fedavg.lr` also apply to `fedavg+topk`; `fedavg+topk.lr` only applies to it, and wins.
    """
    names = list(dict.fromkeys(text.partition(":")[0] for text in methods))
    sections = [entry.name for entry in fields(preset.config)]
    groups = [name for name in sections if is_dataclass(getattr(preset.config, name))]
    found = Keys({}, {})
    for key, value in sorted(values.items(), key=lambda item: "+" in item[0]):
        section, _, rest = key.partition(".")
        owners = [name for name in names if rest and library.owns(name, section, rest)]
        if key == "scenario":
            raise BadInput(f"scenario = {value} is no setting: use --scenario {value}, or scenario={value!r} in Python")
        if isinstance(value, Mapping):
            inner = next(iter(flat({key: value})), key)
            raise BadInput(f"{key} holds settings of its own: write dotted keys with one value each, such as {inner!r}")
        if section in sections and (rest or key not in groups):
            found.config[key] = value
        elif not owners:
            raise BadInput(_unknown(key, names, preset))
        for name in owners:
            found.methods.setdefault(name, {})[rest] = value
    return found


def with_until(settings: Mapping[str, Any], until: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Add the conditions of an `until` argument to the settings; raises BadInput if both have conditions."""
    if until is None:
        return settings
    if "until" in settings:
        raise BadInput(f"until is an argument and settings have it, too ({settings['until']!r}): drop one of them")
    return {**settings, "until": written_goals(until)}


def read_pairs(texts: Iterable[str], where: str) -> dict[str, str]:
    """`key=value` texts as a dict.

    >>> read_pairs(["rounds=3", "data.counts=1,2"], "--set")
    {'rounds': '3', 'data.counts': '1,2'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise BadInput(f"{where} {text!r} has no value: write key=value")
        if key in found:
            raise BadInput(f"{where} {key} is given twice: drop one of them")
        found[key] = value
    return found


def _unknown(key: str, names: Sequence[str], preset: Scenario) -> str:
    section = key.partition(".")[0]
    if section in library.names() and not any(section == name.partition("+")[0] for name in names):
        return f"{key}: method {section!r} is not part of this run: name it, or drop the setting"
    if section in codings.names() and not any(section == name.partition("+")[2] for name in names):
        return (
            f"{key}: coding {section!r} is not part of this run: name it, as in fedavg+{section}, or drop the setting"
        )
    known = [name for name, _, _ in options.keys(preset.config)]
    inside = [name for name in known if name.startswith(f"{key}.")]
    if inside:
        return f"{key} is a section: set one of its keys, such as {inside[0]} (fedcell list keys shows all)"
    for name in names:
        known += [f"{library.word(name)}.{own}" for own, _, _ in options.keys(library.load(name).Config())]
    ends = [name for name in known if name.endswith(f".{key}")]
    near = f": did you mean {' or '.join(map(repr, ends[:3]))}?" if ends else did_you_mean(key, known)
    return f"unknown key {key!r}{near} (fedcell list keys shows all)"
