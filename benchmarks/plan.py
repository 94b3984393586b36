"""Plans against simulations where they may differ: methods that decide by what devices learn.

    python benchmarks/plan.py [--rounds 40] [--seeds 3]

`tests/plan/test_cell_plan.py` holds the plan of every scenario equal to its simulation, bit for bit, except for these
methods, over the air, and codings whose bits follow from the data. Each is played here with and without training, in
the world of its own scenario with digits; prints how far mean seconds, joules and bits of a round are off on
the worst seed.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from fedcell.methods import Choice
from fedcell.plan.cell import LENGTHS, LOOKS, caveats, draw
from fedcell.resolve import resolve
from fedcell.scenarios import build_problem, get
from fedcell.types import Row

DENSE = {"model.name": "mlp", "model.hidden": "32", "data.name": "digits", "data.scaling": "unit"}
CASES = {
    "recycling": ["recycling:scheduler=gradient"],
    "recycling_mnist": ["recycling:scheduler=gradient"],
    "representativity": [
        f"representativity:policy={one}" for one in ("representativity", "both", "gradient_norm", "power_of_choice")
    ],
    "cell": ["oort", "power_of_choice", "fedavg+qsgd"],
    "cell over the air": ["fedavg"],
}
AIR = {"world.access": "air"}


def costs(rows: Sequence[Row]) -> np.ndarray:
    """Mean seconds, joules and bits of a round."""
    return np.mean([(row.round_s, row.joule, row.uplink_bit) for row in rows], axis=0)


def worst(off: np.ndarray) -> np.ndarray:
    """Of every column, the entry that is farthest from 0."""
    return off[np.abs(off).argmax(axis=0), np.arange(off.shape[1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print(f"{'scenario':<18}{'method':<42}{'seconds':>9}{'joules':>9}{'bits':>9}  note")
    for name, asked in CASES.items():
        scenario, _, air = name.partition(" ")
        for text in asked:
            found = []
            for seed in range(1, args.seeds + 1):
                settings = DENSE | {"rounds": args.rounds, "seed": seed} | (AIR if air else {})
                asked_for = resolve(get(scenario), [text], settings)
                (choice,) = asked_for.methods
                assert isinstance(choice, Choice)  # named by text, with the scenario's settings for it
                problem, method = build_problem(asked_for.config), choice.build()
                planned, real = (costs(draw(problem, method, train).rows) for train in (False, True))
                found.append(100 * np.divide(planned - real, real, out=np.zeros(3), where=real > 0))
            notes = {LOOKS: "looks", LENGTHS: "lengths"}
            told = ", ".join(notes[one] for one in caveats(problem, method)) or "none"
            off = "".join(f"{one:>+8.1f}%" for one in worst(np.array(found)))
            print(f"{name:<18}{text:<42}{off}  {told}", flush=True)


if __name__ == "__main__":
    main()
