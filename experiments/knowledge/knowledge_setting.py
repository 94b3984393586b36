"""What the experiments on knowledge-aided learning share: cases of methods and patterns, without limits of energy.

The source names no value of lambda, no batch size and no number of rounds. Here lambda is 1 (the file `pull` sweeps
it), steps are full-batch, as its cost model has them, and runs have 100 rounds on MNIST and 300 on CIFAR-10. Names that
end in 64 are the same runs with mini-batches of 64 and as many passes over the data.

Accuracy is that of every device's own model on its own test samples, all devices counted from the first round on, so
that it is also a measure of how many have trained by then. Final accuracy is the mean over the last tenth of the
rounds; how soon is the mean over the first third.
"""

from typing import Any

from fedcell.experiment import Case
from fedcell.options import override
from fedcell.scenarios import Config, get

STORE = "learning"
DATA = {"mnist": "MNIST", "cifar": "CIFAR-10"}
MINI = {"mnist64": "MNIST, mini-batches", "cifar64": "CIFAR-10, mini-batches"}
SCENARIOS = {"mnist": "knowledge_equal", "cifar": "knowledge_equal_cifar"}
METHODS = {"KFL": "knowledge", "FedRep": "fedrep", "APFL": "apfl", "FedAvg": "fedavg", "FedKD": "fedkd"}
HEARD = (10, 50)
PATTERNS = ("descend", "even", "ascend")
WIDTHS = (128, 192, 256, 320, 384)
PASSES, BATCH = 5, 64
HOLDS = {"mnist": 600, "cifar": 500}  # samples of a device
QUICK = {"mnist": {"rounds": 3, "eval_every": 1}, "cifar": {"rounds": 3, "eval_every": 1}}


def config(data: str, quick: bool, **changes: Any) -> Config:
    """The scenario of a data set with changes; keys have `__` for the dot."""
    base = data.removesuffix("64")
    given = {key.replace("__", "."): value for key, value in changes.items()}
    if data in MINI:
        given |= {"train.batch_size": BATCH, "train.steps": round(PASSES * HOLDS[base] / BATCH)}
    return override(get(SCENARIOS[base]).config, {**given, **(QUICK[base] if quick else {})})


def case(key: str, config: Config, rule: str, n_selected: int, **settings: Any) -> Case:
    """One run of a method on random devices per seed."""
    method = METHODS[rule]
    given = {**get("knowledge_equal").methods[method], "n_selected": n_selected, **settings}
    if config.train.batch_size and method in ("knowledge", "fedkd"):  # whose own default is the whole store
        given["batch_size"] = config.train.batch_size
    return Case(key, config, method, given)


def name(data: str, rule: str, heard: int, mixed: bool = False) -> str:
    """The key of a case; `mixed` are networks of several widths."""
    return f"{data}/{rule} {heard}{' mixed' if mixed else ''}"


def patterns(data: str, quick: bool, mixed: bool) -> list[Case]:
    """KFL with as many devices in all, most of them early, evenly, or late."""
    if quick:
        return []
    settings = config(data, quick, **({"model__widths": WIDTHS} if mixed else {}))
    return [case(name(data, one, 10, mixed), settings, "KFL", 10, pattern=one) for one in PATTERNS]
