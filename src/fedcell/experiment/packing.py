"""Pack the runs of a paper into the one file that travels with the repository.

Kept are the runs that the experiments of the paper ask for with their present settings, and of each run the columns
that verdicts, figures and tables read: `pack` makes all three and watches which columns are looked at. Stores
that come from other machines are merged; of two runs with the same settings and seed the later file counts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadInput, FedcellError
from . import stores
from .catalogue import ExperimentFile, load, opened
from .frame import Experiment, judge
from .runs import ids_of
from .stores import ENDING, PACKED, Row

ALWAYS = (
    "case",
    "seed",
    "diverged",
    "rounds",
    "accuracy",
    "seconds",
    "joules",
    "final_accuracy",
    "best_accuracy",
    "made_by",
)


class Pack(NamedTuple):
    """What was packed."""

    path: Path
    n_runs: int
    n_left_out: int  # runs that no experiment asks for
    n_bytes: int


def pack(entries: Sequence[ExperimentFile], results: Path, sources: Sequence[Path] = ()) -> Pack:
    """Write the packed file of a paper.

    Args:
        entries: all experiments of the paper.
        results: its folder of results: stores are read there, and the packed file is written there.
        sources: more stores and packed files, or folders of them.
    """
    every = {
        (name, stores.lasting(line["key"])): line
        for path in (results / PACKED, *_files(results), *(one for source in sources for one in _given(source)))
        for name, line in _lines(path)
    }
    kept: dict[tuple[str, str], set[str]] = {}
    with opened(entries[0].path.parent):
        for entry in entries:
            experiment = load(entry)
            store = experiment.store or entry.name
            own = [line["row"] for (name, _), line in every.items() if name == store]
            ids = [(store, one) for one in ids_of(experiment.cases(False), own)]
            rows = {one: every[one]["row"] for one in ids if one in every}
            seen = _seen(entry, experiment, list(rows.values()))
            for one in rows:
                kept.setdefault(one, set()).update(seen)
    path = results / PACKED
    if not kept:
        raise FedcellError(
            f"no runs of {entries[0].paper} to pack: {len(every)} on file, none that an experiment asks for"
        )
    stores.write_packed(path, [_thin(one, every[one], columns) for one, columns in kept.items()])
    return Pack(path, len(kept), len(every) - len(kept), path.stat().st_size)


class _Watched(Row):
    """A row that notes which columns are looked at."""

    def __init__(self, row: Row, seen: set[str]) -> None:
        super().__init__(row)
        self.seen = seen

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)


def _seen(entry: ExperimentFile, experiment: Experiment, rows: Sequence[Row]) -> set[str]:
    seen: set[str] = set()
    watched: list[Row] = [_Watched(stores.rounded(row), seen) for row in rows]
    try:
        judge(experiment, watched)
        experiment.plot(watched)
        if experiment.table:
            experiment.table(watched)
    except Exception as error:
        raise FedcellError(f"{entry} cannot be judged from its runs: {type(error).__name__}: {error}") from error
    return seen


def _thin(one: tuple[str, str], line: dict[str, Any], columns: set[str]) -> dict[str, Any]:
    row = {name: value for name, value in line["row"].items() if name in columns or name in ALWAYS}
    timed = {"machine_s": round(line["machine_s"], 3)} if "machine_s" in line else {}
    return {"store": one[0], "key": line["key"], "row": row, **timed}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{ENDING}"))


def _given(source: Path) -> list[Path]:
    """The files that are meant by a file or a folder."""
    found = [source] if source.is_file() else [*sorted(source.glob(PACKED)), *_files(source)]
    wrong = [path for path in found if path.name != PACKED and not path.name.endswith(ENDING)]
    if wrong or not found:
        what = wrong[0] if wrong else source
        raise BadInput(f"{what} holds no runs: give {PACKED}, a file that ends in {ENDING}, or a folder of them")
    return found


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(store, line) of every run in a file."""
    if path.name == PACKED:
        yield from ((line["store"], line) for line in stores.read_packed(path))
    else:
        yield from ((stores.name_of(path), line) for line in stores.lines_of(path))
