"""`fedcell report`: one page about the runs in a folder, in one file that works offline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import methods, options, scenarios
from ..errors import BadInput, FedcellError
from ..record.files import refuse_folder, write_asked
from ..record.folder import ENDED, Status, shortage
from ..record.index import RunInfo, find
from ..record.reading import read
from ..report import compare, comparison_lines
from ..report.comparison import COLUMNS
from ..report.groups import differing
from ..report.labels import in_order
from ..report.side_by_side import sections
from ..version import __version__
from . import claims, page, runs
from .follow import Follower
from .settings import config_table, method_table

NAME = "report.html"
NUMBERS = 20_000 * 16  # of all curves together; a run has about 16 columns
LETTERS = 1_200_000  # of all schedule maps together
MOST_POINTS, LEAST_POINTS, MOST_LETTERS = 1500, 40, 600_000  # of one run
MAP_DEVICES = 20_000  # of all cell maps together


def write(folder: str | Path, out: str | Path | None = None, title: str = "") -> Path:
    """Write the report of a run, a comparison or a folder of them, and return its path."""
    folder = Path(folder)
    path = Path(out) if out else folder / NAME
    refuse_folder(path)
    data = collect(folder, title)
    html = page.standalone(data["title"], data, ["report.js"])
    return write_asked(path, html.encode(), "then ask for the report again (the record is whole)")


def collect(folder: Path, title: str = "") -> dict[str, Any]:
    """All that the page shows, as plain values."""
    found = find(folder)
    if not found:
        raise BadInput(f"there is no recorded run in {folder}: name a folder that `fedcell run` or `sweep` made")
    infos, readers, damage = _read(found)
    if not infos:
        raise FedcellError(damage[0])
    settings = [runs.settings(info) for info in infos]
    maps, places = _maps(infos)
    return {
        "title": title or f"fedcell: {folder.resolve().name}",
        "folder": str(folder),
        "version": __version__,
        "question": _question(infos),
        "base": settings[0],
        "runs": [
            {
                **runs.facts(info, folder),
                "settings": {key: value for key, value in own.items() if settings[0].get(key) != value},
                "map": place,
                "totals": reader.totals(),
                "rows": reader.columns(),
            }
            for info, own, reader, place in zip(infos, settings, readers, places, strict=True)
        ],
        "maps": maps,
        "config": config_table(infos),
        "methods": method_table(infos),
        "comparison": _comparison(infos),
        "ledger": claims.rows(infos, claims.experiments_folder()),
        "notes": [*damage, *_notes(readers)],
    }


def _read(found: Sequence[RunInfo]) -> tuple[list[RunInfo], list[Follower], list[str]]:
    """The runs that are whole, their rows, and what is wrong with the others."""
    sound = [info for info in found if info.state != "damaged"]
    points = min(max(NUMBERS // (16 * max(len(sound), 1)), LEAST_POINTS), MOST_POINTS)
    letters = min(LETTERS // max(len(sound), 1), MOST_LETTERS)
    infos, readers, damage = [], [], [info.message for info in found if info.state == "damaged"]
    for info in sound:
        reader = runs.follower(info, points, letters)
        reader.read()
        if short := shortage(info.folder, Status(info.state, info.rounds, info.total_rounds), reader.done):
            damage.append(short)
        else:
            infos.append(info)
            readers.append(reader)
    order = in_order([info.label for info in infos], differing([options.flat(info.config) for info in infos]))
    return [infos[index] for index in order], [readers[index] for index in order], damage


def _question(infos: Sequence[RunInfo]) -> dict[str, Any]:
    """What is compared in which world."""
    names = list(dict.fromkeys(info.scenario for info in infos))
    known = set(scenarios.names())
    labels = {info.label: runs.source(info) for info in infos}
    return {
        "scenarios": [{"name": one, "summary": scenarios.get(one).summary if one in known else ""} for one in names],
        "methods": [{"label": label, "summary": _summary(name)} for label, name in labels.items()],
        "seeds": sorted({info.seed for info in infos}),
        "rounds": sorted({info.total_rounds for info in infos}),
    }


def _comparison(infos: Sequence[RunInfo]) -> dict[str, Any]:
    """What it takes to reach a target, and the differences to the first method, as tables; or why there are none."""
    ended = [info for info in infos if info.state in ENDED]
    if len(ended) < 2:
        return {"sections": [], "lines": []}
    try:
        found = compare([read(info.folder, COLUMNS) for info in ended])
    except FedcellError as error:
        return {"sections": [], "lines": [f"The runs cannot be held against each other: {error}"]}
    _, *tables = sections(found)  # the first is on the page already
    return {"sections": [one._asdict() for one in tables], "lines": comparison_lines(found)}


def _summary(name: str) -> str:
    return methods.summary(methods.load(name)) if name in methods.names() else "a method of the user"


def _maps(infos: Sequence[RunInfo]) -> tuple[list[dict[str, Any]], list[int]]:
    """The different maps, as far as they fit, and which one each run has (-1: none)."""
    maps: list[dict[str, Any]] = []
    index: dict[str, int] = {}
    places, left = [], MAP_DEVICES
    for info in infos:
        key, n_devices = runs.map_key(info.config), int(info.config["world"]["n_devices"])
        if key not in index and left >= n_devices:
            left -= n_devices
            index[key] = len(maps)
            maps.append(runs.cell_map(info.config))
        places.append(index.get(key, -1))
    return maps, places


def _notes(readers: Sequence[Follower]) -> list[str]:
    """What the page leaves out of the runs that it shows."""
    curve = max(reader.points.stride for reader in readers)
    letters = max(reader.letters.stride for reader in readers)
    notes = []
    if curve > 1:
        notes.append(f"Curves show up to every {curve}th round; totals and means are over all rounds.")
    if letters > 1:
        notes.append(f"Schedule maps show up to every {letters}th round; counts of outcomes are over all rounds.")
    return notes
