"""`fedcell run` from Python: the same runs, with a model, data and methods of one's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from warnings import warn

from torch import nn

from . import methods as library
from .data import Dataset
from .errors import BadInput
from .idle import notices
from .loggers import Log
from .options import mapping, override
from .record import Record, Watch, execute, silent
from .scenarios import Config, get, without_effect
from .types import Method


def run(
    methods: str | Sequence[str | tuple[str, Method]],
    scenario: str = "cell",
    settings: Mapping[str, Any] | None = None,
    *,
    dataset: Dataset | None = None,
    model: nn.Module | None = None,
    out: str | Path | None = None,
    log: str | Sequence[str] = (),
    watch: Watch = silent,
) -> list[Record]:
    """Compare methods in one world on one seed, and record every round.

    Args:
        methods: texts `NAME[:key=value,...]`, paths of method files, or pairs of a label and a `Method`; or one text.
        scenario: the preset to start from (`fedcell list scenarios`).
        settings: dotted keys to change, such as `{"rounds": 30, "world.n_devices": 50}` (`fedcell list keys`).
        dataset: your own samples, see `fedcell.from_arrays`.
        model: your own network; its present weights are the start.
        out: folder to make; None: the next free one in `runs/`.
        log: `tensorboard=DIR` or `mlflow=URI_OR_DIR`, or several of them.
        watch: called after every round with a `fedcell.record.Progress`.

    Returns:
        One record per method; `fedcell.report.text(records)` is the table, `fedcell.report.save(records, path)`
        the figure.

    Raises BadInput, before anything is written, for settings, data, models or methods that do not fit.
    """
    preset = get(scenario)
    changes = mapping(settings, "settings", "{'rounds': 30}")
    _refuse_method_keys(changes)
    config = override(preset.config, changes)
    asked: list[Any] = list(methods) if isinstance(methods, Iterable) and not isinstance(methods, str) else [methods]
    choices = [library.parse(one, preset.methods) for one in asked if isinstance(one, str)]
    for line in notices([without_effect(config, changes, dataset), *map(library.without_effect, choices)]):
        warn(line, stacklevel=2)
    with Log([log] if isinstance(log, str) else log, watch) as told:
        return execute(config, asked, out, defaults=preset.methods, dataset=dataset, model=model, watch=told)


def _refuse_method_keys(settings: Mapping[str, Any]) -> None:
    sections = {entry.name for entry in fields(Config)}
    for key, value in settings.items():
        name, _, rest = key.partition(".")
        if rest and name not in sections and name in library.names():  # the names of all methods take a while
            raise BadInput(f"{key!r} is a setting of a method: write it in the method's text, '{name}:{rest}={value}'")
