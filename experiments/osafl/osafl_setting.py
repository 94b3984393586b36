"""What the figures and tables of OSAFL share: the runs that decide them, the ceilings of the data, and comparisons.

Figures 4 to 6, Tables II to V, the ablation and the local step are decided by the same runs, kept in the store
`tables`. Content is in [-1, 1] (`video.scaling=half`), which was chosen after results on other seeds;
`content_scaling.py` has the other choices. M-FedNova appears with its published rates and with rates retuned by
`rates.py`, M-AFA-CD with the paper's start of its buffer, which its published failure seems to come from, and (FCN)
with a start at zero. The FCN is
run on 5 seeds, the other networks on 3.

Chance is one of 100 files; whoever always names the commonest one (4 to 6 %) has learned nothing by it. A run that
diverged counts with its best evaluation before that, and with accuracy 0 after it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from fedcell.data.video import (
    OSAFL,
    bayes_accuracy,
    build_catalogue,
    draw_profiles,
    draw_requests,
    loss_floor,
    transition_matrix,
)
from fedcell.experiment import Case, Row, judging
from fedcell.experiment.judging import Measure, Part, inside, ratio, spread
from fedcell.options import override
from fedcell.scenarios import get
from fedcell.types import Floats

STORE = "tables"
N_DEVICES, N_FILES = 100, 100
CHANCE = 1 / N_FILES
FRESH = (31, 32, 33, 34, 35)
TIE = 0.01  # accuracy, for ">=": what one may be behind
NEAR = 0.02  # accuracy, for "~": twice the most that the paper's own tables show when it says so
FAR = 1.4  # times, for ">>": the least that the paper's own tables show when it says so


class Model(NamedTuple):
    """A network of the paper: its preset, the seeds it can afford, a small one of the same payload for a try."""

    title: str
    scenario: str
    n_seeds: int
    quick: Mapping[str, Any] | None
    changes: Mapping[str, Any] = {}


MODELS = {
    "fcn": Model("FCN", "osafl", 5, {"model.hidden": (64, 64), "world.bits_per_parameter": 343.0}),
    "squeezenet": Model("SqueezeNet1", "osafl_squeezenet", 3, None),
    "squeezenet_bn": Model("SqueezeNet1 with batch norm", "osafl_squeezenet", 3, None, {"model.norm": "batch"}),
    "cnn": Model("CNN", "osafl_cnn", 3, None),
    "lstm": Model(
        "LSTM",
        "osafl_lstm",
        3,
        {"model.width": 32, "model.layers": 1, "model.embedding": 16, "world.bits_per_parameter": 4131.0},
    ),
}
QUICK_ROUNDS = 8
TITLES = {
    "central": "Central SGD",
    "osafl": "OSAFL",
    "m_fedavg": "M-FedAvg",
    "m_afa_cd": "M-AFA-CD",
    "m_fednova": "M-FedNova (retuned)",
    "m_fedprox": "M-FedProx",
    "m_feddisco": "M-FedDisco",
    "m_fednova_printed": "M-FedNova (published rates)",
    "m_afa_cd_zero": "M-AFA-CD (start at zero)",
}
RETUNED, PUBLISHED = "m_fednova", "m_fednova_printed"
BASELINES = ("m_fedavg", "m_afa_cd", "m_fednova", "m_fednova_printed", "m_fedprox", "m_feddisco")


def printed_as(entry: str) -> str:
    """The method of the paper's tables behind an entry."""
    return entry.removesuffix("_printed").removesuffix("_zero")


# ---------------------------------------------------------------- runs


def key(model: str, k: int, entry: str) -> str:
    """What a run is called; `--only` selects by a part of it."""
    return f"{model} K={k} {entry}"


def method_of(model: str, entry: str) -> tuple[str, dict[str, Any]]:
    """(method, settings) behind an entry of `TITLES`."""
    preset = get(MODELS[model].scenario)
    match entry:
        case "m_fednova_printed":
            module = import_module(f"fedcell.scenarios.{MODELS[model].scenario}")
            return "m_fednova", dict(module.PRINTED["m_fednova"])
        case "m_afa_cd" | "m_afa_cd_zero":
            start = "zero" if entry.endswith("zero") else "paper"
            return "m_afa_cd", {**preset.methods["m_afa_cd"], "never_seen": start}
    return entry, dict(preset.methods[entry])


def case(model: str, k: int, name: str, method: str, settings: Mapping[str, Any], quick: bool, **changes: Any) -> Case:
    """A run of a method with a model, evaluated after every round."""
    about = MODELS[model]
    small = {"rounds": QUICK_ROUNDS, **(about.quick or {})} if quick else {}
    fixed = {"video.similar": k, "eval_every": 1, "train.tf32": model != "fcn"}  # tf32 counts on a GPU alone
    config = override(get(about.scenario).config, {**fixed, **about.changes, **changes, **small})
    settings = {**settings, "batch_size": 1600} if quick and method == "central" else settings
    return Case(key(model, k, name), config, method, settings, seeds=FRESH[: about.n_seeds])


def table_cases(models: Sequence[str], ks: Sequence[int], quick: bool) -> list[Case]:
    """The runs of the tables; a quick look has small networks and K = 1."""
    models = [model for model in models if MODELS[model].quick or not quick]
    ks = [k for k in ks if k == 1 or not quick]
    return [
        case(model, k, entry, *method_of(model, entry), quick)
        for model in models
        for k in ks
        for entry in TITLES
        if model == "fcn" or entry != "m_afa_cd_zero"
    ]


# ---------------------------------------------------------------- reading rows


def ran(rows: Sequence[Row], model: str, k: int, entries: Sequence[str] = ("osafl",)) -> bool:
    """Whether all of these entries were run."""
    return {key(model, k, entry) for entry in entries} <= {row["case"] for row in rows}


def of_case(rows: Sequence[Row], name: str) -> dict[int, Row]:
    """The rows of a case by seed."""
    return {row["seed"]: row for row in sorted(rows, key=lambda row: row["seed"]) if row["case"] == name}


@judging.of_accuracy
def best(row: Row) -> float:
    """The best accuracy of a run."""
    return float(np.nan_to_num(row["best_accuracy"]))


def loss_at_best(row: Row) -> float:
    """The loss where the accuracy is best."""
    return float(row["loss"][int(np.argmax(np.nan_to_num(row["accuracy"])))])


def values(rows: Sequence[Row], name: str, value: Callable[[Row], float] = best) -> Floats:
    """A number of every seed of a case."""
    return np.array([value(row) for row in of_case(rows, name).values()])


def curve(rows: Sequence[Row], name: str, what: str = "accuracy") -> tuple[Floats, Floats]:
    """(evaluated rounds, values of every seed `[n_seeds, n_evaluations]`)."""
    found = list(of_case(rows, name).values())
    lost = 0.0 if what == "accuracy" else np.inf
    at = np.array(found[0]["rounds"], dtype=float)
    return at, np.nan_to_num(np.array([row[what] for row in found], dtype=float), nan=lost, posinf=np.inf)


def mean_curve(rows: Sequence[Row], name: str, what: str = "accuracy") -> tuple[Floats, Floats]:
    """(evaluated rounds, mean over seeds)."""
    at, every = curve(rows, name, what)
    return at, every.mean(axis=0)


# ---------------------------------------------------------------- comparing


class Pairs(NamedTuple):
    """Comparisons of entries with one model and K, in best accuracy unless told otherwise."""

    rows: Sequence[Row]
    model: str
    k: int

    def key(self, entry: str) -> str:
        return key(self.model, self.k, entry)

    def named(self, one: str, sign: str, other: str) -> str:
        return f"{MODELS[self.model].title} K={self.k} {TITLES.get(one, one)} {sign} {TITLES.get(other, other)}"

    def ahead(self, high: str, low: str, value: Measure = best, by: float = 0.0) -> Part:
        """`>`"""
        name = self.named(high, ">", low)
        return judging.ahead(self.rows, self.key(high), self.key(low), value, CHANCE, name, by)

    def not_behind(self, high: str, low: str, slack: float = TIE) -> Part:
        """`>=`, `>~`"""
        name = self.named(high, ">=", low)
        return judging.not_behind(self.rows, self.key(high), self.key(low), slack, best, CHANCE, name)

    def near(self, one: str, other: str) -> Part:
        """`~`"""
        name = self.named(one, "~", other)
        return judging.level(self.rows, self.key(one), self.key(other), NEAR, best, CHANCE, name)

    def far(self, high: str, low: str) -> Part:
        """`>>`"""
        return inside(self.named(high, ">>", low), ratio(self.rows, self.key(high), self.key(low), best), low=FAR)

    def below(self, low: str, high: str, value: Measure) -> Part:
        """Less of something, such as loss."""
        return judging.below(self.rows, self.key(low), self.key(high), value, self.named(low, "<", high))


# ---------------------------------------------------------------- ceilings


class Ceiling(NamedTuple):
    """What no predictor beats, for the users of one seed."""

    accuracy: float  # expected, of the best predictor
    on_test: float  # of the best predictor on the test set of the seed
    loss: float  # floor of the expected loss
    one_file: float  # of always naming the file the test set has most


@cache
def ceiling(k: int, seed: int) -> Ceiling:
    """The ceiling of a seed; both data sets have the same requests and so the same one."""
    settings = override(OSAFL, {"similar": k})
    catalogue = build_catalogue(settings, seed)
    users = draw_profiles(settings, N_DEVICES, seed)
    log = draw_requests(catalogue, users, settings.test_warm_up + settings.test_samples, seed, "test")
    before, label = log[:, settings.test_warm_up - 1 : -1], log[:, settings.test_warm_up :]
    named = np.stack([transition_matrix(catalogue, users, u).argmax(axis=1)[before[u]] for u in range(N_DEVICES)])
    return Ceiling(
        float(bayes_accuracy(catalogue, users).mean()),
        float((named == label).mean()),
        float(loss_floor(catalogue, users).mean()),
        float(np.bincount(label.ravel()).max() / label.size),
    )


def ceilings(rows: Sequence[Row], k: int) -> list[Ceiling]:
    """Of the seeds that have rows with this K."""
    return [ceiling(k, seed) for seed in sorted({row["seed"] for row in rows if f" K={k} " in row["case"]})]


def told_limit(rows: Sequence[Row], k: int) -> str:
    """The best accuracy on the test sets and the least loss that any predictor has."""
    every = ceilings(rows, k)
    on_test, loss = (np.array([getattr(one, name) for one in every]) for name in ("on_test", "loss"))
    return f"{spread(100 * on_test, 1)} % / {spread(loss, 2)}"


def told_ceiling(rows: Sequence[Row], k: int) -> str:
    """The ceilings in words."""
    every = ceilings(rows, k)
    accuracy, on_test, loss = (np.array([getattr(one, name) for one in every]) for name in Ceiling._fields[:3])
    return f"ceiling {spread(accuracy)} (on the test sets {spread(on_test)}), loss floor {spread(loss)}"
