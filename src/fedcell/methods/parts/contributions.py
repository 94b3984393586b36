"""The last contribution of every device: what a server keeps to use again when a device stays away.

One float32 row per device, `[n_devices, n_params]` in all, cut into pages. A page is never written to after it was
made: a round replaces the pages of the devices it heard and shares the others, so a snapshot taken before stays whole
and a round costs the memory of the pages that changed. Large models have one row per page. With very many devices,
of which a round hears few, pages are small. A page whose devices were never heard takes no memory. If all rows together
would not fit into memory, new pages lie in mapped files. Not a method itself: it has no `build`.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...learn.memory import fits, spilled
from ...types import Bools, Floats, Ints

PAGE_BYTES = 4 * 2**20
MANY_BYTES = 2**30  # of all rows, from which on pages are small: a round that hears few devices replaces few bytes
SMALL_BYTES = 256 * 2**10
MOST_PAGES = 2**15  # of which each may be a mapped file; Linux lets a process have about twice as many


class Contributions(NamedTuple):
    """What was last heard from every device; rows of devices never heard are zero."""

    pages: tuple[Tensor | None, ...]  # [n_devices, n_params] together; None: nobody of the page was heard
    height: int  # rows of every page but the last
    norm: Floats  # [n_devices], of the rows
    seen: Bools  # [n_devices], heard at least once
    steps: Ints  # [n_devices], local steps behind the row, 0 if never heard


def nothing(n_devices: int, n_params: int) -> Contributions:
    """An empty buffer, as before the first round."""
    height = _height(n_devices, 4 * max(n_params, 1))
    return Contributions(
        pages=(None,) * -(-n_devices // height),
        height=height,
        norm=np.zeros(n_devices),
        seen=np.zeros(n_devices, dtype=np.bool_),
        steps=np.zeros(n_devices, dtype=np.int64),
    )


def _height(n_devices: int, row_bytes: int) -> int:
    """Rows of a page.

    >>> _height(1000, 2600), _height(10**6, 2600), _height(10**6, 31400), _height(10**6, 10**6)
    (1613, 100, 31, 31)
    """
    all_bytes = n_devices * row_bytes
    if all_bytes <= MANY_BYTES:
        return max(1, PAGE_BYTES // row_bytes)
    return max(1, SMALL_BYTES // row_bytes, -(-n_devices // MOST_PAGES))


def remember(
    kept: Contributions,
    device: Ints,
    delta: Tensor,
    steps: Ints,
    scale: Floats,
    offset: Tensor | None = None,
    mask: Tensor | None = None,
) -> Contributions:
    """A buffer in which `offset + scale[k] * delta[k]` replaces what was kept of `device[k]`.

    Args:
        kept: left as it is.
        device: `[n_rows]`, ascending.
        delta: `[n_rows, n_params]`, copied.
        steps: `[n_rows]`, local steps behind each row.
        scale: `[n_rows]`.
        offset: `[n_params]`.
        mask: bool, `[n_params]` or `[n_rows, n_params]`; entries for which it is false stay as they were.
    """
    if not len(device):
        return kept
    pages, norm, seen, old_steps = list(kept.pages), kept.norm.copy(), kept.seen.copy(), kept.steps.copy()
    factor = torch.from_numpy(scale.astype(np.float32)).to(delta.device)[:, None]
    norms = []
    all_bytes = 4 * len(seen) * delta.shape[1]
    in_memory = not delta.is_cpu or fits(all_bytes)
    for number in np.unique(device // kept.height):
        first, last = np.searchsorted(device, [number * kept.height, (number + 1) * kept.height])
        rows = delta[first:last] * factor[first:last]
        if offset is not None:
            rows += offset
        if mask is not None:
            part = mask if mask.dim() == 1 else mask[first:last]
            rows = torch.where(part, rows, rows_of(kept, device[first:last], rows[0]))
        norms.append(torch.linalg.vector_norm(rows, dim=1))
        size = min(kept.height, len(seen) - number * kept.height)
        page = _replaced(pages[number], size, device[first:last] - number * kept.height, rows)
        if not in_memory:
            page = spilled(page, f"the last updates of {len(seen)} devices, {all_bytes:.3g} bytes in all")
        pages[number] = page
    norm[device] = torch.cat(norms).double().cpu().numpy()
    seen[device], old_steps[device] = True, steps
    return Contributions(tuple(pages), kept.height, norm, seen, old_steps)


def rows_of(kept: Contributions, device: Ints, like: Tensor) -> Tensor:
    """What was last heard from each of `device`, `[n_rows, n_params]`, made where `like` lies."""
    out = like.new_zeros((len(device), len(like)))
    for number in np.unique(device // kept.height):
        page = kept.pages[number]
        if page is not None:
            mine = np.flatnonzero(device // kept.height == number)
            place = torch.from_numpy(device[mine] - number * kept.height).to(page.device)
            out[torch.from_numpy(mine).to(out.device)] = page[place]
    return out


def row_of(kept: Contributions, device: int) -> Tensor | None:
    """What was last heard from one device, in place, `[n_params]`; None if it was never heard."""
    page = kept.pages[device // kept.height]
    return None if page is None or not kept.seen[device] else page[device % kept.height]


def weighted_sum(kept: Contributions, weights: Floats, like: Tensor) -> Tensor:
    """`sum_u weights[u] * row[u]` over the devices heard, `[n_params]`, made where `like` lies."""
    shares, total = np.where(kept.seen, weights, 0.0).astype(np.float32), torch.zeros_like(like)
    if kept.height == 1:  # a product with one column takes a GPU ten times as long as adding it up
        for number, page in _written(kept):
            total.add_(page[0], alpha=float(shares[number]))
        return total
    heard = torch.from_numpy(shares).to(like.device)
    for number, page in _written(kept):
        total.addmv_(page.T, heard[number * kept.height :][: len(page)])
    return total


def cosines(kept: Contributions, vector: Tensor) -> Floats:
    """`<vector, row> / (|vector| |row|)` of every device, 0 if one of them is zero.

    Reference: osafl, Eq. (20)
    """
    dots = np.zeros(len(kept.seen))
    found = {number: page @ vector for number, page in _written(kept)}
    if found:
        values = torch.cat(list(found.values())).double().cpu().numpy()
        dots[np.isin(np.arange(len(dots)) // kept.height, list(found))] = values
    size = kept.norm * float(torch.linalg.vector_norm(vector))
    return np.clip(np.divide(dots, size, out=np.zeros_like(dots), where=size > 0), -1.0, 1.0)


def _written(kept: Contributions) -> list[tuple[int, Tensor]]:
    """Number and content of every page that has any."""
    return [(number, page) for number, page in enumerate(kept.pages) if page is not None]


def _replaced(page: Tensor | None, size: int, place: Ints, rows: Tensor) -> Tensor:
    """A page of `size` rows with some of them new."""
    if len(rows) == size:
        return rows
    if rows.is_cpu:  # by one thread: a round makes a thousand pages, and several would wait for each other
        found = np.zeros((size, rows.shape[1]), dtype=np.float32) if page is None else page.numpy().copy()
        found[place] = rows.numpy()
        return torch.from_numpy(found)
    at = torch.from_numpy(place).to(rows.device)
    if page is None:
        return rows.new_zeros((size, rows.shape[1])).index_copy_(0, at, rows)
    return page.index_copy(0, at, rows)
