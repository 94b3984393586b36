"""The metrics of each task: which one leads, and whether higher is better.

Columns of a record carry the names of these metrics. To show a run, ask `leading` for the metric to show.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite, nan
from typing import Any, NamedTuple


class Metric(NamedTuple):
    """One column of an evaluation."""

    name: str  # of the column
    title: str  # for people
    share: bool = False  # a share, which people read in %
    rises: bool = True  # more is better

    @property
    def factor(self) -> float:
        """What to multiply the number of a record by to get the number that people read: 100 for shares."""
        return 100.0 if self.share else 1.0

    @property
    def heading(self) -> str:
        """The title of an axis: `test accuracy (%)`."""
        return f"test {self.title} (%)" if self.share else f"test {self.title}"

    @property
    def direction(self) -> str:
        """Whether more or less is better, to append to a title; empty for shares of which more is better."""
        return "" if self.share and self.rises else f" ({'more' if self.rises else 'less'} is better)"

    def best(self, values: Iterable[float]) -> float:
        """The best of the finite numbers; NaN if there is none.

        >>> leading("regression").best([3.0, 2.0, float("nan")])
        2.0
        """
        pick: Callable[..., float] = max if self.rises else min
        return pick((one for one in values if isfinite(one)), default=nan)

    def reaches(self, values: Any, target: float) -> Any:
        """Whether a value, or each of an array, is at least as good as a target."""
        return values >= target if self.rises else values <= target

    def shown(self, value: float) -> str:
        """A value for people, or a dash if there is none.

        >>> leading("classification").shown(0.9137), leading("regression").shown(53.2), leading("regression").shown(nan)
        ('91.4', '53.2', '-')
        """
        if not isfinite(value):
            return "-"
        return f"{100 * value:.1f}" if self.share else f"{value:.4g}"


CLASSIFICATION = "classification"  # the task of records that name none
LOSS = Metric("loss", "loss", rises=False)
TASKS: Mapping[str, tuple[Metric, ...]] = {  # the first metric of a task leads
    CLASSIFICATION: (Metric("accuracy", "accuracy", share=True), LOSS),
    "multi-label": (
        Metric("f1", "F1", share=True),
        Metric("label_accuracy", "accuracy of single labels", share=True),
        Metric("subset_accuracy", "accuracy of all labels of a sample", share=True),
        LOSS,
    ),
    "regression": (
        Metric("rmse", "RMSE", rises=False),
        Metric("mae", "MAE", rises=False),
        Metric("r2", "R2"),
        LOSS,
    ),
    "next-token": (
        Metric("perplexity", "perplexity", rises=False),
        Metric("token_accuracy", "accuracy of tokens", share=True),
        LOSS,
    ),
}
BY_NAME = {one.name: one for metrics in TASKS.values() for one in metrics}
SCORES = tuple(BY_NAME)  # columns of any task


def leading(task: str) -> Metric:
    """The metric that represents a run of a task; the loss for an unknown task.

    >>> leading("next-token").name
    'perplexity'
    """
    return TASKS.get(task, (LOSS,))[0]
