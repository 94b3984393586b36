"""A device that keeps a model of its own and shares class means: its side of knowledge-aided learning.

The model lies in the device's folder and never leaves it. The one before the last round is kept, too, so that a round
that is asked for again, after a restart of the server, begins where it began before.

Reference: chen-ch4, section 3
"""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from ..errors import BadInput
from ..learn.architecture import trainable
from ..learn.features import class_means
from ..learn.learner import Learner
from ..learn.samples import Samples
from ..learn.work import Objective
from ..methods.knowledge_means import pulled_loss
from ..record.files import write_atomic
from .tasks import Task, Vector

FILE = "model.safetensors"


class Kept(NamedTuple):
    """A model on disk."""

    round: int  # that made `after` of `before`; -1 for the first model
    before: Vector  # [n_params]
    after: Vector  # [n_params]

    def start(self, round: int) -> Vector:
        """Where a round begins."""
        return self.before if round <= self.round else self.after


def kept_in(folder: Path | None, first: Tensor) -> Kept:
    """The model of a device; `first` before it has trained."""
    if folder is None:
        raise BadInput("a model of one's own needs state-dir in the node configuration: name a folder that survives")
    if not (folder / FILE).exists():
        vector: Vector = first.cpu().numpy()
        return Kept(-1, vector, vector)
    state = load((folder / FILE).read_bytes())
    if len(state["after"]) != len(first):
        raise BadInput(
            f"{folder / FILE} has {len(state['after'])} parameters, not {len(first)}: give another state-dir"
        )
    return Kept(int(state["round"][0]), state["before"], state["after"])


def keep(folder: Path, kept: Kept) -> None:
    """Write the model of a device."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"round": np.array([kept.round]), "before": kept.before, "after": kept.after}
    write_atomic(folder / FILE, save({name: np.ascontiguousarray(part) for name, part in state.items()}))


def pull_of(task: Task, device: torch.device) -> Objective | None:
    """The loss of a task with shared class means."""
    if task.knowledge is None or task.known is None:
        return None
    knowledge = torch.from_numpy(task.knowledge.copy()).view(task.n_classes, task.n_features).to(device)
    known = torch.from_numpy(task.known.astype(np.float32)).to(device)
    return partial(pulled_loss, task.pull, knowledge, known)


def means_of(learner: Learner, model: Vector, n_classes: int) -> Vector:
    """The class means of a model on all samples of a learner, flat."""
    network = learner.architectures[0].replica(learner.device).eval()
    vector_to_parameters(torch.from_numpy(model).to(learner.device), trainable(network))
    x, y = learner.train_samples.take(np.arange(len(learner.train_samples)))
    means: Vector = class_means(network, x, y, n_classes)[0].cpu().numpy().reshape(-1)
    return means


def right_of(learner: Learner, model: Vector, test: Samples) -> int:
    """Test samples that a model has right."""
    scores = learner.evaluate(torch.from_numpy(model).to(learner.device), test)
    return round(scores["accuracy"] * len(test))
