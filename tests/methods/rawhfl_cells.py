"""Cells of random clients for the tests of RawHFL's allocation."""

import numpy as np

from fedcell.methods.parts.client_planning.problem import Client, compute_joule, upload
from fedcell.methods.rawhfl.selection import Cells


def clients(seed, n=60, most_steps=6, hopeless=True):
    """Around the paper's, in a tighter world; from hopeless to easy, or all able to train at full speed."""
    rng = np.random.default_rng(seed)
    return Client(
        snr_per_watt=10 ** rng.uniform(1.5 if hopeless else 3.5, 6, n),
        bandwidth_hz=np.full(n, 540e3),
        payload_bit=10 ** rng.uniform(5.5, 7, n),
        cycles_per_step=10 ** rng.uniform(7, 9.3 if hopeless else 8, n),
        capacitance=np.full(n, 1e-28),
        most_steps=np.full(n, most_steps),
        cpu_hz=rng.uniform(1.2e9, 2e9, n),
        power_watt=10 ** rng.uniform(-1, 0, n),
        budget_joule=rng.uniform(0.1 if hopeless else 40, 1.5 if hopeless else 80, n),
        deadline_s=10 ** rng.uniform(0 if hopeless else 1.5, 2.2, n),
    )


def only(client, keep):
    return Client(*(part[keep] for part in client))


def grid(n_cells, per_cell, z, psi=None, previous=None):
    """Cells of equal size."""
    n = n_cells * per_cell
    before = np.zeros(n, dtype=bool) if previous is None else previous
    return Cells(np.arange(n) // per_cell, n_cells, np.ones(n, dtype=bool), before, z, z if psi is None else psi)


def spent(client, steps, cpu_hz, power_watt):
    """Seconds and joules by the true formulas."""
    upload_s, upload_joule = upload(client, power_watt)
    return client.cycles_per_step * steps / cpu_hz + upload_s, compute_joule(client, steps, cpu_hz) + upload_joule


def check(client, cells, found):
    """Every plan keeps every limit, C1 to C8, and the columns are those of the plan."""
    on, eligible = found.selected, (found.limit == 0) & cells.available
    assert not (on & ~eligible).any()
    assert (found.steps[eligible] >= 1).all()
    assert (found.steps <= client.most_steps).all()
    assert (found.cpu_hz[eligible] > 0).all()
    assert (found.power_watt[eligible] > 0).all()
    assert (found.cpu_hz <= client.cpu_hz * (1 + 1e-12)).all()
    assert (found.power_watt <= client.power_watt * (1 + 1e-12)).all()
    seconds, joule = (part[eligible] for part in spent(client, found.steps, found.cpu_hz, found.power_watt))
    assert (seconds <= client.deadline_s[eligible] * (1 + 1e-9)).all()
    assert (joule <= client.budget_joule[eligible] * (1 + 1e-9)).all()
    np.testing.assert_allclose((found.compute_s + found.upload_s)[eligible], seconds)
    np.testing.assert_allclose((found.compute_joule + found.upload_joule)[eligible], joule)
    count = np.bincount(cells.cell[on], minlength=cells.n_cells)
    possible = np.bincount(cells.cell[eligible], minlength=cells.n_cells)
    np.testing.assert_array_equal(count, np.minimum(possible, cells.z))
    fresh = np.bincount(cells.cell[eligible & ~cells.previous], minlength=cells.n_cells)
    repeated = np.bincount(cells.cell[on & cells.previous], minlength=cells.n_cells)
    enough = fresh + cells.psi >= cells.z
    assert (repeated[enough] <= cells.psi).all()


def objectives(found, cells, theta):
    """`-theta L + (1 - theta) e` summed over those chosen in every cell."""
    cost = -theta * found.steps + (1 - theta) * (found.compute_joule + found.upload_joule)
    return np.bincount(cells.cell[found.selected], weights=cost[found.selected], minlength=cells.n_cells)
