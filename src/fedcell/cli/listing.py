"""`fedcell list` and `fedcell data list`: what there is to choose from."""

from collections.abc import Sequence

from .. import coding, data, methods, options, scenarios
from ..errors import BadInput
from ..learn import models
from ..report.table import columns
from ..world.catalogue import BACKWARD, DeviceClass, classes

Rows = list[tuple[str, ...]]


def show(topic: str | None = None, chosen: Sequence[str] = (), scenario: str = "cell") -> str:
    """The text of one topic, or of all but the settings."""
    if chosen and topic != "keys":
        raise BadInput(f"`fedcell list {topic}` takes no method: `fedcell list keys {' '.join(chosen)}` shows settings")
    topics = [topic] if topic else ["methods", "codings", "scenarios", "models", "data"]
    parts = [_section(name, *SECTIONS[name]()) for name in topics if name != "keys"]
    return "\n\n".join(parts + (_keys(chosen, scenario) if topic == "keys" else []))


def _methods() -> tuple[tuple[str, ...], Rows]:
    return ("method", "what it is"), [(name, methods.summary(methods.load(name))) for name in methods.names()]


def _codings() -> tuple[tuple[str, ...], Rows]:
    header = ("coding", "what it is, behind any method that sends updates: fedavg+topk")
    return header, [(name, methods.summary(coding.load(name))) for name in coding.names()]


def _scenarios() -> tuple[tuple[str, ...], Rows]:
    return ("scenario", "what it is"), [(name, scenarios.get(name).summary) for name in scenarios.names()]


def _models() -> tuple[tuple[str, ...], Rows]:
    return ("model", "what it is"), [
        (name, (getattr(models, name).__doc__ or "").split("\n")[0]) for name in models.names()
    ]


def _data() -> tuple[tuple[str, ...], Rows]:
    return ("data set", "where", "what it is"), list(data.available())


def _devices() -> tuple[tuple[str, ...], Rows]:
    header = ("device class", "clock", "step of a small network", "computing", "idle", "source")
    return header, [
        (one.name, f"{one.cpu_hz / 1e6:g} MHz", *_step(one), f"{one.load_watt:g} W", f"{one.idle_watt:g} W", one.source)
        for one in classes().values()
    ]


def _step(one: DeviceClass) -> tuple[str]:
    """Seconds of a local step as `a + b * batch`, for a network with a forward pass of 1 MFLOP."""
    each_s = 1e6 * (1 + BACKWARD) / (one.flops_per_cycle * one.cpu_hz)
    return (f"{one.step_s:g} s + {each_s:.2g} s * batch (1 MFLOP)",)


SECTIONS = {
    "methods": _methods,
    "codings": _codings,
    "scenarios": _scenarios,
    "models": _models,
    "data": _data,
    "devices": _devices,
}


def _keys(chosen: Sequence[str], scenario: str) -> list[str]:
    """Tables of settings: of the methods named, or of the scenario and every method."""
    header = ("key", "default", "type", "meaning")
    parts = []
    if not chosen:
        parts.append(_section(f"scenario {scenario}", header, _described(scenarios.get(scenario).config)))
    for name in chosen or methods.names():
        rows = _described(methods.load(name).Config(), f"{methods.word(name)}.")  # as --set takes them
        parts.append(_section(f"method {name}", header, rows))
    for name in [] if chosen else coding.names():
        parts.append(_section(f"coding {name}", header, _described(coding.load(name).Config(), f"{name}.")))
    return parts


def _described(settings: object, prefix: str = "") -> Rows:
    return [(prefix + key, default, kind, help) for key, kind, default, help in options.describe(settings)]


def _section(title: str, header: tuple[str, ...], rows: Rows) -> str:
    """A heading and aligned columns; the last one is left as long as it is."""
    lines = columns([header, *rows], "<" * len(header))
    return "\n".join([title.upper(), *(f"  {line}" for line in lines)])
