"""What a task is judged by: its metrics, which of them leads, and whether more of it is better.

Columns of a record carry the names of these metrics. Whoever shows a run asks `leading` for the one to show.
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
        """From the number of a record to the number that people read."""
        return 100.0 if self.share else 1.0

    @property
    def heading(self) -> str:
        """The title of an axis: `test accuracy (%)`."""
        return f"test {self.title} (%)" if self.share else f"test {self.title}"

    @property
    def direction(self) -> str:
        """Which numbers are good; empty for shares, of which everybody knows."""
        return "" if self.share and self.rises else f" ({'more' if self.rises else 'less'} is better)"

    def best(self, values: Iterable[float]) -> float:
        """The best of some numbers; NaN without any.

        >>> leading("regression").best([3.0, 2.0, float("nan")])
        2.0
        """
        pick: Callable[..., float] = max if self.rises else min
        return pick((one for one in values if isfinite(one)), default=nan)

    def reaches(self, values: Any, target: float) -> Any:
        """Whether a value, or each of an array, is as good as a target, or better."""
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
    """The metric that stands for a run of a task; of a task that is unknown here, the loss.

    >>> leading("next-token").name
    'perplexity'
    """
    return TASKS.get(task, (LOSS,))[0]
