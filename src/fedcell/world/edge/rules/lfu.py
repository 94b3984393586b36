"""Least frequently used: every missed file is kept, and the file that was asked for least often makes room.

Counts run over all requests in the cell, including those before the first round and those for files that were not held.
Of equal counts the file whose last request is oldest goes; the file just asked for stays. A missed file passes the
base station anyway, so keeping it costs no more backhaul.
"""

import numpy as np

from ....types import Bools, Ints

NEEDS = ("served",)


def serve(room: int, held: Bools, served: Ints, last: Ints, clock: int, files: Ints) -> tuple[Bools, Bools]:
    """(which requests are hits, what is held afterwards) of one server.

    Args:
        room: files that it can hold.
        held: `[n_files]`, at the start.
        served: `[n_files]`, requests for each file so far.
        last: `[n_files]`, number of the last request for each file.
        clock: number of the last request of all.
        files: `[n_requests]`, asked for one after another.
    """
    kept = set(np.flatnonzero(held).tolist())
    count, when = served.tolist(), last.tolist()
    hit = np.zeros(len(files), dtype=np.bool_)
    for place, file in enumerate(files.tolist()):
        hit[place] = file in kept
        if not hit[place] and len(kept) >= room:
            kept.remove(min(kept, key=lambda one: (count[one], when[one], one)))
        kept.add(file)
        count[file] += 1
        when[file] = clock + 1 + place
    after = np.zeros_like(held)
    after[list(kept)] = True
    return hit, after
