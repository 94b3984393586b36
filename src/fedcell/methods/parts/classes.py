"""Classes that devices hold, for methods that look at labels. Not a method itself: it has no `build`."""

from ...labels import histogram
from ...types import Ints, Problem, Store


def n_classes_of(problem: Problem) -> int:
    """Number of classes among the training labels."""
    return problem.learner.train_samples.n_labels


def held_classes(problem: Problem, store: Store) -> Ints:
    """Samples of each class on each device, `[n_devices, n_classes]`."""
    return histogram(store, problem.learner.train_samples.labels, n_classes_of(problem))
