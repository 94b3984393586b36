"""Devices that keep models of their own: who has which, and how they are judged on test sets of their own.

Every device gets test samples of the classes it holds, in the shares in which it holds them, unless the data say to
which device each test sample belongs. No test sample belongs to two devices.
Accuracy is the share of right answers over all of them together, devices that never trained included. Not a method
itself: it has no `build`.

Reference: chen-ch4, section 3 (evaluation)
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...learn.evaluation import places, top_columns
from ...rng import SETUP, stream
from ...types import Bools, Decision, Ints, Observation, Problem, Round, Start, finite_rows
from . import defaults
from .contributions import Contributions, remember, row_of, rows_of

NOBODY = -1


def starts(problem: Problem) -> Tensor:
    """The model every architecture starts from, `[n_architectures, n_params]`."""
    learner = problem.learner
    return torch.stack([learner.initial(kind) for kind in range(len(learner.architectures))])


def models_of(problem: Problem, kept: Contributions, origin: Tensor, device: Ints) -> Tensor:
    """The present models of some devices, `[n_rows, n_params]`: as last kept, or the start of their architecture."""
    first = origin[torch.from_numpy(problem.learner.kinds(device)).to(origin.device)]
    trained = torch.from_numpy(kept.seen[device]).to(origin.device)[:, None]
    return torch.where(trained, rows_of(kept, device, origin[0]), first)


def own_models(problem: Problem, params: Tensor, state: Any, device: Ints) -> Tensor:
    """`personal` of methods whose state has the models of devices as `own` and their starts as `origin`."""
    return models_of(problem, state.own, state.origin, device)


def own_starts(problem: Problem, own: Contributions, origin: Tensor, decision: Decision) -> Start:
    """Start every selected device from its own model."""
    device = np.flatnonzero(decision.selected)
    return Start(models_of(problem, own, origin, device), np.arange(len(device)))


def dearer(config: Any, problem: Problem, state: Any, observation: Observation) -> Decision:
    """FedAvg's choice of devices, with every step at `config.cost` times the computing."""
    samples = config.cost * defaults.samples_of(config, problem, observation.store)
    return defaults.decide(config, problem, state, observation, samples)


def remembered(own: Contributions, played: Round, rows: Tensor | None = None) -> Contributions:
    """What devices own after a round: finite rows of `updates.kept`, or `rows`, of all that trained, heard or not."""
    kept: Tensor = played.updates.kept if rows is None else rows
    fine = finite_rows(kept)
    device = played.updates.device[fine]
    finite = kept if fine.all() else kept[torch.from_numpy(fine).to(kept.device)]
    return remember(own, device, finite, played.decision.steps[device], np.ones(len(device)))


# ---------------------------------------------------------------- evaluation


def owners(labels: Ints, held: Ints, seed: int) -> Ints:
    """The device that every test sample belongs to, `[n_samples]`; -1 if no device holds its class.

    Args:
        labels: of the test samples.
        held: `[n_devices, n_classes]`, training samples of each class on each device.
        seed: of the run.
    """
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    for label in np.flatnonzero(held.sum(axis=0)):
        samples = stream(seed, SETUP, f"test split {label}").permutation(np.flatnonzero(labels == label))
        cuts = np.rint(np.cumsum(held[:, label]) / held[:, label].sum() * len(samples))[:-1]
        owner[samples] = np.searchsorted(cuts, np.arange(len(samples)), side="right")
    return owner


def chance(labels: Ints, owner: Ints) -> float:
    """Accuracy of the best constant answer of every device on its test samples; 0 if nobody has any.

    With `n_kc` the test samples of class `c` that belong to device `k`: `sum_k max_c n_kc / sum_kc n_kc`.
    Models that are not above it have learned nothing but which class their device holds most of.

    Args:
        labels: of the test samples.
        owner: `[n_samples]`, the device that each belongs to, or -1.
    """
    judged = owner != NOBODY
    if not judged.any():
        return 0.0
    cell = owner[judged] * (labels.max() + 1) + labels[judged]
    counts = np.bincount(cell, minlength=(owner.max() + 1) * (labels.max() + 1)).reshape(owner.max() + 1, -1)
    return float(counts.max(axis=1).sum() / judged.sum())


@torch.no_grad()
def judge(problem: Problem, held: Ints, trained: Bools, model_of: Callable[[int], Tensor]) -> Mapping[str, float]:
    """Evaluate the models of all devices, each on its own test samples, and return the columns.

    `accuracy` and `loss` over all; `covered`, the share of the test samples whose device has trained;
    `covered_accuracy` over those alone; `chance`, the accuracy of one constant answer per device. `train.top` and
    `train.spread` add columns: all test samples belong to devices.

    Args:
        problem: data, networks and seed.
        held: `[n_devices, n_classes]`, what devices hold.
        trained: `[n_devices]`, who has trained by now.
        model_of: the flat model of a device.
    """
    learner, whose = problem.learner, problem.learner.test_samples.owner
    owner = owners(learner.test_samples.labels, held, problem.seed) if whose is None else whose
    top, spread = learner.settings.top, learner.settings.spread
    nets = [one.replica(learner.device).eval() for one in learner.architectures]
    judged = np.unique(owner[owner != NOBODY])
    kinds, right, loss, place = learner.kinds(judged), [], [], []
    for device, kind in zip(judged.tolist(), kinds, strict=True):
        x, y = learner.test_samples.take(np.flatnonzero(owner == device))
        learner.architectures[kind].load(nets[kind], model_of(device), learner.own_of(device))
        scores = nets[kind](x)
        right.append((scores.argmax(1) == y).sum())
        loss.append(functional.cross_entropy(scores, y, reduction="sum"))
        if top:
            place.append(places(scores, y))
    if not len(judged):
        return {"accuracy": 0.0, "loss": 0.0, "covered": 0.0, "covered_accuracy": 0.0, "chance": 0.0}
    hits = torch.stack(right).cpu().numpy()  # one transfer for all devices
    size, through = np.bincount(owner[owner != NOBODY], minlength=len(trained))[judged], trained[judged]
    columns = {
        "accuracy": float(hits.sum() / size.sum()),
        "loss": float(torch.stack(loss).sum()) / float(size.sum()),
        "covered": float(size[through].sum() / size.sum()),
        "covered_accuracy": float(hits[through].sum() / max(size[through].sum(), 1)),
        "chance": chance(learner.test_samples.labels, owner),
    }
    if top:
        columns |= top_columns(torch.cat(place).cpu().numpy(), top)
    if spread and len(judged) > 1:
        columns["accuracy_std"] = float((hits / size).std())
    return columns


def judge_own(problem: Problem, held: Ints, own: Contributions, origin: Tensor) -> Mapping[str, float]:
    """`judge` of models that devices keep whole."""
    kinds = problem.learner.kinds(np.arange(len(own.seen)))

    def model_of(device: int) -> Tensor:
        model = row_of(own, device)
        return origin[kinds[device]] if model is None else model

    return judge(problem, held, own.seen, model_of)
