"""A parser whose errors are one sentence with the nearest flag or word, and no usage."""

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from ..errors import BadInput, choose_one, did_you_mean


class Parser(argparse.ArgumentParser):
    """As `argparse` has it; bad arguments raise BadInput."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see `{self.prog} --help`)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is left over here, where the flags of the command are known."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            word = next((one for one in rest if one.startswith("-")), rest[0])
            self.error(f"{word} is no flag or argument of {self.prog}{_nearest(word, self._option_string_actions)}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise BadInput(f"{value!r} is no {action.metavar}{choose_one(str(value), [*action.choices])}")


def _nearest(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word.partition("=")[0], list(known))
