"""Plans as a text, as plain values, and as a figure over a knob."""

from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..methods import owns
from ..options import written
from ..record.files import nulled
from ..report.knobs import SHARE, KnobPanel, KnobPoint, save_knobs
from ..report.labels import split_text
from ..report.table import BITS, JOULES, MORE, MORE_MEANING, TIMES, Units, aligned, human
from .cell import LEARNT, CellPlan, Spread
from .drawing import GUESSES

MEANING = (
    "able: devices that could deliver one local step alone on the whole band or the best block, at the best clock and "
    "power. heard: devices that the method hears at least once. asked: per round. delivered: share of those, in %. "
    "time, energy, uplink: of a round, mean (5 % to 95 % of the rounds). batteries: rounds until the first is empty, "
    "and until half are."
)
WHOLE = " energy: all of it."
HINTS = dict.fromkeys(GUESSES, "; --train plays its rounds with training") | {LEARNT: "; --no-train guesses at once"}
PANELS: tuple[tuple[str, str, Units], ...] = (
    ("round_s", "time of a round", TIMES),
    ("round_joule", "energy of a round", JOULES),
    ("delivered_share", "delivered (%)", SHARE),
    ("heard", "devices heard", ((1.0, ""),)),
)


def text(plans: Sequence[CellPlan]) -> str:
    """The table of plans, and what they assume."""
    keys = list(dict.fromkeys(key for one in plans for key in one.varied))
    header = ["method", *keys, "able", "heard", "asked", "delivered", "time", "energy", "uplink", "batteries"]
    more = [column for column in MORE if any(getattr(one, column[0]) for one in plans)]
    rows = [[*header, *(title for _, title, _ in more)]]
    rows += [[*_cells(one, keys), *(human(getattr(one, name), units) for name, _, units in more)] for one in plans]
    meaning = "".join([MEANING, *(MORE_MEANING[name] for name, _, _ in more), WHOLE if more else ""])
    first = plans[0]
    seeds = f"{len(first.seeds)} seeds" if len(first.seeds) > 1 else f"seed {first.seeds[0]}"
    drawn = f"{first.n_devices} devices, {_span([one.rounds for one in plans])} rounds drawn on {seeds}"
    lines = [f"{first.scenario}: {drawn}, {_trained(plans)}", ""]
    return "\n".join([*lines, *aligned(rows), "", meaning, *_remarks(plans, keys)])


def _span(numbers: Sequence[int]) -> str:
    """The number, or `LOW to HIGH` if they differ."""
    return " to ".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))


def _trained(plans: Sequence[CellPlan]) -> str:
    labels = dict.fromkeys(one.label for one in plans if one.trained)
    if not labels:
        return "nothing trained"
    return "all trained" if all(one.trained for one in plans) else f"only {', '.join(labels)} trained"


def _cells(one: CellPlan, keys: Sequence[str]) -> list[str]:
    share = f"{100 * one.delivered_share:.1f}" if isfinite(one.delivered_share) else "-"
    return [
        one.label,
        *(_knob(one, key) for key in keys),
        f"{one.able:g}/{one.n_devices}",
        f"{one.heard:g}",
        f"{one.selected:.1f}",
        share,
        _between(one.round_s, TIMES),
        _between(one.round_joule, JOULES),
        human(one.round_bit.mean, BITS),
        f"{_rounds(one.first_empty_round)} / {_rounds(one.half_empty_round)}",
    ]


def _knob(one: CellPlan, key: str) -> str:
    return written(one.varied[key]) if key in one.varied else "-"


def _between(found: Spread, units: Units) -> str:
    if found.high - found.low <= 1e-9 * abs(found.mean):
        return human(found.mean, units)
    return f"{human(found.mean, units)} ({human(found.low, units)} to {human(found.high, units)})"


def _rounds(number: float) -> str:
    return f"{number:.0f}" if isfinite(number) else "-"


def _remarks(plans: Sequence[CellPlan], keys: Sequence[str]) -> list[str]:
    """A line for everything that keeps devices out, and for what a plan assumes."""
    lines, notes = [], dict[str, list[str]]()
    for one in plans:
        name = " ".join([one.label, *(f"{key}={_knob(one, key)}" for key in keys if key in one.varied)])
        for what, reasons in (("cannot take part", one.unable), ("are never heard", one.unheard)):
            if reasons and one.selected:
                words = ", ".join(f"{count:g} {reason}" for reason, count in reasons.items())
                lines.append(f"{name}: {sum(reasons.values()):g} devices {what} ({words})")
        for note in one.notes:
            notes.setdefault(f"{note}{HINTS.get(note, '')}", []).append(name)
    lines += [f"{'all' if len(who) == len(plans) > 1 else ', '.join(who)}: {note}" for note, who in notes.items()]
    return ["", *dict.fromkeys(lines)] if lines else []


def as_json(plans: Sequence[CellPlan]) -> list[dict[str, Any]]:
    """Plain values; numbers that JSON lacks become null."""
    found = []
    for one in plans:
        values = one._asdict()
        values |= {name: values[name]._asdict() for name in ("round_s", "round_joule", "round_bit")}
        found.append(nulled(values))
    return found


def save(plans: Sequence[CellPlan], path: str | Path) -> Path:
    """Draw time, energy, delivered share and devices heard over the first knob that has several values."""
    known = list(dict.fromkeys(key for one in plans for key in one.varied))
    keys = [key for key in known if len({_knob(one, key) for one in plans if key in one.varied}) > 1]
    if not keys:
        raise BadInput("a figure of a plan is drawn over a knob: give one several values with --grid KEY=VALUE VALUE")
    shown = [one for one in plans if keys[0] in one.varied]
    panels = [KnobPanel(title, units, [_point(one, keys, name) for one in shown]) for name, title, units in PANELS]
    return save_knobs(keys[0], panels, path)


def _label_without(label: str, key: str) -> str:
    """The text of a method without a setting of its own.

    >>> _label_without("fedprox:mu=0.1,steps=5", "fedprox.mu"), _label_without("fedprox:steps=5", "train.steps")
    ('fedprox:steps=5', 'fedprox:steps=5')
    """
    method, pairs = split_text(label)
    section, _, name = key.partition(".")
    kept = [pair for pair in pairs if not (owns(method, section, name) and pair.startswith(f"{name}="))]
    return method + (f":{','.join(kept)}" if kept else "")


def _point(one: CellPlan, keys: Sequence[str], name: str) -> KnobPoint:
    others = [f"{key}={_knob(one, key)}" for key in keys[1:] if key in one.varied]
    label = " ".join([_label_without(one.label, keys[0]), *others])
    value = getattr(one, name)
    if isinstance(value, Spread):
        return KnobPoint(label, one.varied[keys[0]], value.mean, value.low, value.high)
    return KnobPoint(label, one.varied[keys[0]], value, nan, nan)
