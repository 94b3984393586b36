"""The best hit ratio that edge servers of a size can have, from the exact chain of requests.

User `u` at file `f` makes `N_u ~ Bin(slots, activity)` requests before the next round. The `k`-th of them follows the
law `P_u^k[f]`, so that the server of cell `b` expects

    D_b(f') = sum_{u in b} sum_{k >= 1} P(N_u >= k) P_u^k[f_u, f']

requests for file `f'`. Hits add up over files, and what servers hold moves no request: to hold the files with the
largest `D_b` is the best there is for a placement made between two rounds, by anybody who knows the laws of all users
and what each asked for last. Without the last requests, `D_b` becomes `sum_u E[N_u] pi_u(f')` with the long-run law
`pi_u`, and the best servers never change what they hold.

Reference: none of the papers has these; derived from osafl, Algorithm 5, and rawhfl, section II-B
"""

from typing import NamedTuple

import numpy as np

from ...rng import SETUP, stream
from ...types import Floats, Ints
from .catalogue import Catalogue
from .ceilings import stationary_law, transition_matrix
from .users import Profiles


class Ceiling(NamedTuple):
    """A mean over drawn states and its standard error."""

    mean: float
    error: float


def at_least(profiles: Profiles) -> Floats:
    """`P(N_u >= k)` for `k = 1 .. most slots`, `[n_users, most slots]`."""
    from scipy.stats import binom  # slow to import, and few runs need it

    k = np.arange(1, int(profiles.slots.max(initial=0)) + 1)
    return np.asarray(binom.sf(k - 1, profiles.slots[:, None], profiles.activity[:, None]), dtype=np.float64)


def request_law(catalogue: Catalogue, profiles: Profiles, user: int) -> Floats:
    """Requests of one user expected before the next round, by the file asked for last, `[n_files, n_files]`."""
    step, chance = transition_matrix(catalogue, profiles, user), at_least(profiles)[user]
    total = np.zeros_like(step)
    for share in chance[::-1]:  # Horner: P (c_1 + P (c_2 + ...))
        total = step @ (share * np.eye(len(step)) + total)
    return total


def expected_requests(laws: Floats, last: Ints, cell: Ints, n_cells: int) -> Floats:
    """`D_b`, `[n_cells, n_files]`.

    Args:
        laws: `request_law` of every user, `[n_users, n_files, n_files]`.
        last: the file that each user asked for last, `[n_users]`.
        cell: of each user, `[n_users]`.
        n_cells: number of cells.
    """
    of_user = laws[np.arange(len(last)), last]
    return np.asarray((cell == np.arange(n_cells)[:, None]).astype(np.float64) @ of_user)


def hit_ceiling(
    catalogue: Catalogue, profiles: Profiles, cell: Ints, room: int, seed: int, n_draws: int = 1000
) -> Ceiling:
    """The best long-run hit ratio of servers that know all laws and every user's last request.

    The mean over `n_draws` joint states, drawn from the exact long-run law of every user.

    Args:
        catalogue: files.
        profiles: users.
        cell: of each user, `[n_users]`.
        room: files that a server can hold.
        seed: of the draws.
        n_draws: joint states to average over.
    """
    laws = np.stack([request_law(catalogue, profiles, user) for user in range(profiles.n_users)])
    states = _states(stationary_law(catalogue, profiles), n_draws, seed)
    made = (profiles.slots * profiles.activity).sum()
    best = np.array([top(expected_requests(laws, last, cell, int(cell.max()) + 1), room) for last in states]) / made
    return Ceiling(float(best.mean()), float(best.std(ddof=1) / np.sqrt(n_draws)))


def static_hit_ceiling(catalogue: Catalogue, profiles: Profiles, cell: Ints, room: int) -> float:
    """The best long-run hit ratio of servers that hold the same files for ever, which know the users' laws alone."""
    asked = (profiles.slots * profiles.activity)[:, None] * stationary_law(catalogue, profiles)
    member = (cell == np.arange(int(cell.max()) + 1)[:, None]).astype(np.float64)
    return top(member @ asked, room) / float(asked.sum())


def top(wanted: Floats, room: int) -> float:
    """The expected hits of servers that hold the most wanted files.

    >>> top(np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]), 1)
    1.5
    """
    return float(np.sort(wanted, axis=1)[:, ::-1][:, :room].sum())


def _states(law: Floats, n_draws: int, seed: int) -> Ints:
    """Files that users asked for last, `[n_draws, n_users]`, each user by the own law."""
    u = stream(seed, SETUP, "edge.ceiling").random((n_draws, len(law)))
    edges = np.cumsum(law, axis=1)
    found = [np.searchsorted(edge / edge[-1], draws, side="right") for edge, draws in zip(edges, u.T, strict=True)]
    return np.stack(found, axis=1)
