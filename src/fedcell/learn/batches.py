"""The samples of each local step, drawn by (seed, round, device) and never by what a method decided."""

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
        sampling: `shuffle` walks one shuffled pass after another; `replace` draws uniformly; `store` takes passes
            in the order of the store.

    Returns:
        (flat, start): row `k` draws `flat[start[k] : start[k] + n_draws[k]]`.
    """
    alike = [len(values) and values[0] > 0 and (values == values[0]).all() for values in (n_draws, store.size)]
    if sampling == "shuffle" and all(alike):
        return _shuffled_alike(store, device, int(n_draws[0]), seed, round)
    lengths, start = passes(store, n_draws, sampling)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place, size = np.arange(len(row)) - start[row], store.size[row]
    if sampling == "store":
        return store.items[row, place % size], start
    drawn = uniforms(seed, round, "batches", device[row], place)
    if sampling == "replace":
        position = (drawn * size).astype(np.int64)
    else:
        # Sorting the number of the pass, which grows from row to row, + uniform shuffles all passes in one call.
        in_pass = place % size
        drawn += (in_pass == 0).cumsum() - 1
        position = in_pass[np.argsort(drawn)]
    return store.items[row, position], start


def passes(store: Store, n_draws: Ints, sampling: str) -> tuple[Ints, Ints]:
    """(draws of each row, where they start). Draws are rounded up to whole passes, unless `sampling` is `replace`."""
    lengths = n_draws if sampling == "replace" else -(-n_draws // store.size) * store.size
    return lengths, lengths.cumsum() - lengths


def _shuffled_alike(store: Store, device: Ints, n_draws: int, seed: int, round: int) -> tuple[Ints, Ints]:
    """The draws of `shuffle` in a third of the time, for rows that all hold and draw equally many samples."""
    n_rows, size = len(device), int(store.size[0])
    n_passes = -(-n_draws // size)
    drawn = uniforms(seed, round, "batches", device[:, None], np.arange(n_passes * size))
    position = drawn.reshape(n_rows, n_passes, size).argsort(axis=2).reshape(n_rows, -1)
    return store.items[np.arange(n_rows)[:, None], position].reshape(-1), np.arange(n_rows) * (n_passes * size)
