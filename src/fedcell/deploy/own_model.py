"""A device that keeps a model of its own and shares class means: its side of knowledge-aided learning.

The model lies in the device's folder and never leaves it.

Reference: chen-ch4, section 3
"""

from functools import partial

import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from ..learn.architecture import trainable
from ..learn.features import class_means
from ..learn.learner import Learner
from ..learn.samples import Samples
from ..learn.work import Objective
from ..methods.knowledge.means import pulled_loss
from .tasks import Task, Vector

FILE = "model.safetensors"


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
