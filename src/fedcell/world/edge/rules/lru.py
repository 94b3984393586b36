"""Least recently used: every missed file is kept, and the file whose last request is oldest makes room.

A missed file passes the base station anyway, so keeping it costs no more backhaul.
"""

from collections import OrderedDict

import numpy as np

from ....types import Bools, Ints

NEEDS = ("served",)


def serve(room: int, held: Bools, served: Ints, last: Ints, clock: int, files: Ints) -> tuple[Bools, Bools]:
    """(which requests are hits, what is held afterwards) of one server.

    Args:
        room: files that it can hold.
        held: `[n_files]`, at the start.
        served: `[n_files]`, not used.
        last: `[n_files]`, number of the last request for each file.
        clock: number of the last request of all, not used.
        files: `[n_requests]`, asked for one after another.
    """
    at_start = np.flatnonzero(held)
    kept = OrderedDict.fromkeys(at_start[np.argsort(last[at_start], kind="stable")].tolist())
    hit = np.zeros(len(files), dtype=np.bool_)
    for place, file in enumerate(files.tolist()):
        hit[place] = file in kept
        kept[file] = None
        kept.move_to_end(file)
        if len(kept) > room:
            kept.popitem(last=False)
    after = np.zeros_like(held)
    after[list(kept)] = True
    return hit, after
