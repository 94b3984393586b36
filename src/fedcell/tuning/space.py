"""What is searched: settings with a range or a list of values, written as the laws of devices are."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import methods as library
from .. import options
from ..errors import BadInput
from ..methods.parts import pairing
from ..options import Law, written
from ..resolve import resolve
from ..scenarios import Scenario

if TYPE_CHECKING:  # an extra
    from optuna import Trial
    from optuna.distributions import BaseDistribution

DIGITS = 4  # of a number that is drawn, so that names of runs stay short


class Knob(NamedTuple):
    """One setting of the search."""

    key: str
    kind: str  # uniform, log or choice
    values: tuple[Any, ...]  # the ends of a range, or all choices as texts
    whole: bool  # whether its numbers are whole
    preset: Any  # its value without a search

    def distribution(self) -> "BaseDistribution":
        """What Optuna draws from."""
        from optuna import distributions

        if self.kind == "choice":
            return distributions.CategoricalDistribution(self.values)
        if self.whole:
            return distributions.IntDistribution(int(self.values[0]), int(self.values[1]), log=self.kind == "log")
        low, high = self.values
        return distributions.FloatDistribution(low, high, log=self.kind == "log")

    def draw(self, trial: "Trial") -> str:
        """The value of a trial, as it is written in a setting."""
        if self.kind == "choice":
            return str(trial.suggest_categorical(self.key, self.values))
        if self.whole:
            return str(trial.suggest_int(self.key, int(self.values[0]), int(self.values[1]), log=self.kind == "log"))
        drawn = trial.suggest_float(self.key, *self.values, log=self.kind == "log")
        return written(float(f"{drawn:.{DIGITS}g}"))

    def holds(self, value: Any) -> bool:
        """Whether a value is one that the search could draw."""
        if self.kind == "choice":
            return written(value) in self.values
        return isinstance(value, int | float) and self.values[0] <= value <= self.values[1]


def read_space(search: Mapping[str, Any], method: str, preset: Scenario, settings: Mapping[str, Any]) -> list[Knob]:
    """The knobs of `key: range` pairs, checked against the settings of the scenario and the method.

    A range is `0.01..1` (uniform), `0.01~1` (uniform in the logarithm), `a|b|c`, or a list of values.
    """
    if not search:
        raise BadInput("there is nothing to search: name settings and ranges, such as --search train.lr=0.01~1")
    if clash := [key for key in search if key in settings]:
        raise BadInput(f"{clash[0]} is set and searched, too: drop one of them")
    known = _known(method, preset, settings)
    knobs = []
    for key, value in search.items():
        ends = "|".join(map(written, value)) if isinstance(value, list | tuple) else str(value)
        first = ends.partition("|")[0].partition("..")[0].partition("~")[0]
        resolve(preset, [method], {**settings, key: first})  # refuses an unknown key
        knobs.append(_knob(key, ends, *known[key]))
        for end in knobs[-1].values:
            resolve(preset, [method], {**settings, key: written(end)})  # and values that do not fit
    return knobs


def _known(method: str, preset: Scenario, settings: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The type and the present value of every setting."""
    found = resolve(preset, [method], settings)
    known = {key: (entry.type, value) for key, entry, value in options.keys(found.config)}
    (choice,) = found.methods
    assert isinstance(choice, library.Choice)
    for word in {library.word(name) for name in (choice.source, *pairing.split(choice.source)) if name}:
        known |= {f"{word}.{key}": (entry.type, value) for key, entry, value in options.keys(choice.config)}
    return known


def _knob(key: str, text: str, kind: Any, preset: Any) -> Knob:
    if "|" in text or not any(mark in text for mark in ("..", "~")):
        parts = tuple(dict.fromkeys(part.strip() for part in text.split("|")))
        if len(parts) < 2:
            raise BadInput(f"--search {key}={text} leaves no choice: give a range such as 0.01~1, or values a|b")
        return Knob(key, "choice", parts, False, preset)
    try:
        law = Law.parse(text)
    except ValueError as error:
        raise BadInput(f"--search {key}={text} is no range ({error}): write 0.01..1, 0.01~1 or a|b") from None
    whole = kind is int or int in getattr(kind, "__args__", (None,))  # such as `int | None`
    if whole and any(end != int(end) for end in law.values):
        raise BadInput(f"--search {key}={text} is a range of whole numbers: write whole ends")
    ends = tuple(int(end) for end in law.values) if whole else law.values
    return Knob(key, law.kind, ends, bool(whole), preset)
