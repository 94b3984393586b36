"""Check the arguments of public Python functions: what does not fit is refused in one sentence, before any work."""

from collections.abc import Callable, Collection
from numbers import Integral, Real
from os import PathLike
from reprlib import repr as shortened
from typing import Any, NamedTuple

from .errors import BadInput


class Kind(NamedTuple):
    """What an argument may be."""

    fits: Callable[[Any], bool]
    fix: str  # what to give instead

    @property
    def or_none(self) -> "Kind":
        """This kind, or None."""
        return self._replace(fits=lambda value: value is None or self.fits(value))


def kind_of(value: object) -> str:
    """The type of a value with its article.

    >>> kind_of(3), kind_of("a"), kind_of(None)
    ('an int', 'a str', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def expect(kind: Kind, **given: object) -> None:
    """Raise BadInput for the first argument that is not of this kind.

    >>> expect(FOLDER.or_none, out=None)
    >>> expect(FOLDER, out=3)
    Traceback (most recent call last):
    fedcell.errors.BadInput: out is 3, an int: give a folder, such as 'runs/mine'
    """
    for name, value in given.items():
        if not kind.fits(value):
            found = "None" if value is None else f"{shortened(value)}, {kind_of(value)}"
            raise BadInput(f"{name} is {found}: {kind.fix}")


def _folder(value: Any) -> bool:
    return isinstance(value, PathLike) or (isinstance(value, str) and value != "")


def _seconds(value: Any) -> bool:
    return _number(value) and float(value) >= 0


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, Collection) and all(isinstance(one, str) for one in value)  # a single text passes, too


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


FOLDER = Kind(_folder, "give a folder, such as 'runs/mine'")
FILE = Kind(_folder, "give the path of a file")
FUNCTION = Kind(callable, "give a function")
LOGGERS = Kind(_texts, "give a text such as 'tensorboard=boards', or a list of them")
NUMBER = Kind(_number, "give a number")
NUMBERS = Kind(lambda value: isinstance(value, Collection) and all(map(_number, value)), "give a list of numbers")
SCENARIO = Kind(lambda value: isinstance(value, str), "give the name of a preset, such as 'cell'")
SECONDS = Kind(_seconds, "give a number of seconds, such as 10")
TEXT = Kind(lambda value: isinstance(value, str), "give a text")
TEXTS = Kind(lambda value: _texts(value) and not isinstance(value, str), "give a list of texts")
WHOLE = Kind(_whole, "give a whole number")
WHOLES = Kind(lambda value: isinstance(value, Collection) and all(map(_whole, value)), "give a list of whole numbers")
