"""The rows of the ledger that belong to the runs of a page, if the folder of experiments is there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..record.files import parse_json
from ..record.index import RunInfo
from .runs import source

KEPT = ("text", "printed", "ours", "verdict", "reason")


def experiments_folder() -> Path | None:
    """The folder `experiments` here, or beside the source of this installation."""
    here = (Path("experiments"), Path(__file__).parents[3] / "experiments")
    return next((path for path in here if path.is_dir()), None)


def rows(infos: Sequence[RunInfo], folder: Path | None) -> list[dict[str, Any]]:
    """Claims of the papers whose scenario or method was run: what the paper says, what was measured, the verdict."""
    if folder is None:
        return []
    words = {info.scenario for info in infos} | {source(info) for info in infos}
    papers = [path for path in sorted(folder.iterdir()) if any(_belongs(word, path.name) for word in words)]
    return [row for paper in papers for row in _paper(paper)]


def _belongs(word: str, paper: str) -> bool:
    """Whether a scenario or method is that of a paper.

    >>> _belongs("osafl_cnn", "osafl"), _belongs("cell", "cafe")
    (True, False)
    """
    return word == paper or word.startswith(paper + "_")


def _paper(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("results/*.json")):
        try:
            result = parse_json(path.read_text(encoding="utf-8"))
            older = "rules" not in result  # than the rules of verdicts that count
            for claim in () if result["quick"] or older else result["claims"]:
                row = {name: str(claim[name]) for name in KEPT}
                seeds = "-" if claim["n"] is None else str(claim["n"])  # behind this claim
                yield {"paper": folder.name, "experiment": str(result["title"]), "seeds": seeds, **row}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another file than a result
