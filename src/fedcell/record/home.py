"""Load the trained network of a recorded run, or write it to a file for other tools."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..arguments import FILE, WHOLE, expect
from ..data import Dataset
from ..errors import BadInput, FedcellError, in_short
from ..learn import models
from ..learn.architecture import Architecture, choose
from ..learn.setup import initialise
from ..methods.parts.statistics import with_statistics
from ..metrics import CLASSIFICATION
from ..scenarios import Config, build_problem
from ..simulate import begin
from . import checkpoint
from .files import write_asked
from .folder import FEDERATION, Spec, specs
from .prepare import network_facts, rebuild, reconfigure
from .reading import Record

Run = str | Path | Record


class Trained(NamedTuple):
    """A network with its trained weights, and what it was made for."""

    module: nn.Module
    input_shape: tuple[int, ...]
    about: dict[str, Any]  # plain values: the run, the shape of inputs, how they must be scaled


def load_model(
    run: Run, *, device: int | None = None, model: nn.Module | None = None, dataset: Dataset | None = None
) -> nn.Module:
    """The network of a recorded run with the weights of its newest checkpoint, on the CPU and ready to predict.

    Inputs must be scaled as those of the run were (`record.scaling`); scores come out, one row per sample.

    Args:
        run: folder of a run, or its record.
        device: the model of this device, for methods whose devices keep models of their own; None: the global one.
        model: your network, if the run was made with an object of your own; it is not changed.
        dataset: your samples, if the run was made with some and a device's model is asked for.
    """
    return take(run, device=device, model=model, dataset=dataset).module


def export(
    run: Run,
    to: str | Path,
    *,
    device: int | None = None,
    model: nn.Module | None = None,
    dataset: Dataset | None = None,
) -> Path:
    """Write the model of a run as `.safetensors` (the names of its `state_dict`), `.pt2` or `.onnx`.

    Args:
        run: folder of a run, or its record.
        to: the file to write; its ending says which kind.
        device: see `load_model`.
        model: see `load_model`.
        dataset: see `load_model`.
    """
    expect(FILE, to=to)
    path = Path(to)
    if path.suffix not in WRITERS:
        raise BadInput(f"{str(to)!r} names no kind of model file: let it end in {', '.join(WRITERS)}")
    if path.suffix == ".onnx":
        _require("onnx", "onnxscript")
    found = take(run, device=device, model=model, dataset=dataset)
    try:
        with _quiet("torch.onnx"):
            data = WRITERS[path.suffix](found)
    except FedcellError:
        raise
    except Exception as error:
        raise BadInput(
            f"this network cannot be written as {path.suffix} ({in_short(error)}): use .safetensors"
        ) from error
    return write_asked(path, data, "then export again")


def take(run: Run, *, device: int | None, model: nn.Module | None, dataset: Dataset | None) -> Trained:
    """Do what `load_model` does, and also return what is known about the network."""
    expect(WHOLE.or_none, device=device)
    folder, spec = _one(run)
    config = reconfigure(spec)
    _check_model(folder, spec, model)
    facts = spec.network or network_facts(build_problem(config, dataset, model))
    shape = tuple(int(size) for size in facts["input_shape"])
    if device is not None:
        module = _personal(folder, spec, device, model, dataset)
    else:
        if spec.source and not spec.sha256 and rebuild(spec, {}).own_networks:
            raise BadInput(f"devices of {folder} share no model: name one of them, device=0 (--device-id 0)")
        module = _fresh(config, shape, int(facts["n_classes"]), 0, model)
        _fill(module, checkpoint.newest_params(folder), folder, config)
    about = {"run": str(folder), "method": spec.method, "input_shape": list(shape), "n_classes": facts["n_classes"]}
    about |= {"task": spec.task} if spec.task != CLASSIFICATION else {}
    about |= {"device": device} if device is not None else {}
    about |= {"scaling": dict(spec.scaling)} if spec.scaling else {}
    return Trained(module.eval(), shape, about)


def _one(run: Run) -> tuple[Path, Spec]:
    found = specs(run.folder if isinstance(run, Record) else run)
    if len(found) > 1:
        names = ", ".join(str(path) for path, _ in found[:3])
        raise BadInput(f"{run} is a comparison of {len(found)} runs: name one of them, such as {names}")
    return found[0]


def _check_model(folder: Path, spec: Spec, model: object) -> None:
    own = "model" in spec.own
    if own and not isinstance(model, nn.Module):
        raise BadInput(f"{folder} was run from Python with an own model: give it, fedcell.load_model(run, model=...)")
    if model is not None and not own and FEDERATION not in spec.own:
        raise BadInput(f"{folder} was run without an own model: drop it")


def _fresh(config: Config, shape: tuple[int, ...], n_classes: int, kind: int, model: nn.Module | None) -> nn.Module:
    """Return a network with its initial weights (a copy of `model` if given); `_fill` replaces all but frozen ones."""
    if model is not None:
        return deepcopy(model).cpu()
    one = config.model.variants()[kind]
    purpose = f"model {one.hidden[-2]}" if config.model.widths else "model"
    return initialise(lambda: models.build(one, shape, n_classes), config.seed, purpose)


def _fill(module: nn.Module, vector: Tensor | None, folder: Path, config: Config) -> None:
    """Give a network the weights of a run, and its running statistics."""
    if vector is None:
        raise BadInput(f"{folder} has no whole checkpoint: let the run continue, which writes one at its end")
    layout = Architecture.of(choose(module, config.model.train), config.model.buffers)
    n = layout.n_params + layout.tail.n
    if len(vector) != n:
        raise BadInput(f"the model has {n} parameters and that of {folder} {len(vector)}: give the same one")
    layout.load(module, vector)


def _personal(folder: Path, spec: Spec, device: int, model: nn.Module | None, dataset: Dataset | None) -> nn.Module:
    """The network of one device, from the state of the run's method."""
    if FEDERATION in spec.own:
        raise BadInput(f"{folder} is of real devices, which keep their models: ask for the global one")
    if "method" in spec.own:
        raise BadInput(f"{folder} was run with an own method object: ask for the global model, or use a method file")
    if ("dataset" in spec.own) != (dataset is not None):
        raise BadInput(f"{folder} was run with{'' if dataset is None else 'out'} an own dataset: give the same one")
    config = reconfigure(spec)
    problem, method = build_problem(config, dataset, model), rebuild(spec, {})
    n_devices = problem.world.n_devices
    if not 0 <= device < n_devices:
        raise BadInput(f"device {device} is none of {folder}: give 0 to {n_devices - 1}")
    method = with_statistics(problem, method)
    if method.personal is None or problem.world.settings.edge_rounds:
        raise BadInput(f"devices of {spec.label} keep no models of their own: leave the device out")
    first = begin(problem, method)
    found = checkpoint.newest(folder, checkpoint.Template.of(first), problem.n_rounds, lambda note: None)
    who = np.array([device])
    kind, learner = int(problem.learner.kinds(who)[0]), problem.learner
    module = _fresh(config, learner.train_samples.shape, learner.n_classes, kind, model)
    vector = None if found is None else method.personal(problem, found.params, found.method, who)[0].cpu()
    if vector is not None:
        layout = learner.architectures[kind]
        vector = vector[: layout.n_params + layout.tail.n]  # behind a smaller network there is nothing
    _fill(module, vector, folder, config)
    return module


# ---------------------------------------------------------------- files


def _safetensors(found: Trained) -> bytes:
    from safetensors.torch import save

    tensors = {name: value.detach().clone().contiguous() for name, value in found.module.state_dict().items()}
    return save(tensors, {"format": "pt", "fedcell": json.dumps(found.about)})


def _program(found: Trained) -> Any:
    """The network as a graph for any number of samples."""
    sample = torch.zeros(2, *found.input_shape)
    return torch.export.export(found.module, (sample,), dynamic_shapes=({0: torch.export.Dim("batch")},))


def _pt2(found: Trained) -> bytes:
    out = BytesIO()
    torch.export.save(_program(found), out, extra_files={"fedcell.json": json.dumps(found.about)})
    return out.getvalue()


def _onnx(found: Trained) -> bytes:
    # Optimising would fold norms and transpose weights, whose names are lost; runtimes optimise by themselves.
    made: Any = torch.onnx.export(
        _program(found), dynamo=True, optimize=False, input_names=["input"], output_names=["scores"], verbose=False
    )
    model = made.model_proto
    model.metadata_props.add(key="fedcell", value=json.dumps(found.about))
    data: bytes = model.SerializeToString()
    return data


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence the log messages and warnings of a library."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


WRITERS: dict[str, Callable[[Trained], bytes]] = {".safetensors": _safetensors, ".pt2": _pt2, ".onnx": _onnx}


def _require(*packages: str) -> None:
    for name in packages:
        if find_spec(name) is None:
            raise BadInput(
                f"an .onnx file needs {name}, which is not installed: python3 -m pip install 'fedcell[onnx]'"
            )
