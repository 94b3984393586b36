"""What a page knows about a run: its fixed facts, how far it is, and its rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..options import flat, written
from ..record.index import RunInfo, told
from . import places
from .follow import LETTERS, POINTS, Follower


def follower(info: RunInfo, points: int = POINTS, letters: int = LETTERS) -> Follower:
    """A reader of the rows of a run."""
    config = info.config
    sizes = (int(config["rounds"]), int(config["eval_every"]), int(config["world"]["n_devices"]))
    found = Follower(info.folder, *sizes, points, letters)
    found.metric = info.metric
    return found


def facts(info: RunInfo, root: Path) -> dict[str, Any]:
    """The fixed facts of a run, and its state. The identity of a run is its path below `root`."""
    path = info.folder.relative_to(root).as_posix()
    return {
        "id": path,
        "label": info.label,
        "method": source(info),
        "scenario": info.scenario,
        "seed": info.seed,
        "metric": info.metric._asdict(),
        "comparison": info.folder.parent.name if path == "." or "/" not in path else path.rpartition("/")[0],
        **state(info),
    }


def state(info: RunInfo) -> dict[str, Any]:
    """How far a run is."""
    found = {"state": info.state, "message": info.message, "total": info.total_rounds}
    return found | {"traceback": told(info.folder)} if info.state == "failed" else found


def source(info: RunInfo) -> str:
    """The name of the method, or the file that holds it."""
    return Path(info.method.partition(":")[0]).name


def settings(info: RunInfo) -> dict[str, str]:
    """Every setting but the seed: runs with the same ones are averaged over their seeds."""
    return {key: value for key, value in texts(info.config).items() if key != "seed"}


def map_key(config: Mapping[str, Any]) -> str:
    """Runs with the same key share a map."""
    return json.dumps([config.get("world"), config.get("seed")], sort_keys=True)


def cell_map(config: Mapping[str, Any]) -> dict[str, Any]:
    """Places and gains of a run."""
    return places.draw(config)


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested settings as texts by dotted key.

    >>> texts({"rounds": 3, "world": {"radius_m": 400.0, "devices_per_cell": [1, 2]}})
    {'rounds': '3', 'world.radius_m': '400', 'world.devices_per_cell': '1,2'}
    """
    return {key: written(value) for key, value in flat(values).items()}
