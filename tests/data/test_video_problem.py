"""Video samples, stores and the whole loop: features, sliding windows, arrivals, memory, no leakage."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fedcell import methods
from fedcell.data.video import OSAFL, RAWHFL, VideoConfig, bayes_accuracy, draw_arrivals, draw_requests, sample_bit
from fedcell.data.video.problem import video_problem_parts
from fedcell.errors import BadInput, ContractError
from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.options import Law
from fedcell.simulate import simulate
from fedcell.types import Problem
from fedcell.world import build_world
from fedcell.world.settings import WorldConfig

HISTORY = replace(OSAFL, features="history")
SMALL = VideoConfig(
    n_genres=3,
    files_per_genre=4,
    content="uniform",
    content_width=6,
    slots=8,
    capacity=Law((20.0, 30.0), "uniform"),
    genre_repeats=2,
)


def play(parts, n_rounds, seed=1):
    """The stores before the first round and after every arrival."""
    store, memory = parts.stream.start(seed)
    yield store
    for round in range(n_rounds):
        store, memory = parts.stream.arrive(seed, round, store, memory)
        yield store


def build(settings, n_devices, n_rounds, train, model, seed=1):
    """A problem on video requests."""
    parts = video_problem_parts(settings, n_devices, n_rounds, seed)
    module = initialise(lambda: models.build(model, parts.shape, parts.n_classes), seed)
    learner = Learner([Architecture.of(module)], parts.train, parts.test, train, seed)
    world = build_world(WorldConfig(n_devices=n_devices), parts.stream, learner.n_params, 1e3, seed)
    return Problem(world, learner, train, seed, n_rounds, n_rounds), parts


# ---------------------------------------------------------------- features


def test_content_features_block_by_block():
    parts = video_problem_parts(OSAFL, 3, 2, 1)
    catalogue, profiles, train = parts.catalogue, parts.profiles, parts.train
    assert parts.shape == (3168,)
    assert sample_bit(OSAFL, catalogue) == 101_376
    log = draw_requests(catalogue, profiles, train.per_user + 1, 1, "train")
    for user, place in ((0, 0), (1, 17), (2, train.per_user - 1)):
        x, y = train.take(np.array([user * train.per_user + place]))
        file, row = log[user, place], x[0].numpy()
        assert int(y[0]) == log[user, place + 1]
        assert (row[:3072] == catalogue.content[file]).all()
        np.testing.assert_allclose(row[3072:3077], profiles.preference[user], rtol=1e-6)
        np.testing.assert_allclose(row[3077:3097], catalogue.similarity[file // 20, file % 20], rtol=1e-6)
        assert row[3077 + file % 20] == 1
        assert (row[3097:3167] == file // 20).all()
        assert row[3167] == pytest.approx(profiles.stay[user])


def test_image_layout_is_the_same_numbers():
    flat, image = (video_problem_parts(replace(OSAFL, layout=layout), 3, 1, 1) for layout in ("flat", "image"))
    index = np.array([0, 5, len(flat.train) - 1])
    assert image.shape == (3, 32, 33)
    pictures = image.train.take(index)[0]
    assert pictures.is_contiguous(memory_format=torch.channels_last)
    assert (pictures.reshape(3, -1) == flat.train.take(index)[0]).all()


def test_image_layout_needs_whole_images():
    with pytest.raises(BadInput, match="multiple of 96 numbers, not 3167"):
        video_problem_parts(replace(OSAFL, layout="image", genre_repeats=69), 2, 1, 1)


def test_compact_features_entry_by_entry():
    parts = video_problem_parts(RAWHFL, 3, 4, 1)
    catalogue, profiles, train = parts.catalogue, parts.profiles, parts.train
    assert parts.shape == (43,)
    assert sample_bit(RAWHFL, catalogue) == 1376
    file = draw_requests(catalogue, profiles, 1, 1, "train")[1, 0]
    row = train.take(np.array([train.per_user]))[0][0].numpy()
    expected = [
        *(profiles.stay[1], *profiles.preference[1], file // 32 / 8),
        *(*catalogue.similarity[file // 32, file % 32], file % 32 / 32),
    ]
    np.testing.assert_allclose(row, expected, rtol=1e-6)
    assert row[10 + file % 32] == 1
    module = models.build(ModelConfig(name="mlp", hidden=(512, 256)), parts.shape, parts.n_classes)
    assert Architecture.of(module).n_params == 219_648


def test_history_is_the_last_ten_requests():
    parts = video_problem_parts(HISTORY, 3, 2, 1)
    train = parts.train
    assert parts.shape == (10,)
    assert sample_bit(HISTORY, parts.catalogue) == 70
    log = draw_requests(parts.catalogue, parts.profiles, train.per_user + 10, 1, "train")
    x, y = train.take(np.arange(train.per_user, 2 * train.per_user))
    windows = np.lib.stride_tricks.sliding_window_view(log[1], 10)[:-1]
    assert (x.numpy() == windows).all()
    assert (y.numpy() == log[1, 10:]).all()


@pytest.mark.parametrize("settings", [OSAFL, RAWHFL, HISTORY], ids=["content", "compact", "history"])
def test_label_is_the_next_input(settings):
    """The label of a sample is the file whose features are the next sample's input."""
    parts = video_problem_parts(settings, 2, 3, 1)
    x, y = parts.train.take(np.arange(parts.train.per_user))
    if settings.features == "history":
        assert (x[1:, -1] == y[:-1]).all()
        return
    first = {int(label): row for label, row in zip(y[:-1], x[1:], strict=True)}
    assert all((first[int(label)] == row).all() for label, row in zip(y[:-1], x[1:], strict=True))


# ---------------------------------------------------------------- stores


def test_fifo_stores_slide_along_the_log():
    n_rounds = 120
    parts = video_problem_parts(OSAFL, 5, n_rounds, 1)
    arrived = np.concatenate([np.zeros((1, 5), int), np.cumsum(draw_arrivals(parts.profiles, n_rounds, 1), axis=0)])
    capacity = parts.profiles.capacity.astype(int)
    for store, seen in zip(play(parts, n_rounds), arrived, strict=True):
        assert (store.size == capacity).all()
        for user in range(5):
            begin = user * parts.train.per_user + seen[user]
            assert (store.items[user, : capacity[user]] == begin + np.arange(capacity[user])).all()
    gone = arrived[-1] >= capacity
    assert gone.any()
    first = next(play(parts, 0))
    for user in np.flatnonzero(gone):
        assert not set(store.items[user, : capacity[user]]) & set(first.items[user, : capacity[user]])


def test_stores_without_limit_grow():
    parts = video_problem_parts(RAWHFL, 6, 30, 1)
    stores = list(play(parts, 30))
    assert (stores[0].size == 49).all()
    for before, after in pairwise(stores):
        assert np.isin(after.size - before.size, (0, 1)).all()
        for user, size in enumerate(before.size):
            assert (after.items[user, :size] == before.items[user, :size]).all()
    assert stores[-1].size.max() == parts.train.per_user


@pytest.mark.parametrize("cache", ["srsr", "drsr", "lazy"])
def test_other_cache_rules_keep_the_users_own_requests(cache):
    parts = video_problem_parts(replace(SMALL, cache=cache), 4, 10, 1)
    for store in play(parts, 10):
        assert (store.size == parts.profiles.capacity).all()
        for user, size in enumerate(store.size):
            assert (parts.train.user(store.items[user, :size]) == user).all()


def test_stores_stay_with_more_users_and_rounds():
    few, many = video_problem_parts(SMALL, 3, 4, 1), video_problem_parts(SMALL, 9, 12, 1)
    for left, right in zip(play(few, 4), play(many, 4), strict=True):
        for user, size in enumerate(left.size):
            assert size == right.size[user]
            one, other = few.train.take(left.items[user, :size]), many.train.take(right.items[user, :size])
            assert (one[0] == other[0]).all()
            assert (one[1] == other[1]).all()
    assert (few.test.take(np.arange(300))[0] == many.test.take(np.arange(300))[0]).all()


def test_requests_of_another_seed_or_round_are_refused():
    parts = video_problem_parts(SMALL, 2, 3, 1)
    with pytest.raises(ContractError, match="drawn for seed 1 and 3 rounds, not for seed 2"):
        parts.stream.start(2)
    store, memory = parts.stream.start(1)
    with pytest.raises(ContractError, match="and round 3"):
        parts.stream.arrive(1, 3, store, memory)


def test_nothing_ever_arrives():
    settings = replace(SMALL, slots=0, initial=0.0)
    store = list(play(video_problem_parts(settings, 2, 2, 1), 2))[-1]
    assert store.size.tolist() == [0, 0]


# ---------------------------------------------------------------- test sets, memory


@pytest.mark.parametrize("settings", [SMALL, HISTORY])
def test_test_sets_pooled_and_per_user(settings):
    parts = video_problem_parts(settings, 4, 2, 1)
    test = parts.test
    assert len(test) == 400
    assert test.user(np.array([0, 99, 100, 399])).tolist() == [0, 0, 1, 3]
    for user in range(4):
        own = test.of_user(user)
        index = np.arange(100)
        assert len(own) == 100
        assert (own.user(index) == user).all()
        assert (own.take(index)[0] == test.take(100 * user + index)[0]).all()
        assert (own.take(index)[1] == test.take(100 * user + index)[1]).all()
        assert (own.labels == own.y.numpy()).all()


def test_samples_are_kept_as_integers():
    tracemalloc.start()
    parts = video_problem_parts(OSAFL, 100, 100, 1)
    for store in play(parts, 100):
        last = store
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_bytes = parts.train.nbytes
    assert last.size.sum() > 40_000
    assert n_bytes < 24 * len(parts.train) + 4 * 3168 * 110  # integers, and a table of 100 files
    assert peak < 64e6
    assert 4 * 3168 * len(parts.train) > 100 * n_bytes


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("settings", [OSAFL, replace(OSAFL, layout="image"), RAWHFL, HISTORY])
def test_cuda_takes_the_same_batches(settings):
    here, there = (video_problem_parts(settings, 3, 2, 1, torch.device(name)) for name in ("cpu", "cuda"))
    index = np.arange(0, len(here.train), 7)
    for left, right in zip(here.train.take(index), there.train.take(index), strict=True):
        assert right.is_cuda
        assert (left == right.cpu()).all()


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        (SMALL, ModelConfig(name="mlp", hidden=(8,))),
        (replace(SMALL, features="history"), ModelConfig(name="lstm", embedding=4, width=6, layers=1)),
        (
            replace(OSAFL, layout="image"),
            ModelConfig(name="cnn", channels=(2, 2), kernel=3, padding=1, hidden=(8,)),
        ),
    ],
    ids=["mlp", "lstm", "cnn"],
)
def test_methods_train_on_requests(settings, model):
    problem, _ = build(settings, 3, 3, TrainConfig(steps=2, batch_size=8, device="cpu"), model)
    rows = [row for row, _ in simulate(problem, methods.parse("fedavg").build())]
    assert rows[-1].n_delivered == 3
    assert 0 <= rows[-1].metrics["accuracy"] <= 1


def test_a_trained_model_reaches_the_ceiling_and_no_more():
    settings = replace(SMALL, features="compact", explore="top", stay=Law((0.7,)), test_samples=500)
    settings = replace(settings, capacity=Law((400.0,)))
    train = TrainConfig(steps=200, batch_size=40, lr=0.3, device="cpu")
    problem, parts = build(settings, 8, 4, train, ModelConfig(name="mlp", hidden=(32,)))
    *_, last = (row for row, _ in simulate(problem, methods.parse("central").build()))
    ceiling = bayes_accuracy(parts.catalogue, parts.profiles).mean()
    error = np.sqrt(ceiling * (1 - ceiling) / len(parts.test))
    assert ceiling - 0.05 < last.metrics["accuracy"] < ceiling + 3 * error
