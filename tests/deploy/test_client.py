"""A device: its cache on disk, its identity, its share of a data set."""

import hypothesis
import numpy as np
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from inside import run_config
from safetensors.numpy import save, save_file
from test_wire import task

from fedcell.deploy import client, settings
from fedcell.deploy.cache import DiskCache
from fedcell.deploy.holding import state_folder
from fedcell.deploy.kept import Kept, keep, kept_in
from fedcell.errors import BadInput, FedcellError
from fedcell.scenarios import build_problem
from fedcell.world import StreamingCache


def context(node_config, config=None):
    return Context(0, 1, node_config, RecordDict(), config or {}, 0)


def arrivals(round):
    rng = np.random.default_rng(round)
    return rng.random((5, 3), dtype=np.float32), rng.integers(4, size=5)


@hypothesis.settings(max_examples=20)
@given(st.lists(st.integers(0, 2), max_size=5), st.sampled_from(["fifo", "srsr", "drsr", "lazy"]))
def test_a_cache_on_disk_is_that_in_memory_however_often_it_is_opened(tmp_path_factory, gaps, rule):
    path, plain = tmp_path_factory.mktemp("cache") / "cache.safetensors", StreamingCache(12, rule, seed=3)
    for round in range(len(gaps)):
        plain.offer(*arrivals(round))
        for _ in range(1 + gaps[round]):  # the same round is asked for again after a restart
            kept = DiskCache(path, 12, rule, seed=3)
            assert kept.offer(round, *arrivals(round)) == (_ == 0)
    kept = DiskCache(path, 12, rule, seed=3)
    assert kept.next_round == len(gaps)
    for mine, theirs in zip(kept.contents(), plain.contents(), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_damaged_cache_is_told(tmp_path):
    DiskCache(tmp_path / "c", 4).offer(0, *arrivals(0))
    data = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(data[: len(data) // 2])
    with pytest.raises(FedcellError, match="is damaged"):
        DiskCache(tmp_path / "c", 4)
    save_file({"next_round": np.array([3])}, tmp_path / "c")
    with pytest.raises(FedcellError, match=r"/c .*remove it, and the cache starts empty"):
        DiskCache(tmp_path / "c", 4)


def test_a_cache_of_another_capacity_does_not_fit(tmp_path):
    DiskCache(tmp_path / "c", 4).offer(0, *arrivals(0))
    with pytest.raises(BadInput, match=r"/c does not fit \(.*\): remove it, and the cache starts empty$"):
        DiskCache(tmp_path / "c", 9)


def test_every_run_has_a_cache_of_its_own(tmp_path):
    here, asked = context({"partition-id": 0, "state-dir": str(tmp_path)}), []

    def data(_, round):
        asked.append(round)
        return arrivals(round)

    for run in ("", "1" * 32, "2" * 32, "1" * 32):
        client.held(data, client.CacheSettings(4), here, 1, run=run)
    assert asked == [0, 1] * 3
    assert (tmp_path / "cache.safetensors").exists()


@pytest.mark.parametrize("run", ["../" + "a" * 29, "/" + "a" * 31, "a" * 32 + "\n", "A" * 32, "one"])
def test_names_of_runs_that_are_none_are_refused(run, tmp_path):
    here = context({"partition-id": 0, "state-dir": str(tmp_path)})
    with pytest.raises(BadInput, match=r"^run = .* is no name of a run: give 32 hexadecimal digits, or none$"):
        state_folder(here, run)


def test_a_kept_vector_has_the_length_of_the_model(tmp_path):
    first, after = np.zeros(3, np.float32), np.ones(3, np.float32)
    keep(tmp_path, "model", Kept(4, first, after))
    assert kept_in(tmp_path, "model", first, "it").start(5).tolist() == [1, 1, 1]
    with pytest.raises(BadInput, match="has 3 parameters, not 2"):
        kept_in(tmp_path, "model", first[:2], "it")


def test_a_damaged_vector_is_told(tmp_path):
    vector = np.zeros(3, np.float32)
    keep(tmp_path, "model", Kept(4, vector, vector))
    for data in (b"", (tmp_path / "model").read_bytes()[:-4], save({"round": np.array([1])})):
        (tmp_path / "model").write_bytes(data)
        with pytest.raises(FedcellError, match=r"is damaged .*remove it, and this device starts anew"):
            kept_in(tmp_path, "model", vector, "it")


def test_rounds_that_a_device_slept_through_are_offered_in_order(tmp_path):
    here = context({"partition-id": 2, "state-dir": str(tmp_path)})
    settings = client.CacheSettings(capacity=12, rule="fifo")
    asked = []

    def data(_, round):
        asked.append(round)
        return arrivals(round)

    client.held(data, settings, here, 1)
    x, y = client.held(data, settings, here, 4)
    assert asked == [0, 1, 2, 3, 4]
    client.held(data, settings, here, 4)
    assert asked == [0, 1, 2, 3, 4], "a round is offered once"
    plain = StreamingCache(12, "fifo", seed=2)
    for round in range(5):
        plain.offer(*arrivals(round))
    assert np.array_equal(x, plain.contents()[0])
    assert np.array_equal(y, plain.contents()[1])


def test_a_cache_needs_a_folder():
    with pytest.raises(BadInput, match="state-dir"):
        client.held(lambda *_: arrivals(0), client.CacheSettings(4), context({"partition-id": 0}), 0)


def test_identity_survives(tmp_path):
    here = context({"partition-id": 0, "state-dir": str(tmp_path / "a")})
    name = client.identity(here)
    assert len(name) == 32
    assert client.identity(here) == name
    assert client.identity(context({"partition-id": 0, "state-dir": str(tmp_path / "b")})) != name
    assert client.identity(context({"partition-id": 0})) == ""


@pytest.mark.parametrize("number", [None, -1, "0", 1.5, True])
def test_a_node_must_say_which_device_it_is(number):
    with pytest.raises(BadInput, match="partition-id"):
        client.device_of(context({"partition-id": number} if number is not None else {}))


def test_shares_are_those_of_the_simulation():
    config = run_config()
    problem = build_problem(settings.read(config).config)
    store, _ = problem.world.stream.start(problem.seed)
    for device in range(4):
        x, y = client.share_of(context({"partition-id": device}, config))
        items = store.items[device, : store.size[device]]
        assert np.array_equal(y, problem.learner.train_samples.labels[items])
        assert np.array_equal(x, problem.learner.train_samples.take(items)[0].numpy())
    with pytest.raises(BadInput, match="number devices from 0"):
        client.share_of(context({"partition-id": 4}, config))


def test_a_network_of_another_size_is_refused():
    x, y = client.share_of(context({"partition-id": 0}, run_config()))
    wrong = task(6)._replace(n_classes=10, model={"name": "logistic"}, train={"device": "cpu"})
    with pytest.raises(BadInput, match="has 650 parameters and the server's has 6: give both the same one"):
        client.learner_of(wrong, x, y)
