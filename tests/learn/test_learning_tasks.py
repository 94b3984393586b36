"""Tasks: losses and metrics against scikit-learn and plain loops, and every engine against the debug engine."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from torch import nn

from fedcell.errors import BadInput, Notice
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.objectives import signature
from fedcell.learn.learner import Learner
from fedcell.learn.models import build
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import check_fits, initialise
from fedcell.learn.tasks import LEARNED
from fedcell.learn.work import Work
from fedcell.metrics import TASKS
from fedcell.types import Start, Store

CPU = torch.device("cpu")
N, LENGTH, OUT = 90, 7, 5
SMALL = ModelConfig(name="transformer", width=12, layers=2, heads=3)
MODELS = {
    "multi-label": (ModelConfig(name="mlp", hidden=(9,)), (6,)),
    "regression": (ModelConfig(name="cnn", channels=(4,), kernel=3, hidden=(8,)), (2, 8, 8)),
    "next-token": (SMALL, (LENGTH,)),
}


def targets(task, rng, n=N):
    return {
        "classification": lambda: rng.integers(0, OUT, n),
        "multi-label": lambda: (rng.random((n, OUT)) < 0.4).astype(np.float32),
        "regression": lambda: rng.normal(3.0, 2.0, (n, OUT)).astype(np.float32),
        "next-token": lambda: rng.integers(0, OUT, (n, LENGTH)),
    }[task]()


def samples(task, shape):
    rng = np.random.default_rng(2)
    x = rng.integers(0, OUT, (N, *shape)) if task == "next-token" else rng.standard_normal((N, *shape))
    return Samples(x.astype(np.float32), targets(task, rng), CPU)


def learner(task, engine, model=None, **changes):
    config, shape = MODELS[task]
    layout = Architecture.of(initialise(lambda: model or build(config, shape, OUT), 3))
    data = samples(task, shape)
    return Learner([layout], data, data, TrainConfig(engine=engine, device="cpu", **changes), 4, task=task)


def work(**changes):
    store = Store(
        np.stack([np.random.default_rng(row).permutation(N)[:30] for row in range(4)]), np.array([30, 9, 17, 4])
    )
    return Work(np.arange(4), store, np.array([3, 1, 4, 2]), lr=0.05, batch_size=8, round=3)._replace(**changes)


def train(one, job):
    return one.train(Start(one.initial()[None], np.zeros(len(job.steps), dtype=np.int64)), job).delta.clone()


# ---------------------------------------------------------------- engines


VARIANTS = {
    "plain": {},
    "prox and momentum": {"prox": 0.3, "momentum": 0.5},
    "whole stores": {"batch_size": 0},
    "whole stores, momentum": {"batch_size": 0, "momentum": 0.9},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("engine", ["sequential", "vmap", "auto"])
@pytest.mark.parametrize("task", MODELS)
def test_engines_agree_with_the_debug_engine(task, engine, variant):
    job = work(**VARIANTS[variant])
    slow, fast = train(learner(task, "debug"), job), train(learner(task, engine), job)
    assert slow.abs().max() > 1e-4, "nothing was trained"
    torch.testing.assert_close(fast, slow, rtol=5e-4, atol=5e-5 * float(slow.abs().max()))


def test_the_debug_engine_is_a_plain_loop_of_the_textbook_loss():
    one = learner("multi-label", "debug")
    job = work(
        device=np.zeros(1, np.int64),
        store=Store(np.arange(20)[None], np.array([20])),
        steps=np.array([3]),
        batch_size=0,
    )
    module, loss = one.architectures[0].replica(CPU), nn.BCEWithLogitsLoss()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    x, y = one.train_samples.take(np.arange(20))
    for _ in range(3):
        optimiser.zero_grad()
        loss(module(x), y).backward()
        optimiser.step()
    torch.testing.assert_close(one.initial() + train(one, job)[0], one.architectures[0].flat(module))


def test_batched_is_refused_by_name():
    with pytest.raises(BadInput, match="needs a chain of dense layers and cross-entropy"):
        train(learner("multi-label", "batched"), work())


@pytest.mark.parametrize("task", MODELS)
def test_steps_can_be_recorded(task):
    """A GPU replays the steps of a cohort only if it knows that the next round has the same objective."""
    again = LEARNED[task].objective
    assert isinstance(again, partial)
    assert signature(again) == signature(LEARNED[task].objective) is not None
    fast = learner(task, "vmap")
    for _ in range(2):
        train(fast, work())
    assert len(fast._replays._kept) == 1


def test_classification_keeps_its_own_kernels():
    assert LEARNED["classification"].objective is None


# ---------------------------------------------------------------- metrics


def columns(task, scores, y, parts=3):
    """As a learner evaluates: sums over batches."""
    pieces = [
        LEARNED[task].tally(a, b).numpy()
        for a, b in zip(scores.tensor_split(parts), y.tensor_split(parts), strict=True)
    ]
    return LEARNED[task].columns(np.sum(pieces, axis=0), len(y))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 40), st.integers(2, 6))
def test_metrics_of_labels_are_those_of_scikit_learn(seed, n, n_labels):
    rng = np.random.default_rng(seed)
    y, scores = (
        (rng.random((n, n_labels)) < 0.4).astype(np.float32),
        rng.standard_normal((n, n_labels)).astype(np.float32),
    )
    found, said = columns("multi-label", torch.from_numpy(scores), torch.from_numpy(y)), scores > 0
    assert found["f1"] == pytest.approx(reference.f1_score(y, said, average="micro", zero_division=0))
    assert found["subset_accuracy"] == pytest.approx(reference.accuracy_score(y, said))
    assert found["label_accuracy"] == pytest.approx((said == y).mean())
    assert found["loss"] == pytest.approx(
        reference.log_loss(y.ravel(), 1 / (1 + np.exp(-scores.ravel())), labels=[0, 1]), rel=1e-4
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 40), st.integers(1, 4), st.sampled_from([0.0, 1e4]))
def test_metrics_of_regression_are_those_of_scikit_learn(seed, n, n_targets, level):
    rng = np.random.default_rng(seed)
    y, scores = (rng.normal(level, 3, (n, n_targets)).astype(np.float32) for _ in range(2))
    found = columns("regression", torch.from_numpy(scores), torch.from_numpy(y))
    y, scores = y.astype(np.float64), scores.astype(np.float64)
    assert found["loss"] == pytest.approx(reference.mean_squared_error(y, scores), rel=1e-4)
    assert found["rmse"] == pytest.approx(found["loss"] ** 0.5)
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(y, scores), rel=1e-4)
    assert found["r2"] == pytest.approx(reference.r2_score(y, scores), rel=1e-3)


def test_perplexity_is_that_of_a_fair_die():
    y = torch.randint(0, OUT, (12, LENGTH), generator=torch.Generator().manual_seed(0))
    found = columns("next-token", torch.zeros(12, LENGTH, OUT), y)
    assert found["perplexity"] == pytest.approx(OUT)
    assert found["token_accuracy"] == pytest.approx(float((y == 0).float().mean()))
    sure = 20 * nn.functional.one_hot(y, OUT).float()
    assert columns("next-token", sure, y)["perplexity"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("task", [*MODELS, "classification"])
def test_every_task_fills_its_columns(task):
    rng = np.random.default_rng(0)
    shape = (N, LENGTH, OUT) if task == "next-token" else (N, OUT)
    scores = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    assert list(columns(task, scores, torch.from_numpy(targets(task, rng)))) == [metric.name for metric in TASKS[task]]


def test_classification_is_counted_as_ever():
    rng = np.random.default_rng(0)
    scores, y = (
        torch.from_numpy(rng.standard_normal((N, OUT)).astype(np.float32)),
        torch.from_numpy(rng.integers(0, OUT, N)),
    )
    loss = sum(
        float(nn.functional.cross_entropy(a, b, reduction="sum"))
        for a, b in zip(scores.split(30), y.split(30), strict=True)
    )
    assert columns("classification", scores, y) == {
        "accuracy": float((scores.argmax(1) == y).sum()) / N,
        "loss": loss / N,
    }


# ---------------------------------------------------------------- constant answers


def test_constant_answers_by_brute_force():
    rng = np.random.default_rng(3)
    labels, held = rng.integers(0, OUT, 60), rng.integers(0, OUT, 30)
    assert LEARNED["classification"].constant(labels, held) == (held == np.bincount(labels).argmax()).mean()
    y, z = rng.normal(5, 2, (60, 2)), rng.normal(5, 2, (30, 2))
    assert LEARNED["regression"].constant(y, z) == pytest.approx(((z - y.mean(axis=0)) ** 2).mean() ** 0.5)
    text = np.array([[0, 0, 1, 0]])
    assert LEARNED["next-token"].constant(text, text) == pytest.approx(np.exp(-(3 * np.log(4 / 6) + np.log(2 / 6)) / 4))


def test_the_constant_set_of_labels_is_the_best_of_all_sets():
    rng = np.random.default_rng(1)
    y = (rng.random((50, 4)) < [0.7, 0.2, 0.5, 0.05]).astype(np.float32)
    sets = [[number >> label & 1 for label in range(4)] for number in range(16)]
    best = max(reference.f1_score(y, [one] * 50, average="micro", zero_division=0) for one in sets)
    assert LEARNED["multi-label"].constant(y, y) == pytest.approx(best)


def test_hopeless_follows_the_scale_of_the_targets():
    y = np.array([[0.0], [2000.0]])
    assert LEARNED["regression"].hopeless(y) == 1e6 * 1e6
    assert LEARNED["classification"].hopeless(np.array([0, 1])) == 1e6


# ---------------------------------------------------------------- networks


def test_attention_is_causal():
    """What is said of a place does not depend on the places after it."""
    net = initialise(lambda: build(SMALL, (LENGTH,), OUT), 1).eval()
    x = torch.randint(0, OUT, (3, LENGTH), generator=torch.Generator().manual_seed(1)).float()
    for place in range(LENGTH - 1):
        other = x.clone()
        other[:, place + 1 :] = (other[:, place + 1 :] + 1) % OUT
        torch.testing.assert_close(net(other)[:, : place + 1], net(x)[:, : place + 1])
        assert not torch.allclose(net(other)[:, place + 1 :], net(x)[:, place + 1 :])


def test_attention_is_that_of_pytorch():
    block = initialise(lambda: build(SMALL, (LENGTH,), OUT), 1).blocks[0]
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(block.mix.weight), theirs.in_proj_bias.copy_(block.mix.bias)
        theirs.out_proj.weight.copy_(block.out.weight), theirs.out_proj.bias.copy_(block.out.bias)
    x, later = torch.randn(4, LENGTH, 12), torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    torch.testing.assert_close(block._attend(x), theirs(x, x, x, attn_mask=later)[0], rtol=1e-4, atol=1e-6)


def test_heads_must_divide_the_width():
    with pytest.raises(BadInput, match=r"model.width = 12 is no multiple of model.heads = 5"):
        build(ModelConfig(name="transformer", width=12, heads=5), (LENGTH,), OUT)


@pytest.mark.parametrize(
    ("task", "model", "words"),
    [
        ("regression", nn.Sequential(nn.Flatten(), nn.Linear(128, 4)), "4 outputs but the data has 5 targets"),
        ("multi-label", nn.Linear(6, 3), "3 outputs but the data has 5 labels"),
        ("next-token", nn.Linear(7, 5), "one row of scores per token"),
        ("regression", nn.Linear(8, 5), "one row of numbers per sample"),
    ],
)
def test_models_that_do_not_fit_are_refused(task, model, words):
    with pytest.raises(BadInput, match=words):
        check_fits(Architecture.of(model), samples(task, MODELS[task][1]), OUT, task)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("classification", "labels name 5 classes"),
        ("multi-label", "data has 5 labels"),
        ("regression", "data has 5 targets"),
    ],
)
def test_a_model_with_more_outputs_than_the_data_needs_is_a_notice(task, words):
    with pytest.warns(Notice, match=f"7 outputs but the {words}: narrow its last layer"):
        check_fits(Architecture.of(nn.Linear(6, 7)), samples(task, (6,)), OUT, task)


def test_a_vocabulary_may_be_larger_than_the_texts_need():
    check_fits(Architecture.of(build(SMALL, (LENGTH,), OUT + 2)), samples("next-token", (LENGTH,)), OUT, "next-token")


@pytest.mark.parametrize("changes", [{"top": (2,)}, {"spread": True}])
def test_columns_of_classes_are_refused(changes):
    with pytest.raises(BadInput, match=f"train.{next(iter(changes))} needs class labels, which the task 'regression'"):
        learner("regression", "auto", **changes)
