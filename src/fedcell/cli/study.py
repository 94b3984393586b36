"""Studies on the command line: a file becomes the flags that say the same, and flags become a file.

Flags win over the file, key by key; methods on the command line take the place of those in the file.
"""

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..options import written
from ..resolve import read_pairs
from ..study import FigureRequest, Study, read, write
from .parser import read_grid

if TYPE_CHECKING:  # only drawing imports it
    from ..report import Comparison

FLAGS = {"rounds": "rounds", "until": "until", "model": "model.name"}  # flags that stand for a setting


def fold(args: Namespace) -> Study:
    """Take the study out of the methods and put what it asks for into the flags that are not given."""
    files = [text for text in args.methods if text.endswith(".toml")]
    if not files:
        return Study()
    if len(files) > 1:
        raise BadInput(f"{' and '.join(files)} are two studies: run one at a time")
    path = files[0]
    study = read(path)
    args.methods = [text for text in args.methods if text != path] or list(study.methods)
    args.out = args.out or study.out or None
    settings = dict(study.settings) | {key: value for key, value in named(study).items() if value}
    for key in given(args):
        settings.pop(key, None)
    if hasattr(args, "seeds"):
        _fold_sweep(args, study, settings)
    else:
        _fold_run(args, study, settings, path)
    return study


def named(study: Study) -> dict[str, str]:
    """The settings that have keys of their own in a study."""
    return {"model.name": study.model, "data.name": study.data}


def given(args: Namespace) -> set[str]:
    """The settings that flags set."""
    flags = {key for flag, key in FLAGS.items() if getattr(args, flag, None) is not None}
    return flags | set(read_pairs(args.set, "--set")) | set(read_grid(getattr(args, "grid", ())))


def _pairs(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={written(value)}" for key, value in settings.items()]


def _fold_sweep(args: Namespace, study: Study, settings: Mapping[str, Any]) -> None:
    grid = {key: values for key, values in study.grid.items() if key not in given(args)}
    args.grid = [[f"{key}={written(first)}", *map(written, rest)] for key, (first, *rest) in grid.items()] + args.grid
    args.set = _pairs(settings) + args.set
    args.seeds = args.seeds or list(study.seeds) or None
    args.scenario = args.scenario or list(study.scenario) or None


def _fold_run(args: Namespace, study: Study, settings: dict[str, Any], path: str) -> None:
    """Fold a study into the flags of `fedcell run`; raise BadInput if it asks for more than one world on one seed."""
    from ..sweeps.grid import read_seeds

    whole = f"`fedcell sweep {path}` runs all of them"
    for key, values in study.grid.items():
        if key not in given(args):
            if len(values) > 1:
                raise BadInput(f"{path} has a grid of {key}: {whole}, and --set {key}=VALUE one")
            settings[key] = values[0]
    args.set = _pairs(settings) + args.set
    seeds = read_seeds(study.seeds)
    if args.seed is None and len(seeds) > 1:
        raise BadInput(f"{path} has {len(seeds)} seeds: {whole}, and --seed {seeds[0]} one")
    if args.scenario is None and len(study.scenario) > 1:
        raise BadInput(f"{path} has {len(study.scenario)} scenarios: {whole}, and --scenario {study.scenario[0]} one")
    if args.seed is None and seeds and "seed" not in given(args):
        args.seed = str(seeds[0])
    args.scenario = args.scenario or next(iter(study.scenario), None)


def save(args: Namespace, study: Study) -> None:
    """Write what the flags ask for, and what the study adds to it, as a study of its own."""
    from ..record.files import write_asked

    path = Path(args.save_config)
    settings: dict[str, Any] = read_pairs(args.set, "--set")
    settings |= {key: written(getattr(args, flag)) for flag, key in FLAGS.items() if getattr(args, flag, None)}
    names: dict[str, Any] = {key.partition(".")[0]: str(settings.pop(key, "")) for key in named(study)}
    seeds = _seeds(args, settings)
    asked = study._replace(
        methods=tuple(args.methods),
        scenario=tuple([args.scenario] if isinstance(args.scenario, str) else args.scenario or ()),
        seeds=seeds,
        out=args.out or "",
        settings=settings,
        grid={key: tuple(values) for key, values in read_grid(getattr(args, "grid", ())).items()},
        **names,
    )
    text = write(asked, path)
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        raise BadInput(f"{path} is there already and says something else: delete it, or save under another name")
    write_asked(path, text.encode(), "then start again (nothing was simulated yet)")
    print(f"fedcell: the study is in {path}", file=sys.stderr)


def _seeds(args: Namespace, settings: dict[str, Any]) -> tuple[str, ...]:
    if hasattr(args, "seeds"):
        return tuple(args.seeds or ())
    seed = settings.pop("seed", args.seed)
    return () if seed is None else (str(seed),)


def show(study: Study, folder: Path) -> list[Path]:
    """Draw the figures and write the tables that a study asks for; return what was written."""
    if not study.figures and not study.latex:
        return []
    from .. import report
    from ..record.files import write_asked

    def compared(runs: str) -> "Comparison":
        chosen = sorted(one for one in folder.glob(runs) if one.is_dir()) if runs else folder
        if not chosen:
            raise BadInput(f"no run in {folder} is called {runs!r}: fedcell sweep --dry-run names them all")
        return report.compare(chosen, against=study.against or None, targets=study.targets, labels=study.labels)

    try:
        found = compared("")
        parts = {one.runs: compared(one.runs) for one in study.figures if one.runs}
    except BadInput as error:
        print(f"fedcell: no figures of the study: {error}", file=sys.stderr)
        return []
    done = [path for one in study.figures for path in _drawn(parts.get(one.runs, found), one)]
    if study.latex:
        text = report.comparison_latex(found) + "\n"
        done.append(write_asked(Path(study.latex), text.encode(), "then compare again (the records are whole)"))
    return done


def _drawn(found: "Comparison", one: FigureRequest) -> list[Path]:
    """Draw a figure and return its path; print why, and return none, if it cannot be drawn over its setting."""
    from .. import report
    from ..report.over import save_over
    from .compare import width_of

    if not one.over:
        return [report.save_comparison(found, one.file, width_of(one.width), one.by)]
    try:
        return [save_over(found, one.over, one.file, width_of(one.width))]
    except BadInput as error:
        print(f"fedcell: {one.file} is not drawn: {error}", file=sys.stderr)
        return []


def check(study: Study) -> None:
    """Refuse figures that could not be drawn, before any work is done."""
    from .. import report
    from .compare import width_of

    for one in study.figures:
        width_of(one.width)
        report.check_figure([one.file], one.by)
        if one.over and len(study.grid.get(one.over, ())) < 2:
            what = f"the figure {one.file} is drawn over {one.over}, which is not in the grid with several values"
            raise BadInput(f"{what}: add it to [grid], or drop `over`")


def tell(paths: Iterable[Path], as_json: bool) -> None:
    """Print what was written: to stdout, or to stderr if stdout holds JSON."""
    for path in paths:
        print(f"written: {path}", file=sys.stderr if as_json else sys.stdout)
