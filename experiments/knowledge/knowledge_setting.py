"""What the experiments on knowledge-aided learning share: cases of methods and patterns, without limits of energy.

The source names no value of lambda, no batch size and no number of rounds. Here lambda is 1 and the pull a mean over
features, as `nn.MSELoss` takes it (the file `pull` has others), steps are full-batch, as its cost model has them, and
runs have 100 rounds on MNIST and 300 on CIFAR-10. The mean and the scaling of inputs were chosen after runs on other
seeds had been seen, so all claims are judged on seeds of their own.

Accuracy is that of every device's own model on its own test samples, all devices counted from the first round on, so
that it is also a measure of how many have trained by then. With two classes per device one constant answer is right
for more than half of them: a run that ends less than five points above this chance of its own split has not learned,
and comparisons of two such runs decide nothing. Final accuracy is the mean over the last tenth of the rounds; how soon
is the mean over the first third.
"""

from typing import Any

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import TEN_CLASSES
from fedcell.options import override
from fedcell.scenarios import Config, get

STORE = "learning"
DATA = {"mnist": "MNIST", "cifar": "CIFAR-10"}
FRESH = {"mnist": (32, 33, 34, 35, 36), "cifar": (31, 32, 33)}
SCENARIOS = {"mnist": "knowledge_equal", "cifar": "knowledge_equal_cifar"}
METHODS = {"KFL": "knowledge", "FedRep": "fedrep", "APFL": "apfl", "FedAvg": "fedavg", "FedKD": "fedkd"}
HEARD = (10, 50)
PATTERNS = {"Descend": "descend", "Ascend": "ascend"}  # Uniform is KFL with ten devices in every round
WIDTHS = (128, 192, 256, 320, 384)
QUICK = {"rounds": 3, "eval_every": 1}


def config(data: str, quick: bool, **changes: Any) -> Config:
    """The scenario of a data set with changes; keys have `__` for the dot."""
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return override(get(SCENARIOS[data]).config, {**given, **(QUICK if quick else {})})


def case(key: str, config: Config, rule: str, n_selected: int, **settings: Any) -> Case:
    """One run of a method on random devices per seed."""
    given = {**get("knowledge_equal").methods[METHODS[rule]], "n_selected": n_selected, **settings}
    return Case(key, config, METHODS[rule], given, seeds=FRESH[key.partition("/")[0]])


def name(data: str, rule: str, heard: int, mixed: bool = False) -> str:
    """The key of a case; `mixed` are networks of several widths."""
    return f"{data}/{rule} {heard}{' mixed' if mixed else ''}"


def patterns(data: str, quick: bool, mixed: bool) -> list[Case]:
    """KFL with about as many devices in all, most of them early, or late: from 20 to 1 or back, 10.5 on average."""
    if quick:
        return []
    settings = config(data, quick, **({"model__widths": WIDTHS} if mixed else {}))
    return [case(name(data, one, 10, mixed), settings, "KFL", 10, pattern=own) for one, own in PATTERNS.items()]


def chance(row: Row) -> float:
    """Accuracy of the best constant answer of every device; among ten classes if all share one model."""
    own = [value for value in row.get("chance", ()) if value is not None]
    return float(own[-1]) if own else TEN_CLASSES
