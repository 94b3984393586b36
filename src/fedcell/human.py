"""Numbers in units a person reads."""

from math import isfinite, isnan

TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
JOULES = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"))
BITS = ((1e12, "Tbit"), (1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit"), (1.0, "bit"))
WHOLE = 99.95  # from here on, three digits have none behind the point
Units = tuple[tuple[float, str], ...]


def scale(value: float, units: Units) -> tuple[float, str]:
    """(size, name) of the largest unit that is not above a value; of the smallest unit if all are.

    >>> scale(5400.0, TIMES)
    (3600.0, 'h')
    """
    return next((unit for unit in units if abs(value) >= unit[0]), units[-1])


def human(value: float, units: Units) -> str:
    """A value in a fitting unit, with three digits; a dash for NaN.

    >>> human(123456.0, JOULES), human(0.0, BITS), human(0.0125, TIMES), human(float("nan"), JOULES)
    ('123 kJ', '0', '12.5 ms', '-')
    >>> human(99.94, JOULES), human(99.96, JOULES)
    ('99.9 J', '100 J')
    """
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else "-" if isnan(value) else str(value)
    size, name = scale(value, units)
    number = value / size
    return f"{number:.0f} {name}" if abs(number) >= WHOLE else f"{number:#.3g} {name}"


def heard(delivered: float, selected: float) -> str:
    """Devices heard out of those selected, each rounded to one decimal; a dash if none were selected.

    >>> heard(16.38, 16.42), heard(3.5, 20.0), heard(20.0, 20.0), heard(0.0, 0.0)
    ('16.4/16.4', '3.5/20', '20/20', '-')
    """
    return "/".join(f"{one:.1f}".removesuffix(".0") for one in (delivered, selected)) if selected else "-"
