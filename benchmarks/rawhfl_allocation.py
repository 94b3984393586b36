"""RawHFL's allocation: milliseconds of each mode, and what its objective and energy come to.

Clients are drawn as in the paper (a network of 219,648 parameters, 540 kHz each, 150 s, 0.8 to 1.5 J, up to 50 steps)
with path losses of an urban cell. The bars, for `exact`: 4 cells of 12 clients in under 50 ms, 100 cells of 100 clients
in under 10 s. The programs of `sca` are few for the large network, and have no bar.

    python benchmarks/rawhfl_allocation.py [--repeat 5]
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fedcell.methods.parts.client_planning.problem import Client
from fedcell.methods.rawhfl.allocation import Allocation, allocate
from fedcell.methods.rawhfl.sca import Settings, allocate_sca
from fedcell.methods.rawhfl.selection import Cells
from fedcell.units import db_to_ratio, dbm_to_watt

THETA = 0.4
SIZES = ((4, 12, 4, 0.05, 50), (100, 100, 10, 10.0, 3))  # cells, clients of each, chosen of each, bar [s], programs


def draw(n_clients: int, seed: int = 1) -> Client:
    """Clients of the paper's cells; shadowing and distance enter as one spread of the path loss."""
    rng = np.random.default_rng(seed)
    bandwidth_hz = np.full(n_clients, 540e3)
    gain = db_to_ratio(-rng.normal(118.0, 14.0, n_clients))
    return Client(
        snr_per_watt=gain / (bandwidth_hz * dbm_to_watt(-174.0)),
        bandwidth_hz=bandwidth_hz,
        payload_bit=np.full(n_clients, 219_648 * 33.0),
        cycles_per_step=320 * 1376 * rng.uniform(25, 40, n_clients),
        capacitance=np.full(n_clients, 1e-28),
        most_steps=np.full(n_clients, 50),
        cpu_hz=rng.uniform(1.2e9, 2e9, n_clients),
        power_watt=dbm_to_watt(rng.uniform(20, 30, n_clients)),
        budget_joule=rng.uniform(0.8, 1.5, n_clients),
        deadline_s=np.full(n_clients, 150.0),
    )


def fastest(work: Callable[[], Allocation], repeat: int) -> tuple[float, Allocation]:
    """Seconds of the fastest of some runs, and what it returned."""
    seconds = []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds), found


def sca(client: Client, cells: Cells, programs: int) -> Allocation:
    return allocate_sca(client, cells, THETA, Settings(iterations=programs)).allocation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    asked, slow = parser.parse_args(), False
    for n_cells, per_cell, z, bar_s, programs in SIZES:
        n = n_cells * per_cell
        client, everyone = draw(n), np.ones(n, dtype=np.bool_)
        cells = Cells(np.arange(n) // per_cell, n_cells, everyone, np.arange(n) % 3 == 0, z, -(-z // 2))
        modes: dict[str, Callable[[], Allocation]] = {
            "exact": partial(allocate, client, cells, THETA),
            "max": partial(allocate, client, cells, THETA, "max"),
            "sca": partial(sca, client, cells, programs),
        }
        for name, work in modes.items():
            seconds, found = fastest(work, 1 if name == "sca" else asked.repeat)
            size = f"{n_cells} cells of {per_cell}" + (f", {programs} programs" if name == "sca" else "")
            print(
                f"{name:6s} {1e3 * seconds:9.1f} ms for {size}: objective {found.objective(THETA):.4f}, "
                f"{found.joule_term:.2e} J per client chosen, {(found.limit == 0).mean():.0%} eligible"
            )
            slow |= name == "exact" and seconds > bar_s
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
