"""`train.bf16`: products in bfloat16 in every engine that has them, everything else in float32."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcell.errors import BadInput
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.objectives import signature
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work, rounded
from fedcell.types import Start, Store

MODELS = {
    "logistic": (ModelConfig(name="logistic"), (1, 12, 12)),
    "cnn": (ModelConfig(name="cnn", channels=(4, 8), kernel=3, hidden=(16,)), (1, 12, 12)),
    "batch norm": (ModelConfig(name="cnn", channels=(4, 8), kernel=3, hidden=(16,), norm="batch"), (1, 12, 12)),
    "group norm": (ModelConfig(name="cnn", channels=(4, 8), kernel=3, hidden=(16,), norm="group"), (1, 12, 12)),
    "lstm": (ModelConfig(name="lstm", width=16, layers=1), (10,)),
    "transformer": (None, (10,)),
}
N_ROWS = 4
MOST = 0.05  # of an update of one step: a dozen products in a row, each rounded to 8 bits


class Reader(nn.Module):
    """A transformer large enough for compiled kernels of float32 (`cpu/native/sequences.py`)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.0, activation="gelu", batch_first=True)
        self.layers, self.last = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(96, 10)

    def forward(self, x):
        return self.last(self.layers(self.words(x.long())).mean(dim=1))


def train(model, engine, bf16, batch_size=16, steps=1, device="cpu"):
    config, shape = MODELS[model]
    rng = np.random.default_rng(0)
    words = model in ("lstm", "transformer")
    x = rng.integers(0, 10, (200, *shape)) if words else rng.standard_normal((200, *shape))
    data = Samples(x.astype(np.float32), rng.integers(0, 10, 200), torch.device(device))
    layout = Architecture.of(initialise(lambda: build(config, shape, 10) if config else Reader(), 1))
    learner = Learner([layout], data, data, TrainConfig(engine=engine, bf16=bf16), 1)
    store = Store(rng.integers(0, 200, (N_ROWS, 40)), np.array([40, 30, 20, 35]))
    work = Work(np.arange(N_ROWS), store, np.full(N_ROWS, steps), lr=0.05, batch_size=batch_size, round=0)
    start = Start(learner.initial()[None], np.zeros(N_ROWS, dtype=np.int64))
    return learner.train(start, work).delta.cpu().clone(), learner


def apart(found, wanted):
    return float((found - wanted).norm() / wanted.norm())


@pytest.fixture
def smooth(monkeypatch):
    """No ReLU or max-pool that flips by rounding."""
    monkeypatch.setattr(functional, "relu", lambda x, inplace=False: x.tanh())
    monkeypatch.setattr(
        nn.MaxPool2d, "forward", lambda self, x: functional.avg_pool2d(x, self.kernel_size, self.stride)
    )


WAYS = [  # on a CPU PyTorch warns of attention under vmap, which is nobody's choice there
    (engine, model)
    for engine in ("sequential", "vmap", "auto")
    for model in MODELS
    if (engine, model) != ("vmap", "transformer")
]


@pytest.mark.parametrize("batch_size", [16, 0])
@pytest.mark.parametrize(("engine", "model"), WAYS)
def test_engines_round_as_debug_does(engine, model, batch_size, smooth):
    found, _ = train(model, engine, True, batch_size)
    wanted, _ = train(model, "debug", True, batch_size)
    exact, _ = train(model, "debug", False, batch_size)
    assert found.dtype == torch.float32
    assert apart(found, wanted) < MOST
    assert 1e-4 < apart(found, exact) < MOST, "rounded, and not broken"


def test_float32_stays_as_it_was():
    """Off by default: the kernels that know float32 alone train."""
    assert not TrainConfig().bf16
    (_, plain), (_, other) = train("cnn", "auto", False), train("cnn", "auto", True)
    assert "a chain of known layers" in next(iter(plain.trained_by))
    assert "a chain of known layers" not in next(iter(other.trained_by))


def test_the_engine_that_cannot_says_so():
    with pytest.raises(
        BadInput, match=r"train\.engine = 'batched' has float32 alone and train\.bf16 = true: use 'auto'"
    ):
        train("logistic", "batched", True)


def test_evaluation_is_float32():
    (_, plain), (_, other) = train("cnn", "auto", False), train("cnn", "auto", True)
    assert plain.evaluate(plain.initial()) == other.evaluate(other.initial())


def shifted(by, module, x, y, weight):
    return functional.cross_entropy(module(x) + by, y)


def test_a_recorded_step_serves_as_many_rounds_as_before():
    """Objectives whose signature is known keep one, tensors included; others have none, as before."""
    first, second = (signature(rounded(partial(shifted, torch.full((10,), n)), "cuda")) for n in (0.0, 1.0))
    assert first == second is not None
    assert signature(rounded(None, "cuda")) == signature(rounded(None, "cuda")) is not None
    assert signature(rounded(lambda *given: shifted(0, *given), "cuda")) is None
