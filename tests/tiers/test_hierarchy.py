"""Edge models: equal to the flat method with one cell, to a plain loop with several, and to hand-worked scores."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedcell import methods
from fedcell.errors import BadInput, ContractError
from fedcell.foretelling import foretold_by
from fedcell.learn.learner import Learner
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts import defaults
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.tiers.cell_views import cell_seed, cells_of, decided, merged_decision, observed
from fedcell.tiers.hierarchy import Edges, average, over_edges, tier_weights
from fedcell.types import Store, Updates
from fedcell.world import observe, static_stream

CELLS = {"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "7"}
UNEVEN = {**CELLS, "world.devices_per_cell": "4,0,3"}
OF_CELL = {0: slice(0, 4), 1: slice(4, 4), 2: slice(4, 7)}  # devices of UNEVEN
FEDAVG = methods.parse("fedavg").build()


def build(text):
    return methods.parse(text).build()


def without_backhaul(row):
    return row._replace(metrics={name: value for name, value in row.metrics.items() if name != "backhaul_bit"})


def spied(method, kept):
    """The method, putting aside what every round trained."""

    def local(*arguments):
        updates = method.local(*arguments)
        kept.append(Updates(updates.device, updates.delta.clone()))
        return updates

    return method._replace(local=local)


# ---------------------------------------------------------------- one cell is no hierarchy


@pytest.mark.parametrize(
    "text",
    [
        "fedavg",
        "fedavg:scheduler=random,n_selected=3",
        "osafl",
        "osafl:score=kkt",
        "m_feddisco",
        "cafe:scheme=agu,quorum=4",
        "rawhfl:z=3",
        "h_fedavg",
    ],
)
def test_one_cell_averaged_every_round_is_the_flat_method(small, text):
    world = {"world.availability": "0.7", "data.partition": "dirichlet", "world.fading": "exponential"}
    flat = list(simulate(small(world), build(text)))
    edge = list(simulate(small({**world, "world.edge_rounds": "1"}), build(text)))
    for (row, after), (same_row, same_after) in zip(flat, edge, strict=True):
        assert row == without_backhaul(same_row)
        assert torch.equal(after.params, same_after.params)
        assert torch.equal(after.params, same_after.method.models[0])


def test_equal_data_and_steps_make_the_hierarchy_vanish(small):
    ends = {}
    for tiers in (0, 2):
        world = {**CELLS, "world.devices_per_cell": "5,1,1", "world.edge_rounds": tiers}
        problem = small({**world, "train.batch_size": "0"})
        store = Store(np.tile(np.arange(20), (7, 1)), np.full(7, 20))
        problem = problem._replace(world=problem.world._replace(stream=static_stream(store)))
        ends[tiers] = list(simulate(problem, FEDAVG))[-1][1].params
        assert (ends[tiers] - problem.learner.initial()).abs().max() > 1e-3
    torch.testing.assert_close(ends[0], ends[2], rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- against a plain loop


@pytest.mark.parametrize("weights", ["equal", "devices", "samples"])
@pytest.mark.parametrize("apart", [False, True], ids=["one call", "cell by cell"])
def test_fedavg_over_edges_is_the_plain_loop(small, weights, apart):
    """Uneven cells, an empty one, and rounds in which nobody of a cell is there."""
    problem = small(
        {
            **UNEVEN,
            "world.edge_rounds": "2",
            "world.edge_weights": weights,
            "world.availability": "0.4",
            "data.partition": "dirichlet",
        },
        rounds=6,
    )
    method, kept = FEDAVG, []
    if apart:  # any `local` that is not known to need no state
        method = FEDAVG._replace(local=lambda *arguments: FEDAVG.local(*arguments))
    lifted = spied(over_edges(problem, method), kept)
    history = list(simulate(problem, lifted))
    size = begin(problem, FEDAVG).world.store.size
    share = {"equal": np.full(3, 1 / 3), "devices": np.array([4, 0, 3]) / 7}.get(
        weights, np.array([size[OF_CELL[c]].sum() for c in range(3)]) / size.sum()
    )
    world = problem.learner.initial().double()
    edge, silent = [world] * 3, 0
    for number, ((row, after), updates) in enumerate(zip(history, kept, strict=True), 1):
        delivered = np.array([letter == "D" for letter in row.outcome])
        assert delivered[updates.device].all()
        for c in range(3):
            here = [k for k in range(*OF_CELL[c].indices(7)) if delivered[k]]
            silent += len(here) == 0 and c != 1
            for k in here:
                delta = updates.delta[int(np.flatnonzero(updates.device == k)[0])].double()
                edge[c] = edge[c] + size[k] / size[here].sum() * delta
        if number % 2 == 0:
            world = sum(a * model for a, model in zip(share, edge, strict=True))
            edge = [world] * 3
        torch.testing.assert_close(after.params.double(), world, rtol=1e-5, atol=1e-6)
        for model, expected in zip(after.method.models, edge, strict=True):
            torch.testing.assert_close(model.double(), expected, rtol=1e-5, atol=1e-6)
    assert silent, "no cell was ever without anybody"


def test_every_device_trains_on_its_own_batches_from_its_edge_model(small):
    """In the first round all models are equal, so updates are those of the flat method; later they are not."""
    flat, edge, apart = [], [], []
    list(simulate(small(CELLS, rounds=2), spied(FEDAVG, flat)))
    problem = small({**CELLS, "world.edge_rounds": "4"}, rounds=2)
    list(simulate(problem, spied(over_edges(problem, FEDAVG), edge)))
    list(simulate(problem, spied(over_edges(problem, FEDAVG._replace(local=lambda *a: FEDAVG.local(*a))), apart)))
    torch.testing.assert_close(edge[0].delta, flat[0].delta)
    assert not torch.allclose(edge[1].delta, flat[1].delta, atol=1e-5)
    for together, single in zip(edge, apart, strict=True):
        assert (together.device == single.device).all()
        torch.testing.assert_close(together.delta, single.delta)


def test_between_averages_the_global_model_rests(small):
    problem = small({**UNEVEN, "world.edge_rounds": "3"}, rounds=7)
    params = [problem.learner.initial(), *(after.params for _, after in simulate(problem, FEDAVG))]
    moved = [not torch.equal(left, right) for left, right in pairwise(params)]
    assert moved == [False, False, True, False, False, True, False]


# ---------------------------------------------------------------- the average


FINITE = st.floats(-10, 10, width=32)


@given(
    data=arrays.arrays(np.float32, (4, 5), elements=FINITE),
    weight=arrays.arrays(np.float64, 3, elements=st.floats(0.0, 1.0)),
)
def test_average_is_the_weighted_mean(data, weight):
    """rawhfl Eq. (17), both forms."""
    weight = weight + 1e-3
    weight /= weight.sum()
    params, models = torch.from_numpy(data[0]), [torch.from_numpy(row) for row in data[1:]]
    expected = (weight[:, None] * data[1:].astype(np.float64)).sum(0)
    np.testing.assert_allclose(average(params, models, weight).numpy(), expected, rtol=1e-5, atol=2e-5)
    assert torch.equal(average(params, [params] * 3, weight), params), "nobody moved"
    assert torch.equal(average(params, models[:1], np.ones(1)), models[0])


@pytest.mark.parametrize(
    ("kind", "share"), [("equal", [1 / 3] * 3), ("devices", [4 / 7, 0, 3 / 7]), ("samples", [10 / 16, 0, 6 / 16])]
)
def test_weights_of_the_cells(small, kind, share):
    problem = small({**UNEVEN, "world.edge_weights": kind})
    seen = observe(problem.world, begin(problem, FEDAVG).world, problem.seed, 0)[0]
    seen = seen._replace(store=seen.store._replace(size=np.array([1, 2, 3, 4, 1, 2, 3])))
    np.testing.assert_allclose(tier_weights(problem, seen), share)
    empty = seen._replace(store=seen.store._replace(size=np.zeros(7, dtype=np.int64)))
    if kind == "samples":
        np.testing.assert_allclose(tier_weights(problem, empty), 1 / 3)


# ---------------------------------------------------------------- a method's state at every edge


def test_osafl_scores_clients_among_those_of_their_cell(small):
    problem = small({**UNEVEN, "world.edge_rounds": "2", "data.partition": "dirichlet"}, rounds=1)
    kept = []
    method = build("osafl:chi=2,n_batches=1,server_lr=3")
    ((_, after),) = simulate(problem, spied(over_edges(problem, method), kept))
    lr, start = problem.train.lr, problem.learner.initial().double().numpy()
    for c in (0, 2):
        d = -kept[0].delta[OF_CELL[c]].double().numpy() / (lr * problem.train.steps)
        mean = d.mean(0)
        cosine = d @ mean / (np.linalg.norm(d, axis=1) * np.linalg.norm(mean))
        score = (2 + cosine) / 3
        state, model = after.method.states[c], after.method.models[c]
        np.testing.assert_allclose(state.score, score, rtol=1e-4)
        step = 3 * lr * (score[:, None] * d).mean(0)
        np.testing.assert_allclose(model.double().numpy(), start - step, rtol=1e-4, atol=1e-6)
    assert after.method.states[1] is None
    assert torch.equal(after.method.models[1], problem.learner.initial())


@pytest.mark.parametrize("text", ["fedavg", "ditto:mu=1", "apfl", "fedrep", "cafe"])
def test_devices_foretell_with_the_models_they_have(small, text):
    """A device that is away has one, too."""
    problem = small({**UNEVEN, "world.edge_rounds": "3"}, rounds=3, model=ModelConfig(name="mlp", hidden=(8,)))
    plain = build(text)
    method = over_edges(problem, plain)
    (_, after), seen = list(simulate(problem, method))[1], observation(problem)
    seen = seen._replace(available=np.arange(7) != 2)
    x = problem.learner.test_samples.take(np.arange(7))[0]
    found = foretold_by(problem, method, after.params, after.method, seen)(x)
    net = problem.learner.architectures[0].replica(torch.device("cpu"))
    for cell in cells_of(problem):
        model, state = after.method.models[cell.number], after.method.states[cell.number]
        for number, device in enumerate(cell.device):
            own = plain.personal(cell.problem, model, state, np.array([number]))[0] if plain.personal else model
            torch.nn.utils.vector_to_parameters(own, net.parameters())
            with torch.no_grad():
                expected = net(x[device : device + 1]).softmax(1)[0].numpy()
            assert found[device] == pytest.approx(expected, abs=1e-6)


def test_random_choices_differ_between_cells_and_begin_with_those_of_one_server(small):
    assert cell_seed(11, 0) == 11
    assert len({cell_seed(seed, cell) for seed in range(3) for cell in range(50)}) == 3 * 49 + 3
    world = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "12", "world.edge_rounds": "2"}
    problem = small(world, rounds=8)
    rows = [row for row, _ in simulate(problem, build("fedavg:scheduler=random,n_selected=3"))]
    assert all(row.outcome[:6].count(".") == row.outcome[6:].count(".") == 3 for row in rows)
    assert any(row.outcome[:6] != row.outcome[6:] for row in rows)


def test_scopes(small):
    problem = small({**UNEVEN, "world.edge_rounds": "2"})
    asked = []

    def decide(problem, state, observation):
        asked.append((problem.world.n_devices, state))
        return FEDAVG.decide(problem, None, observation)

    counting = FEDAVG._replace(init=lambda problem, params: {"n": problem.world.n_devices}, decide=decide)
    list(simulate(problem, counting._replace(scope="network")))
    assert asked[0] == (7, ({"n": 4}, None, {"n": 3}))
    asked.clear()
    list(simulate(problem, counting))
    assert asked[:2] == [(4, {"n": 4}), (3, {"n": 3})]
    server = FEDAVG._replace(scope="server")
    assert over_edges(problem, server) is server
    lifted = over_edges(problem, FEDAVG)
    assert over_edges(problem, lifted) is lifted
    assert over_edges(small(UNEVEN), FEDAVG) is FEDAVG
    with pytest.raises(ContractError, match="scope of the method is 'world': use one of cell, network, server"):
        begin(problem, FEDAVG._replace(scope="world"))


def test_saved_between_two_averages_ends_alike(small, tmp_path):
    problem = small({**UNEVEN, "world.edge_rounds": "3"}, rounds=7)
    method = build("osafl")
    straight = list(simulate(problem, method))
    template = checkpoint.Template.of(begin(problem, method))
    checkpoint.save(tmp_path, straight[3][1], template)
    restored = checkpoint.load(next(tmp_path.iterdir()), template)
    assert isinstance(restored.method, Edges)
    for (row, after), (same_row, same_after) in zip(straight[4:], simulate(problem, method, restored), strict=True):
        assert row == same_row
        assert torch.equal(after.params, same_after.params)


# ---------------------------------------------------------------- columns


def test_backhaul_counts_models_or_relayed_updates(small):
    def backhaul(world, text="fedavg"):
        return [row.metrics.get("backhaul_bit") for row, _ in simulate(small(world), build(text))]

    payload = small().world.payload_bit
    assert backhaul({}) == [None] * 4
    assert backhaul(CELLS) == [7 * payload] * 4
    assert backhaul({**UNEVEN, "world.edge_rounds": "2"}) == [0, 2 * payload, 0, 2 * payload]
    assert backhaul({"world.edge_rounds": "4"}) == [0, 0, 0, payload]
    assert backhaul({**UNEVEN, "world.edge_rounds": "2"}, "central") == [0] * 4
    absent = {**CELLS, "world.availability": "0.5"}
    rows = [row for row, _ in simulate(small(absent), FEDAVG)]
    assert [row.metrics["backhaul_bit"] for row in rows] == [row.n_delivered * payload for row in rows]


def test_own_columns_are_means_over_cells_and_the_model_is_evaluated_once(small, monkeypatch):
    problem, calls = small({**UNEVEN, "world.edge_rounds": "2"}), Counter()
    evaluate = Learner.evaluate

    def counted(self, params, *rest, **named):
        calls["evaluate"] += 1
        return evaluate(self, params, *rest, **named)

    monkeypatch.setattr(Learner, "evaluate", counted)
    rows = [row for row, _ in simulate(problem, build("osafl"))]
    assert len(rows) == 4
    assert calls["evaluate"] == 3  # the start, and the means after rounds 2 and 4
    own = FEDAVG._replace(evaluate=lambda problem, params, state: {"accuracy": 1.0, "n": problem.world.n_devices})
    assert next(iter(simulate(problem, own)))[0].metrics["n"] == 3.5


def test_the_spread_of_accuracy_is_over_the_devices_of_all_cells(small):
    """The test samples of these data belong to devices."""
    world = {**UNEVEN, "data.noise": "0.1", "train.spread": "true", "world.edge_rounds": "2"}
    problem = small(world, rounds=2)
    found = [list(simulate(problem, build(text)))[-1] for text in ("fedavg", "ditto", "fedrep")]
    for row, after in found[:2]:
        assert row.metrics["accuracy_std"] == problem.learner.evaluate(after.params)["accuracy_std"]
    assert found[2][0].metrics["accuracy_std"] != found[0][0].metrics["accuracy_std"], "own models: a mean over cells"


# ---------------------------------------------------------------- views


def test_views_keep_every_row_of_the_cell(small):
    problem = small({**UNEVEN, "world.response": "exponential", "world.n_fast": "5"})
    seen = observe(problem.world, begin(problem, FEDAVG).world, problem.seed, 0)[0]
    first, last = cells_of(problem)
    assert (first.device.tolist(), last.device.tolist()) == ([0, 1, 2, 3], [4, 5, 6])
    view, settings = observed(last, seen), last.problem.world.settings
    assert (settings.n_devices, settings.n_cells, settings.n_fast, settings.devices_per_cell) == (3, 1, 1, ())
    assert view.gain.tolist() == seen.gain[4:].tolist()
    assert view.response_s.tolist() == seen.response_s[4:].tolist()
    assert view.topology.cell.tolist() == [0, 0, 0]
    assert view.topology.station_m.tolist() == seen.topology.station_m[2:].tolist()
    assert view.store.size.tolist() == seen.store.size[4:].tolist()
    decision = FEDAVG.decide(problem, None, seen)
    parts = [decided(cell, decision) for cell in (first, last)]
    merged = merged_decision((first, last), parts)
    for name, value in decision._asdict().items():
        assert np.array_equal(getattr(merged, name), value), name


def test_test_samples_of_devices_are_numbered_as_the_cell_numbers_its_devices(small):
    """Own models are judged on the samples of their own device, whose number in the cell is another one."""
    problem = small({**UNEVEN, "data.noise": "0.1"})
    owner, first = problem.learner.test_samples.owner, {}
    assert set(owner) >= set(range(7))
    for cell in cells_of(problem):
        mine = cell.problem.learner.test_samples.owner
        assert mine.max() == len(cell.device) - 1
        for number, device in enumerate(cell.device):
            assert np.array_equal(np.flatnonzero(mine == number), np.flatnonzero(owner == device))
        first[cell.number] = (mine >= 0).sum()
    assert sum(first.values()) == (owner >= 0).sum()
    rows = [row for row, _ in simulate(problem, build("fedrep"))]
    assert 0 < rows[-1].metrics["covered"] <= 1


def leading_axes(tree, path=""):
    """(path, length of the first axis) of every array in nested NamedTuples."""
    if isinstance(tree, np.ndarray) and tree.ndim:
        yield path, len(tree)
    elif hasattr(tree, "_fields"):
        for name, part in tree._asdict().items():
            yield from leading_axes(part, f"{path}.{name}")


def test_no_array_of_a_view_has_the_devices_of_the_network(small):
    markov = {"stream.kind": "markov", "stream.capacity": "20", "stream.batch": "5", "data.partition": "dirichlet"}
    problem = small({**UNEVEN, **markov, "world.response": "exponential"})
    seen = observation(problem)
    parts = (problem.world, seen, FEDAVG.decide(problem, None, seen))
    for cell in cells_of(problem):
        view = observed(cell, seen)
        small_parts = (cell.problem.world, view, decided(cell, parts[2]))
        for whole, part in zip(parts, small_parts, strict=True):
            short = dict(leading_axes(part))
            for path, length in leading_axes(whole):
                assert short[path] == {7: len(cell.device), 3: 1}.get(length, length), path


def test_masks_of_cells_become_one_row_per_device(small):
    problem = small({**UNEVEN, "world.edge_rounds": "2"})
    n_params = problem.learner.n_params

    def decide(problem, state, observation):
        decision = FEDAVG.decide(problem, state, observation)
        mask = torch.zeros(n_params, dtype=torch.bool)
        mask[: 5 * problem.world.n_devices] = True
        return decision._replace(mask=mask if problem.world.n_devices == 3 else mask.repeat(4, 1))

    kept = []
    play_round(
        SIMULATED, problem, spied(over_edges(problem, FEDAVG._replace(decide=decide)), kept), begin(problem, FEDAVG)
    )
    for device, delta in zip(kept[0].device, kept[0].delta, strict=True):
        assert not delta[20 if device < 4 else 15 :].any()
    masked = defaults.decide(methods.parse("fedavg").config, problem, None, observation(problem))
    rows = masked._replace(mask=torch.arange(7)[:, None].expand(7, n_params) > 3)
    assert [decided(cell, rows).mask.shape[0] for cell in cells_of(problem)] == [4, 3]


def observation(problem):
    return observe(problem.world, begin(problem, FEDAVG).world, problem.seed, 0)[0]


# ---------------------------------------------------------------- refusals


def test_cells_must_agree_on_the_deadline(small):
    def decide(problem, state, observation):
        return FEDAVG.decide(problem, state, observation)._replace(deadline_s=float(problem.world.n_devices))

    problem = small({**UNEVEN, "world.edge_rounds": "2"})
    with pytest.raises(ContractError, match=r"deadline_s is 3\.0 in one cell and 4\.0 in another"):
        list(simulate(problem, FEDAVG._replace(decide=decide)))


@pytest.mark.parametrize("text", ["knowledge", "fedkd"])
def test_networks_of_devices_have_no_edge_model(small, text):
    with pytest.raises(
        BadInput, match=r"world\.edge_rounds = 2 averages .* knowledge and fedkd: set world\.edge_rounds=0"
    ):
        begin(small({**UNEVEN, "world.edge_rounds": "2"}), build(text))
    assert over_edges(small(UNEVEN), build(text)).own_networks


def test_cafe_names_what_it_cannot_foresee_at_an_edge(small):
    edge = {**UNEVEN, "world.edge_rounds": "2", "world.response": "exponential", "world.deadline_s": "1"}
    with pytest.raises(BadInput, match=r"cafe does not go with world\.edge_rounds if world\.outage_threshold_db"):
        begin(small({**edge, "world.outage_threshold_db": "3"}), build("cafe"))
    with pytest.raises(BadInput, match=r"cafe\.decay = 'theory' does not go with world\.edge_rounds"):
        begin(small(edge), build("cafe:decay=theory"))
    agu = list(simulate(small(edge), build("cafe:scheme=agu,quorum=3")))
    assert any(row.metrics["success"] == 0.5 for row, _ in agu), "one cell has its quorum, the other has not"
