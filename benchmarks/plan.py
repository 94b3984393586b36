"""Plans against simulations: how far seconds, joules and bits of a round are off, in every scenario.

    python benchmarks/plan.py [SCENARIO ...] [--rounds 30] [--seconds 6]    # every method that a scenario compares
    python benchmarks/plan.py --guesses [--rounds 30] [--seeds 3]           # what `--no-train` gets wrong

The first simulates each method, with training and evaluations, for so many rounds or seconds, whichever is less, and
plans the same rounds as `fedcell plan` does, which trains if costs depend on what devices learn. Prints a Markdown
table with a row per scenario, in which the worst method counts, and one for each method that was trained, with what
`--no-train` guesses behind it. Scenarios of `SMALLER` have their own data and world, but a small network.

The second plays methods that decide by what devices learn with and without training, in the world of their scenario
with digits, and prints how far mean seconds, joules and bits of a round are off on the worst seed.
"""

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fedcell import scenarios
from fedcell.errors import FedcellError
from fedcell.methods import Choice
from fedcell.plan.drawing import draw, guessed
from fedcell.resolve import resolve
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate
from fedcell.types import Method, Problem, Row

NETWORK = {"model.name": "mlp", "model.hidden": "32", "model.norm": "none"}
NARROW = {"model.channels": "4,4", "model.hidden": "16,16"}
SMALLER: dict[str, dict[str, Any]] = {  # networks of which a few rounds take minutes on a CPU
    "osafl": {"model.hidden": "16"},
    "osafl_cnn": {"model.channels": "4,4", "model.hidden": "16"},
    "osafl_lstm": {"model.width": "16", "model.layers": "1"},
    "osafl_squeezenet": NETWORK,
    "pruning_vgg": NETWORK,
    "recycling_vgg": NETWORK,
    "recycling_vgg_printed": NETWORK,
    "rawhfl": {"model.hidden": "16,16"},
    "representativity": NARROW,
}
MORE = {  # methods and worlds that no scenario compares, but whose costs depend on what devices learn
    "cell": (["oort", "power_of_choice", "fedavg+qsgd", "fedavg+stc"], {}),
    "cell over the air": (["fedavg"], {"world.access": "air"}),
}
DIGITS = {"model.name": "mlp", "model.hidden": "32", "data.name": "digits", "data.scaling": "unit"}
GUESSED = {
    "recycling": ["recycling:scheduler=gradient"],
    "recycling_mnist": ["recycling:scheduler=gradient"],
    "representativity": [
        f"representativity:policy={one}" for one in ("representativity", "both", "gradient_norm", "power_of_choice")
    ],
    **{name: methods for name, (methods, _) in MORE.items()},
}


class Compared(NamedTuple):
    """One method in one scenario."""

    label: str
    rounds: int
    trained: bool
    plan: np.ndarray  # seconds, joules and bits, in % of the simulation
    guess: np.ndarray  # the same without training


def costs(rows: Sequence[Row]) -> np.ndarray:
    """Mean seconds, joules and bits of a round."""
    return np.mean([(row.round_s, row.joule, row.uplink_bit) for row in rows], axis=0)


def off(planned: Sequence[Row], real: Sequence[Row]) -> np.ndarray:
    """How far means are off, in %."""
    there = costs(real)
    return 100 * np.divide(costs(planned) - there, there, out=np.zeros(3), where=there > 0)


def worst(found: Sequence[np.ndarray]) -> np.ndarray:
    """Of every column, the entry that is farthest from 0."""
    table = np.array(found)
    return table[np.abs(table).argmax(axis=0), np.arange(table.shape[1])]


def simulated(problem: Problem, method: Method, rounds: int, seconds: float) -> list[Row]:
    """The first rounds of a run, so many or as many as fit, and at least two."""
    began_s, rows = time.monotonic(), list[Row]()
    for row, _ in islice(simulate(problem, method), rounds):
        rows.append(row)
        if len(rows) > 1 and time.monotonic() - began_s > seconds:
            break
    return rows


def compared(
    name: str, methods: Sequence[str], settings: dict[str, Any], rounds: int, seconds: float
) -> Iterator[Compared]:
    """Every method of a scenario, simulated and planned."""
    found = resolve(scenarios.get(name), methods, settings)
    problem = build_problem(found.config)
    for choice in found.methods:
        assert isinstance(choice, Choice)  # named by text
        method = choice.build()
        real = simulated(problem, method, rounds, seconds)
        trained = bool(guessed(problem, method))
        guess = off(draw(problem, method, rounds=len(real)).rows, real)
        plan = off(draw(problem, method, True, len(real)).rows, real) if trained else guess
        yield Compared(choice.label, len(real), trained, plan, guess)


def cells(values: np.ndarray, between: str = " | ") -> str:
    return between.join("0 %" if value == 0 else f"{value:+.1f} %" for value in values)


def show_plans(names: Sequence[str], rounds: int, seconds: float) -> None:
    """The table of all scenarios, row by row."""
    print("| scenario | methods | rounds | seconds | joules | bits | guess of `--no-train`: seconds, joules, bits |")
    print("|---|---|---|---|---|---|---|", flush=True)
    chosen = list(names) or [*scenarios.names(), "cell: more", "cell over the air"]
    for name in chosen:
        scenario = name.partition(":")[0].partition(" ")[0]
        methods, changes = MORE.get(name.partition(":")[0], ((), {})) if name not in scenarios.names() else ((), {})
        settings = SMALLER.get(scenario, {}) | changes
        try:
            found = list(compared(scenario, methods or scenarios.get(scenario).compare, settings, rounds, seconds))
        except FedcellError as error:
            print(f"| `{name}` | not planned: {error} |", flush=True)
            continue
        small = " (small network)" if scenario in SMALLER else ""
        lengths = sorted({one.rounds for one in found})
        span = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        print(
            f"| `{name}`{small} | {len(found)} | {span} | {cells(worst([one.plan for one in found]))} | |", flush=True
        )
        for one in found:
            if one.trained or one.plan.any():
                word = "trained" if one.trained else "not trained"
                print(
                    f"| | `{one.label}`, {word} | {one.rounds} | {cells(one.plan)} | {cells(one.guess)} |", flush=True
                )


def show_guesses(rounds: int, n_seeds: int) -> None:
    """The table of methods that `--no-train` guesses."""
    print("| scenario | method | seconds | joules | bits |\n|---|---|---|---|---|", flush=True)
    for name, methods in GUESSED.items():
        _, changes = MORE.get(name, ((), {}))
        for text in methods:
            found = []
            for seed in range(1, n_seeds + 1):
                settings = DIGITS | {"rounds": rounds, "seed": seed} | changes
                asked = resolve(scenarios.get(name.partition(" ")[0]), [text], settings)
                (choice,) = asked.methods
                assert isinstance(choice, Choice)  # named by text
                problem, method = build_problem(asked.config), choice.build()
                guess, real = (draw(problem, method, train).rows for train in (False, True))
                found.append(off(guess, real))
            print(f"| `{name}` | `{text}` | {cells(worst(found))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", metavar="SCENARIO", nargs="*", help="default: all, and methods beyond them")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--guesses", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # settings without effect
    if args.guesses:
        show_guesses(args.rounds, args.seeds)
    else:
        show_plans(args.scenarios, args.rounds, args.seconds)


if __name__ == "__main__":
    main()
