"""Label streams: the chains, what arrives, the ideal cache, growing stores, and settings that cannot be."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedcell import methods
from fedcell.data import load
from fedcell.data.settings import DataConfig
from fedcell.errors import BadInput
from fedcell.labels import histogram
from fedcell.options import Law, override
from fedcell.record import checkpoint
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate
from fedcell.types import Store
from fedcell.world.caches import Keeper
from fedcell.world.labels import draw_labels, draw_law, first_state, make_law, next_state
from fedcell.world.settings import StreamConfig
from fedcell.world.streams import Source, binomial_stream, markov_stream, streaming

LABELS = np.arange(2000) % 10
MARKOV = StreamConfig(kind="markov", capacity=Law((40.0,)), batch=Law((10.0,)))
WANDERING = {  # the split of the data has no part in it
    "stream.kind": "markov",
    "stream.capacity": "30",
    "stream.batch": "10",
    "data.partition": DataConfig().partition,
}
THREE = np.array([[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]])


def play(stream, n_rounds, seed=1):
    """The stores before the first round and after every arrival."""
    store, memory = stream.start(seed)
    yield store
    for round in range(n_rounds):
        store, memory = stream.arrive(seed, round, store, memory)
        yield store


# ---------------------------------------------------------------- chains


def test_chain_of_three_states():
    law = make_law(THREE, beta=1.0, smoothing=0.0)
    want = [
        [0.60033617, 0.14003336, 0.25963046],
        [0.12903791, 0.55319763, 0.31776446],
        [0.21799176, 0.26837934, 0.5136289],
    ]
    np.testing.assert_allclose(law.transition[0], want, atol=1e-8)
    np.testing.assert_allclose(law.stationary[0], [0.30681962, 0.32019873, 0.37298165], atol=1e-8)
    np.testing.assert_allclose(law.long_term[0], [0.3520719, 0.39873544, 0.24919266], atol=1e-8)
    assert law.second_eigenvalue[0] == pytest.approx(0.45103221, abs=1e-8)


def test_states_that_are_alike_up_to_rounding_are_no_farther_than_nothing():
    """Rounding makes a divergence negative, and a large beta would make it a weight without end."""
    share = np.random.default_rng(0).dirichlet(np.full(4, 1e30), (3, 5)) * (1 + 1e-16 * np.arange(5)[:, None])
    try:
        law = make_law(share, beta=1e38, smoothing=0.01)
    except BadInput as error:
        assert "never left" in str(error)  # noqa: PT017 - either is fine, and nothing else
    else:
        assert np.isfinite(law.transition).all()


@pytest.mark.parametrize("classes", ["cyclic", "random"])
def test_chains_are_proper(classes):
    law = draw_law(replace(MARKOV, classes=classes, beta=5.0), np.arange(10), 10, 30, seed=4)
    np.testing.assert_allclose(law.transition.sum(axis=2), 1)
    np.testing.assert_allclose((law.stationary[:, None] @ law.transition)[:, 0], law.stationary, atol=1e-12)
    np.testing.assert_allclose(law.long_term.sum(axis=1), 1)
    assert ((law.long_term > 0).sum(axis=1) == 3).all()
    assert (law.long_term.sum(axis=0) > 0).all()  # every class occurs somewhere


@pytest.mark.parametrize(("beta", "second", "staying"), [(0.5, 0.18, 0.13), (2.0, 0.52, 0.21), (10.0, 0.94, 0.45)])
def test_beta_is_the_knob_of_temporal_correlation(beta, second, staying):
    law = draw_law(replace(MARKOV, beta=beta), np.arange(10), 10, 100, seed=1)
    assert law.second_eigenvalue.mean() == pytest.approx(second, abs=0.04)
    diagonal = np.diagonal(law.transition, axis1=1, axis2=2)
    assert np.sum(law.stationary * diagonal, axis=1).mean() == pytest.approx(staying, abs=0.02)


def test_long_run_shares_are_the_long_term_law():
    law = draw_law(MARKOV, np.arange(10), 10, 5, seed=2)
    state, total = first_state(law, 2), np.zeros((5, 10))
    for round in range(3000):
        labels = draw_labels(law, state, 5, 2, round)
        total += histogram(Store(labels, np.full(5, 5)), np.arange(10), 10)
        state = next_state(law, state, 2, round)
    np.testing.assert_allclose(total / total.sum(axis=1, keepdims=True), law.long_term, atol=0.03)
    assert (total[law.long_term == 0] == 0).all()


def test_a_device_draws_alike_alone_or_in_company():
    few, many = (draw_law(MARKOV, np.arange(10), 10, n, seed=3) for n in (2, 6))
    np.testing.assert_array_equal(few.states, many.states[:2])
    labels = [draw_labels(law, first_state(law, 3), 20, 3, 0)[:2] for law in (few, many)]
    np.testing.assert_array_equal(*labels)


# ---------------------------------------------------------------- Markov streams with caches


@pytest.mark.parametrize("cache", ["fifo", "srsr", "drsr", "lazy", "full"])
def test_prefilled_caches_stay_full_and_keep_to_the_classes(cache):
    stream = markov_stream(replace(MARKOV, cache=cache), LABELS, 10, 6, seed=1)
    for store in play(stream, 12):
        assert store.items.shape == (6, 40)
        assert (store.size == 40).all()
        assert (histogram(store, LABELS, 10)[stream.law.long_term == 0] == 0).all()


@pytest.mark.parametrize("cache", ["drsr", "full"])
def test_a_changed_stream_keeps_its_law(cache):
    stream = markov_stream(replace(MARKOV, cache=cache), LABELS, 10, 6, seed=1)
    assert stream._replace(start=lambda seed: stream.start(seed + 1)).law is stream.law


def test_cold_caches_grow_by_a_batch():
    stream = markov_stream(replace(MARKOV, cache="drsr", initial="cold"), LABELS, 10, 6, seed=1)
    assert [int(store.size[3]) for store in play(stream, 6)] == [0, 10, 20, 30, 40, 40, 40]


def test_all_rules_start_alike_and_meet_the_same_arrivals():
    histories = {
        rule: list(play(markov_stream(replace(MARKOV, cache=rule), LABELS, 10, 6, seed=1), 1))
        for rule in ("fifo", "srsr", "drsr", "lazy")
    }
    fifo = histories["fifo"]
    arrived = [set(row[-10:]) for row in fifo[1].items]
    for rule, (first, second) in histories.items():
        assert (first.items == fifo[0].items).all(), rule
        for row in range(6):
            assert set(second.items[row]) <= set(first.items[row]) | arrived[row]


def test_lazy_keeps_its_first_cache_object_for_object():
    first, *later = play(markov_stream(replace(MARKOV, cache="lazy"), LABELS, 10, 6, seed=1), 8)
    assert all((store.items == first.items).all() for store in later)


@pytest.mark.parametrize(("refresh", "changed"), [("stream", 10), ("all", 40), ("none", 0)])
def test_ideal_cache_has_long_term_shares_and_fresh_instances(refresh, changed):
    labels = np.arange(200_000) % 10  # so many that an instance hardly comes twice
    stream = markov_stream(replace(MARKOV, cache="full", full_refresh=refresh), labels, 10, 6, seed=1)
    stores = list(play(stream, 6))
    for before, after in pairwise(stores):
        counts = histogram(after, labels, 10)
        assert (np.abs(counts - 40 * stream.law.long_term) < 1).all()
        assert ((before.items != after.items).sum(axis=1) == changed).all()
    if refresh == "stream":  # after capacity / batch rounds every instance has given way once
        assert (stores[0].items != stores[4].items).all()


def test_capacities_and_batches_may_differ_between_devices():
    settings = replace(MARKOV, capacity=Law((20.0, 60.0), "uniform"), batch=Law((5.0, 10.0), "choice"))
    *_, last = play(markov_stream(settings, LABELS, 10, 30, seed=1), 20)
    assert len(np.unique(last.size)) > 5
    assert last.items.shape[1] == last.size.max() <= 60


# ---------------------------------------------------------------- growing stores


def test_stores_grow_by_binomial_arrivals_up_to_their_own_capacity():
    """The online setting: own capacities, partly filled at first, the oldest leave, the own part in order."""
    settings = StreamConfig(
        kind="binomial",
        cache="fifo",
        capacity=Law((30.0, 60.0), "uniform"),
        batch=Law((5.0,)),
        activity=Law((0.3, 0.8), "uniform"),
        fill=0.5,
    )
    part = Store(np.arange(8 * 200).reshape(8, 200), np.full(8, 200))
    first, *stores = play(binomial_stream(settings, part, LABELS, 10, seed=1), 30)
    capacity = stores[-1].size
    assert (first.size == capacity // 2).all()
    assert len(np.unique(capacity)) > 3
    gained = np.diff([first.size, *(store.size for store in stores)], axis=0)
    assert gained.min() == 0
    assert gained.max() <= 5
    for row, store in enumerate(stores[-1].items):
        held = store[: capacity[row]]
        assert (np.diff(held) == 1).all()  # a window of its own samples, in their order
        assert held[0] >= 200 * row
        mean = (held[-1] - 200 * row + 1 - first.size[row]) / 30
        assert 0.3 * 5 - 0.8 < mean < 0.8 * 5 + 0.8


def test_a_device_without_samples_gets_none():
    settings = StreamConfig(kind="binomial", cache="drsr", capacity=Law((20.0,)), batch=Law((5.0,)), initial="cold")
    part = Store(np.arange(20).reshape(2, 10), np.array([10, 0]))
    *_, last = play(binomial_stream(settings, part, LABELS, 10, seed=1), 8)
    assert last.size.tolist() == [20, 0]  # the first walks through its ten samples again and again


@pytest.mark.parametrize("cache", ["fifo", "srsr", "drsr", "lazy"])
def test_any_method_runs_on_any_stream(small, cache):
    binomial = {"stream.kind": "binomial", "stream.capacity": "30", "stream.batch": "6", "stream.activity": "0.5"}
    markov = {**WANDERING, "stream.initial": "cold"}
    for changes in (binomial, markov):
        problem = small({**changes, "stream.cache": cache})
        for text in ("fedavg", "fednova", "central"):
            rows = [row for row, _ in simulate(problem, methods.parse(text).build())]
            assert rows[-1].metrics["accuracy"] > 0.1


def test_a_source_of_ones_own_can_be_cached():
    def start(seed):
        return Store(np.zeros((1, 4), dtype=np.int64), np.zeros(1, dtype=np.int64)), 0

    def draw(seed, round, state):
        return Store(np.array([[state, state + 1]]), np.array([2])), state + 2

    stream = streaming(Source(start, draw), "fifo", Keeper(np.array([4]), LABELS, 10))
    *_, last = play(stream, 5)
    assert last.items.tolist() == [[6, 7, 8, 9]]


@pytest.mark.parametrize("cache", ["srsr", "drsr", "full"])
def test_a_run_on_a_stream_resumes_alike(small, tmp_path, cache):
    problem, method = small({**WANDERING, "stream.cache": cache}), methods.parse("fedavg").build()
    straight = list(simulate(problem, method))
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, straight[1][1], template)
    restored = checkpoint.load(next(tmp_path.iterdir()), template)
    resumed = list(simulate(problem, method, restored))
    assert [row for row, _ in resumed] == [row for row, _ in straight[2:]]
    assert (resumed[-1][1].world.store.items == straight[-1][1].world.store.items).all()


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream.capacity": "100", "stream.batch": "150"}, r"stream.batch = 150 can exceed stream.capacity = 100"),
        ({"stream.theta": "1.2"}, "stream.theta = 1.2 is out of range"),
        ({"stream.cache": "newest"}, "stream.cache = 'newest' is unknown"),
        ({"stream.kind": "binomial", "stream.cache": "full"}, "needs a long-term label law"),
        ({"stream.alpha": "0"}, "stream.alpha = 0 is out of range"),
        ({"stream.fill": "0"}, "stream.fill = 0 is out of range"),
        ({"stream.smoothing": "0"}, "stream.smoothing = 0 is out of range: it must be above 0"),
    ],
)
def test_settings_that_cannot_be_are_explained(changes, words):
    with pytest.raises(BadInput, match=words):
        override(get("streaming").config, changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes_per_device": 11}, "stream.classes_per_device = 11 but the training data has 10 classes"),
        ({"classes_per_device": 1, "classes": "random"}, "left a class out"),
        ({"beta": 1e4}, "stream.beta = 10000 leaves states that are never left"),
    ],
)
def test_chains_that_cannot_be_are_explained(changes, words, monkeypatch):
    monkeypatch.setattr("fedcell.world.labels.TRIES", 5)
    with pytest.raises(BadInput, match=words):
        draw_law(replace(MARKOV, **changes), np.arange(10), 10, 10, seed=1)


def test_the_least_smoothing_makes_chains_of_the_most_skewed_states():
    law = draw_law(replace(MARKOV, alpha=1e-4, beta=0.0, smoothing=5e-324), np.arange(10), 10, 10, seed=1)
    np.testing.assert_allclose(law.transition, 1 / MARKOV.n_states)


@pytest.mark.parametrize(
    ("scenario", "changes", "words"),
    [
        ("video", {"data.partition": "iid"}, "data.partition = iid changes nothing with data.name = video"),
        ("video", {"stream.kind": "markov"}, "stream.kind = markov changes nothing with data.name = video"),
        ("cell", {"data.name": "video", "data.alpha": 1}, "data.alpha = 1 changes nothing with data.name = video"),
        ("cell", {"video.slots": 3}, "video.slots = 3 changes nothing with data.name = digits"),
        ("cell", {"stream.cache": "fifo"}, "stream.cache = fifo changes nothing with stream.kind = static"),
        (
            "cell",
            {"stream.kind": "markov", "data.partition": "counts", "data.counts": "1"},
            "data.partition = counts changes nothing with stream.kind = markov",
        ),
    ],
)
def test_settings_that_change_nothing_are_refused(scenario, changes, words):
    with pytest.raises(BadInput, match=rf"^{words}: drop the one or change the other$"):
        build_problem(override(get(scenario).config, changes))


@pytest.mark.parametrize(
    ("scenario", "changes"),
    [
        ("streaming", {"stream.kind": "static"}),  # with the preset's own caches
        ("video", {}),
        ("recycling", {"stream.kind": "markov"}),
        ("cell", {"stream.kind": "binomial", "stream.capacity": 40, "stream.batch": 5, "data.partition": "iid"}),
    ],
)
def test_what_a_scenario_sets_for_itself_may_lie_idle(scenario, changes):
    easy = {"data.name": "digits", "model.name": "mlp", "train.device": "cpu"}
    build_problem(override(get(scenario).config, easy | changes))


def test_a_data_set_of_ones_own_is_no_video():
    config = override(get("video").config, {"model.name": "mlp", "train.device": "cpu"})
    assert build_problem(config, load("digits")).learner.train_samples.shape == (1, 8, 8)
    with pytest.raises(BadInput, match=r"video\.slots = 3 changes nothing with a data set of your own"):
        build_problem(override(config, {"video.slots": "3"}), load("digits"))


def test_streaming_scenario_is_the_papers_setting():
    config = get("streaming").config
    assert (config.world.n_devices, config.stream.n_states, config.stream.classes_per_device) == (10, 10, 3)
    assert (str(config.stream.capacity), str(config.stream.batch)) == ("300", "150")


def test_traffic_scenario_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"data\.name = .*\.npz' is no file"):
        build_problem(get("streaming_traffic").config)


def test_static_stays_the_default(small):
    first, second = play(small().world.stream, 1)
    assert first is second
