"""Placement rules, one file each: what an edge server holds in the coming round.

A rule lists in `NEEDS` what it sees: names of `MAY_KNOW`, or `next`, which no real server could know. It has either
`wanted(view)`, the requests that it expects for each file in each cell, `[n_cells, n_files]`, and servers hold the most
wanted files; or `serve(room, held, served, last, clock, files)`, the cache of one server, which every request changes.

`none`, which has no file, is a network without edge servers.
"""

import importlib
from collections.abc import Collection
from functools import cache
from pkgutil import iter_modules
from types import ModuleType

from ....errors import BadInput, choose_one

NONE = "none"
MAY_KNOW = {  # what a server may see at all, and whose it is
    "served": "the files it has served",
    "reports": "the files that users of its cell name as their next ones",
}


def names() -> list[str]:
    """Every rule in this folder."""
    return sorted(entry.name for entry in iter_modules(__path__))


@cache
def load(name: str) -> ModuleType:
    """Import the rule called `name`."""
    if name not in names():
        raise BadInput(f"video.edge_placement = {name!r} is unknown{choose_one(name, [*names(), NONE])}")
    return importlib.import_module(f"{__name__}.{name}")


def check_known(name: str, knows: Collection[str]) -> None:
    """Refuse a rule that needs what servers may not know; `next`, for references no server could match, is allowed."""
    for part in load(name).NEEDS:
        if part in MAY_KNOW and part not in knows:
            fits = [one for one in names() if set(load(one).NEEDS) <= {*knows, "next"}]
            raise BadInput(
                f"video.edge_placement = {name!r} asks for {MAY_KNOW[part]}, which servers may not know with "
                f"video.edge_knows = {','.join(knows) or 'nothing'}: allow {part!r}, or use {' or '.join(fits)}"
            )
