"""The experiments of a clone: where they are, what they are called, and how one is loaded.

An experiment is a file `experiments/<paper>/<name>.py` that defines `EXPERIMENT`; it is called `<paper>/<name>`. Its
helper modules lie beside it and are imported by their plain names, so one paper is open at a time.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import BadInput, FedcellError, did_you_mean
from ..record.files import natural
from .frame import Experiment

FOLDER, PAPER = "experiments", "paper.toml"
DEFINES = re.compile(r"^EXPERIMENT\b.*=", re.MULTILINE)


class ExperimentFile(NamedTuple):
    """One experiment of a clone."""

    paper: str
    name: str  # of its file, without `.py`
    path: Path

    def __str__(self) -> str:
        return f"{self.paper}/{self.name}"

    @property
    def results(self) -> Path:
        """The folder of its results in the clone."""
        return self.path.parent / "results"


def find(start: Path | None = None) -> Path:
    """The folder `experiments` of the clone that `start`, or the working directory, is in."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if papers(folder / FOLDER):
            return folder / FOLDER
    raise BadInput(f"no experiments in {here} or above: go to a clone of fedcell, or name them with --experiments DIR")


def papers(root: Path) -> list[Path]:
    """The folders of the papers: those with an experiment or a list of claims."""
    return sorted(
        folder
        for folder in (root.iterdir() if root.is_dir() else ())
        if folder.is_dir() and ((folder / PAPER).is_file() or any(_files(folder)))
    )


def entries(root: Path) -> list[ExperimentFile]:
    """Every experiment, figure 9 before figure 10."""
    found = [ExperimentFile(folder.name, path.stem, path) for folder in papers(root) for path in _files(folder)]
    return sorted(found, key=lambda one: (one.paper, natural(one.name)))


def choose(root: Path, names: Sequence[str]) -> list[ExperimentFile]:
    """The experiments that are meant: `cafe` for a paper, `cafe/fig3` or the path of a file for one of them."""
    every = entries(root)
    known = {str(one): [one] for one in every}
    for folder in papers(root):
        known[folder.name] = [one for one in every if one.paper == folder.name]
    chosen: dict[ExperimentFile, None] = {}
    for text in names:
        name = "/".join(Path(text.removesuffix(".py")).parts[-2:]).removeprefix(f"{FOLDER}/")
        if name not in known:
            raise BadInput(f"unknown experiment {text!r}{_hint(name, known)} (fedcell reproduce shows all)")
        if not known[name]:
            raise BadInput(f"{name} has no experiment yet, only a list of claims (fedcell reproduce shows them)")
        chosen |= dict.fromkeys(known[name])
    return list(chosen)


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Inside, the modules of a paper are imported by their plain names, also by processes that start; after it none is.

    Runs of an experiment must be done inside: other processes find what they call by the same names.
    """
    own = {path.stem for path in folder.glob("*.py")}
    hidden = {name: sys.modules.pop(name) for name in own & set(sys.modules)}
    place = str(folder.resolve())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)
        for name in own:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def load(entry: ExperimentFile) -> Experiment:
    """The experiment of a file whose folder is `opened`; a FedcellError says what is wrong with it."""
    try:
        found = importlib.import_module(entry.name).EXPERIMENT
    except Exception as error:
        raise FedcellError(f"{entry.path} does not load: {type(error).__name__}: {error}") from error
    if not isinstance(found, Experiment):
        raise FedcellError(f"{entry.path}: EXPERIMENT is {found!r}: make it a fedcell.experiment.Experiment")
    return found


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*.py") if DEFINES.search(path.read_text(encoding="utf-8")))


def _hint(name: str, known: dict[str, list[ExperimentFile]]) -> str:
    """The nearest name; for a bare figure those of all papers."""
    same = [full for full in known if full.endswith(f"/{name}")]
    return f": which of {', '.join(same)}?" if same else did_you_mean(name, list(known))
