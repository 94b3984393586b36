"""A parser whose errors are one sentence with the nearest flag or word, and no usage."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ..errors import BadInput, choose_one, did_you_mean

ELSEWHERE = {  # flags that people look for in another command
    ("fedcell run", "--seeds"): "`fedcell sweep` runs several seeds, and --seed N is one",
    ("fedcell run", "--grid"): "`fedcell sweep` runs a grid, and --set KEY=VALUE sets one value",
    ("fedcell run", "--workers"): "`fedcell sweep` runs methods side by side",
}


class Parser(argparse.ArgumentParser):
    """The parser of `argparse`, except that bad arguments raise BadInput."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see `{self.prog} --help`)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is left over here, where the flags of the command are known."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            word = next((one for one in rest if one.startswith("-")), rest[0])
            if hint := ELSEWHERE.get((self.prog, word.partition("=")[0])):
                self.error(f"{word} is no flag of {self.prog}: {hint}")
            self.error(f"{word} is no flag or argument of {self.prog}{_nearest(word, self._option_string_actions)}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise BadInput(f"{value!r} is no {action.metavar}{choose_one(str(value), [*action.choices])}")


def _nearest(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word.partition("=")[0], list(known))


def run_flags(sub: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that runs methods."""
    sub.add_argument(
        "methods",
        metavar="METHOD",
        nargs="*",
        help="NAME[:key=value,...] or the path of a .py file; without any, those the scenario compares; "
        "or a study, the path of a .toml file, over which flags win",
    )
    sub.add_argument(
        "--model", metavar="NAME", help="a built-in model, or net.py:function, a function in a file that builds one"
    )
    sub.add_argument("--rounds", metavar="N", help="rounds to simulate")
    sub.add_argument(
        "--until",
        metavar="NAME=VALUE",
        action="append",
        help="stop after the round that reaches a metric, such as accuracy=0.9, or has spent seconds=, joules= or "
        "bits=; repeatable, the first that is met counts",
    )
    sub.add_argument(
        "--log",
        metavar="LOGGER=PLACE",
        action="append",
        default=[],
        help="also log to tensorboard=DIR or mlflow=URI_OR_DIR; repeatable",
    )
    sub.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="wall time between checkpoints of a run (default: 10)",
    )
    sub.add_argument("--save-config", metavar="FILE", help="also write what is asked for as a study, a .toml file")
    sub.add_argument("--quiet", action="store_true", help="no progress; notices and errors only")
    sub.add_argument("--json", action="store_true", help="the result as JSON on stdout")


def grid_flag(sub: argparse.ArgumentParser, done: str) -> None:
    """Add `--grid`; `done` says what happens to all combinations: `planned` or `run`."""
    sub.add_argument(
        "--grid",
        metavar=("KEY=VALUE", "VALUE"),
        nargs="+",
        action="append",
        default=[],
        help=f"several values, one word each: --grid world.radius_m=200 400; repeatable, all combinations are {done}",
    )


def read_grid(given: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """The values of every key of `--grid KEY=VALUE VALUE ...` flags."""
    grid: dict[str, list[str]] = {}
    for first, *rest in given:
        key, value = _pair(first)
        grid.setdefault(key, []).extend([value, *rest])
    return grid


def _pair(text: str) -> tuple[str, str]:
    key, _, value = (part.strip() for part in text.partition("="))
    if not key or not value:
        raise BadInput(f"--grid {text!r} has no value: write KEY=VALUE and further values as words of their own")
    return key, value


def until_of(args: argparse.Namespace) -> str | None:
    """The conditions of `--until`; None if there is no such flag."""
    from ..until import written_goals

    return None if args.until is None else written_goals(args.until)


def check_run_flags(args: argparse.Namespace) -> None:
    """Refuse values of these flags that make no sense."""
    if not args.checkpoint_every >= 0:
        raise BadInput(f"--checkpoint-every {args.checkpoint_every:g} is below 0: give seconds of wall time")
    if args.save_config is not None:
        if args.resume:
            raise BadInput(f"--resume takes everything from its folder: drop --save-config {args.save_config}")
        if not args.save_config.endswith(".toml"):
            raise BadInput(f"--save-config {args.save_config} is no .toml file: end its name in .toml")
