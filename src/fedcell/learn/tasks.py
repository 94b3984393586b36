"""Learning tasks: for each, the loss of a batch, the metrics of evaluation, and the metric of a constant answer.

Losses are means over samples, and the loss of a sample is the mean over its labels, targets or tokens. `metrics.TASKS`
has the names of the columns that `columns` fills, and which of them leads.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import BadInput
from ..metrics import CLASSIFICATION
from ..types import Floats
from .work import Objective

HOPELESS = 1e6  # nats per sample (guessing costs a few); in regression, a multiple of the loss of predicting the mean

Loss = Callable[[Tensor, Tensor], Tensor]  # scores and targets of a batch -> loss of every sample
Tally = Callable[[Tensor, Tensor], Tensor]  # the same -> sums over the batch, float64
Columns = Callable[[Floats, int], dict[str, float]]  # sums over all samples, their number -> columns
Constant = Callable[[Any, Any], float]  # targets to train and to test on -> leading metric of the best constant answer


class LearningTask(NamedTuple):
    """A task: the loss of batches in training, and the metrics of models on test samples."""

    name: str
    loss: Loss
    tally: Tally
    columns: Columns
    constant: Constant
    n_axes: int = 2  # of the scores of a batch

    @property
    def objective(self) -> Objective | None:
        """The objective that engines minimise; None: cross-entropy of classes, which is built into them."""
        return None if self.name == CLASSIFICATION else partial(weighed, self.loss)

    def hopeless(self, targets: Any) -> float:
        """The test loss above which a run counts as diverged, given the training targets."""
        spread = float(np.asarray(targets).var(axis=0).mean()) if self.name == "regression" else 1.0
        return HOPELESS * max(spread, 1e-12)


def weighed(loss: Loss, module: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """The loss of a batch as an objective: averaged, or summed with `weight` if the batch is padded."""
    each = loss(module(x), y)
    return each.mean() if weight is None else (each * weight).sum()


# ---------------------------------------------------------------- classification


def class_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of whole-number labels, `[n]`."""
    return functional.cross_entropy(scores, y, reduction="none")


def class_tally(scores: Tensor, y: Tensor) -> Tensor:
    """Hits and loss. The loss is added up in float32, as in earlier versions."""
    loss = functional.cross_entropy(scores, y, reduction="sum")
    return torch.stack([(scores.argmax(1) == y).sum().double(), loss.double()])


def class_columns(sums: Floats, n: int) -> dict[str, float]:
    return {"accuracy": float(sums[0]) / n, "loss": float(sums[1]) / n}


def commonest(train: Any, test: Any) -> float:
    """Accuracy of naming the commonest training label."""
    return float((np.asarray(test) == np.bincount(train).argmax()).mean())


# ---------------------------------------------------------------- multi-label


def label_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of labels that may each apply or not, mean over the labels of a sample, `[n]`."""
    return functional.binary_cross_entropy_with_logits(scores[:, : y.shape[1]], y, reduction="none").mean(1)


def label_tally(scores: Tensor, y: Tensor) -> Tensor:
    """Sums of true, predicted and real positives, right labels, right samples, loss, and number of labels."""
    said, real = scores[:, : y.shape[1]] > 0, y > 0.5
    right = said == real
    counts = [(said & real).sum(), said.sum(), real.sum(), right.sum(), right.all(1).sum()]
    loss = label_loss(scores, y).double().sum()
    return torch.stack([*(one.double() for one in counts), loss, torch.full_like(loss, y.numel())])


def label_columns(sums: Floats, n: int) -> dict[str, float]:
    """`f1` is micro-averaged: over all labels of all samples together; 0 if no label is predicted or real."""
    hits, said, real, right, whole, loss, n_labels = (float(one) for one in sums)
    return {
        "f1": 2 * hits / (said + real) if said + real else 0.0,
        "label_accuracy": right / n_labels,
        "subset_accuracy": whole / n,
        "loss": loss / n,
    }


def commonest_labels(train: Any, test: Any) -> float:
    """F1 of always predicting the commonest labels, as many of them as give the best F1 in training."""
    order = np.argsort(-np.asarray(train).mean(axis=0), kind="stable")

    def f1(y: Any, n_said: int) -> float:
        real = np.asarray(y)
        total = n_said * len(real) + real.sum()
        return float(2 * real[:, order[:n_said]].sum() / total) if total else 0.0

    return f1(test, max(range(len(order) + 1), key=lambda n_said: f1(train, n_said)))


# ---------------------------------------------------------------- regression


def square_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Squared error, mean over the targets of a sample, `[n]`."""
    return (scores[:, : y.shape[1]] - y).square().mean(1)


def square_tally(scores: Tensor, y: Tensor) -> Tensor:
    """Sums of squared errors, absolute errors, targets and squared targets, each per target, `[4 n_targets]`."""
    error, target = (scores[:, : y.shape[1]] - y).double(), y.double()
    return torch.cat([error.square().sum(0), error.abs().sum(0), target.sum(0), target.square().sum(0)])


def square_columns(sums: Floats, n: int) -> dict[str, float]:
    """`r2` is the mean of `1 - squared errors / squared deviations` over the targets that vary."""
    squared, absolute, total, squares = np.split(np.asarray(sums, dtype=np.float64), 4)
    deviation = squares - total**2 / n
    varied = deviation > 1e-12 * np.maximum(squares, 1e-300)
    r2 = float((1 - squared[varied] / deviation[varied]).mean()) if varied.any() else 0.0
    loss = float(squared.mean()) / n
    return {"rmse": float(np.sqrt(loss)), "mae": float(absolute.mean()) / n, "r2": r2, "loss": loss}


def mean_answer(train: Any, test: Any) -> float:
    """RMSE of the training mean."""
    return float(np.sqrt(np.square(np.asarray(test) - np.asarray(train, dtype=np.float64).mean(axis=0)).mean()))


# ---------------------------------------------------------------- next token


def token_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the next token at every place, mean over the places of a sample, `[n]`."""
    return functional.cross_entropy(scores.transpose(1, 2), y, reduction="none").mean(1)


def token_tally(scores: Tensor, y: Tensor) -> Tensor:
    """Hits, tokens and loss."""
    hits = (scores.argmax(2) == y).sum().double()
    return torch.stack([hits, torch.full_like(hits, y.numel()), token_loss(scores, y).double().sum()])


def token_columns(sums: Floats, n: int) -> dict[str, float]:
    """`perplexity` is the exponential of the loss: as uncertain as a fair die with so many sides."""
    loss = float(sums[2]) / n
    with np.errstate(over="ignore"):
        return {"perplexity": float(np.exp(loss)), "token_accuracy": float(sums[0] / sums[1]), "loss": loss}


def token_law(train: Any, test: Any) -> float:
    """Perplexity of predicting the token frequencies of training, each token counted once more than it occurs."""
    n_tokens = int(max(np.max(train), np.max(test))) + 1
    counts = np.bincount(np.ravel(train), minlength=n_tokens) + 1.0
    return float(np.exp(-np.log(counts / counts.sum())[np.ravel(test)].mean()))


# ---------------------------------------------------------------- all of them


LEARNED: Mapping[str, LearningTask] = {
    task.name: task
    for task in (
        LearningTask(CLASSIFICATION, class_loss, class_tally, class_columns, commonest),
        LearningTask("multi-label", label_loss, label_tally, label_columns, commonest_labels),
        LearningTask("regression", square_loss, square_tally, square_columns, mean_answer),
        LearningTask("next-token", token_loss, token_tally, token_columns, token_law, n_axes=3),
    )
}


def refuse_without_labels(task: str, what: str, fix: str) -> None:
    """Raise BadInput if class labels are needed and the task has none."""
    if task != CLASSIFICATION:
        raise BadInput(f"{what} needs class labels, which the task {task!r} does not have: {fix}")
