"""Which samples each local step sees: keyed by (seed, round, device), never by what was decided."""

import numpy as np

from ..rng import uniforms
from ..types import Ints, Store


def draw_batches(store: Store, device: Ints, n_draws: Ints, sampling: str, seed: int, round: int) -> tuple[Ints, Ints]:
    """Sample indices for every trained device, in the order its local steps take them.

    A device that needs more draws than another sees the same first draws, so methods that give a
    device more or fewer steps still share their mini-batches.

    Args:
        store: what each row holds, `[n_rows]` rows; no row may be empty.
        device: `[n_rows]` identity of each row, which keys its draws.
        n_draws: `[n_rows]` steps times batch size.
        sampling: `shuffle` walks one shuffled pass after another; `replace` draws uniformly.

    Returns:
        (flat, start): row `k` draws `flat[start[k] : start[k] + n_draws[k]]`.
    """
    size = store.size
    if sampling == "replace":
        lengths = n_draws
        row, place = _ragged(lengths)
        position = (uniforms(seed, round, "batches", device[row], place) * size[row]).astype(np.int64)
    else:
        lengths = -(-n_draws // size) * size  # whole passes
        row, place = _ragged(lengths)
        # Sorting (row, pass) + uniform shuffles every pass of every row in one call.
        order = np.argsort(_pass_number(row, place, size) + uniforms(seed, round, "batches", device[row], place))
        position = (place % size[row])[order]
    return store.items[row, position], np.concatenate([[0], np.cumsum(lengths)[:-1]])


def _ragged(lengths: Ints) -> tuple[Ints, Ints]:
    """Row number and place within the row for every entry of ragged rows laid end to end."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    return row, np.arange(len(row)) - starts[row]


def _pass_number(row: Ints, place: Ints, size: Ints) -> Ints:
    """A number that grows by one with every pass over every row."""
    first_of_pass = place % size[row] == 0
    return np.cumsum(first_of_pass) - 1
