"""Edge servers in a run: rows against a plain loop over the requests, users' models, ceilings by brute force."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy.stats import binom

from fedcell import methods
from fedcell.data.settings import DataConfig
from fedcell.data.video import RAWHFL, Catalogue, Profiles, stationary_law, transition_matrix
from fedcell.data.video.edge import edges_of, watched
from fedcell.data.video.edge_ceilings import (
    expected_requests,
    hit_ceiling,
    request_law,
    static_hit_ceiling,
)
from fedcell.data.video.problem import video_problem_parts
from fedcell.data.video.sizes import file_bits, read_sizes
from fedcell.errors import BadInput
from fedcell.foretelling import foretold_by
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.options import Law
from fedcell.record.tree import classes, pack, unpack
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.tiers.hierarchy import over_edges
from fedcell.types import Arrived
from fedcell.world import observe
from fedcell.world.edge import Edge, names
from fedcell.world.settings import WorldConfig

VIDEO = replace(
    RAWHFL,
    n_genres=3,
    files_per_genre=4,
    content_width=6,
    slots=4,
    initial=9.0,
    test_samples=5,
    file_bit=Law((1e6, 9e6), "uniform"),
)
CONFIG = Config(
    rounds=6,
    seed=4,
    eval_every=3,
    world=WorldConfig(n_devices=7, topology="cells", n_cells=2, edge_rounds=2, bandwidth_hz=1e6),
    data=DataConfig(name="video"),
    video=VIDEO,
    model=ModelConfig(name="mlp", hidden=(8,)),
    train=TrainConfig(lr=0.5, steps=3, batch_size=4, sampling="replace", device="cpu"),
)
COLUMNS = {"requests", "request_bit", "fetch_bit", "video_backhaul_bit", "hit_ratio", "delivery_s"}
RULES = [*names()]


def config(rule, room=3, **changes):
    return replace(CONFIG, video=replace(VIDEO, edge_files=room, edge_placement=rule, **changes))


def rows_of(settings, text="fedavg"):
    return [row for row, _ in simulate(build_problem(settings), methods.parse(text).build())]


def without(row):
    return row._replace(metrics={name: value for name, value in row.metrics.items() if name not in COLUMNS})


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    "text", ["fedavg", "osafl", "m_fednova", "rawhfl", "h_fedavg:mode=ub", "top_popular", "central"]
)
def test_every_method_has_the_columns_and_learns_as_without_servers(text):
    plain, served = rows_of(CONFIG, text), rows_of(config("predicted"), text)
    assert [without(row) for row in served] == plain
    assert all(set(row.metrics) - set(one.metrics) == COLUMNS for row, one in zip(served, plain, strict=True))
    assert sum(row.metrics["requests"] for row in served) > 20


def test_without_servers_rows_stay_as_they_are():
    plain = rows_of(CONFIG)
    assert rows_of(config("none")) == plain
    assert rows_of(config("predicted", room=0)) == plain
    assert not any(COLUMNS & set(row.metrics) for row in plain)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "predicted"])
def test_rows_equal_a_plain_loop_over_the_requests(rule):
    settings = config(rule)
    problem, rows = build_problem(settings), rows_of(settings)
    log, lead = problem.learner.train_samples.log.tolist(), problem.learner.train_samples.lead
    cell, bits = problem.world.topology.cell.tolist(), file_bits(settings.video, settings.seed)
    users, n_files, room = range(len(cell)), settings.video.n_files, settings.video.edge_files
    state = begin(problem, methods.parse("fedavg").build()).world
    seen = [lead + int(state.memory.stream.source[u]) for u in users]
    assert seen == [lead + 9] * 7
    past = [[file for u in users if cell[u] == b for file in log[u][: seen[u]]] for b in range(2)]
    ago = [[], []]  # since the first round
    held = [set(), set()]
    for round, row in enumerate(rows):
        _, state = observe(problem.world, state, settings.seed, round)
        now = [lead + int(state.memory.stream.source[u]) for u in users]
        order = [(k, u) for k in range(4) for u in users if seen[u] + k < now[u]]
        asked = [(cell[u], log[u][seen[u] + k]) for k, u in order]
        hits, fetch, miss, seconds = 0, 0.0, 0.0, []
        if rule in ("popular", "genie", "random"):
            for b in range(2):
                if rule == "popular":
                    score = [sum(part.count(file) for part in past) for file in range(n_files)]
                elif rule == "genie":
                    score = [asked.count((b, file)) for file in range(n_files)]
                else:
                    new = set(np.flatnonzero(problem_held(settings, round)[b]).tolist())
                if rule != "random":
                    best = sorted(range(n_files), key=lambda f: (-score[f], f not in held[b], f))[:room]
                    new = {file for file in best if score[file] > 0 or file in held[b]}
                fetch += sum(bits[file] for file in new - held[b])
                held[b] = new
        for b, file in asked:
            hit = file in held[b]
            hits += hit
            miss += 0.0 if hit else bits[file]
            seconds.append(bits[file] / 1e8 + (0.0 if hit else bits[file] / 5e7))
            if rule in ("lru", "lfu") and not hit:
                if len(held[b]) == room:
                    age = {f: max(i for i, old in enumerate(ago[b]) if old == f) for f in held[b]}
                    count = {f: past[b].count(f) if rule == "lfu" else 0 for f in held[b]}
                    held[b].remove(min(held[b], key=lambda f: (count[f], age[f])))
                held[b].add(file)
            past[b].append(file)
            ago[b].append(file)
        assert row.metrics["requests"] == len(asked)
        assert row.metrics["request_bit"] == pytest.approx(sum(bits[file] for _, file in asked))
        assert row.metrics["fetch_bit"] == pytest.approx(fetch)
        assert row.metrics["video_backhaul_bit"] == pytest.approx(miss + fetch)
        assert row.metrics["hit_ratio"] == pytest.approx(hits / len(asked))
        assert row.metrics["delivery_s"] == pytest.approx(np.mean(seconds))
        seen = now


def problem_held(settings, round):
    """What servers hold in a round of a run."""
    run = simulate(build_problem(settings), methods.parse("fedavg").build())
    *_, (_, after) = (next(run) for _ in range(round + 1))
    return after.world.memory.servers[0].held


def test_kinds_of_servers_in_one_run_do_not_meet():
    method, alone = methods.parse("fedavg").build(), {}
    for rule in RULES:
        alone[rule] = rows_of(config(rule))
    problem = watched(build_problem(CONFIG), VIDEO, [Edge(rule, 3, prefix=f"{rule} ") for rule in RULES])
    for n, (row, _) in enumerate(simulate(problem, method)):
        for rule in RULES:
            for name in COLUMNS:
                assert row.metrics[f"{rule} {name}"] == alone[rule][n].metrics[name]


def test_without_prefetching_nothing_is_fetched():
    fetching, passing = rows_of(config("genie")), rows_of(config("genie", edge_prefetch=False))
    assert sum(row.metrics["fetch_bit"] for row in fetching) > 0
    for ahead, row in zip(fetching, passing, strict=True):
        assert row.metrics["fetch_bit"] == 0
        assert row.metrics["requests"] == ahead.metrics["requests"]
        assert row.metrics["hit_ratio"] <= ahead.metrics["hit_ratio"]
    assert sum(row.metrics["hit_ratio"] for row in passing) > 0


@pytest.mark.parametrize("rule", ["predicted", "lfu"])
def test_a_run_resumes_with_what_servers_held(rule):
    problem, method = build_problem(config(rule)), methods.parse("osafl").build()
    method = over_edges(problem, method)
    rows = [row for row, _ in simulate(problem, method)]
    snapshot = begin(problem, method)
    for _ in range(3):
        _, snapshot = play_round(SIMULATED, problem, method, snapshot)
    known = classes(begin(problem, method))
    home = problem.learner.device
    again = unpack(*pack(snapshot, known, home), known, home)
    assert [row for row, _ in simulate(problem, method, again)] == rows[3:]


def test_more_room_never_hits_less_and_the_whole_catalogue_hits_always():
    edges = [Edge("genie", room, prefix=f"{room} ") for room in range(1, 13)]
    problem = watched(build_problem(CONFIG), VIDEO, edges)
    for row, _ in simulate(problem, methods.parse("central").build()):
        ratios = [row.metrics[f"{room} hit_ratio"] for room in range(1, 13)]
        assert ratios == sorted(ratios)
        assert ratios[-1] == 1


def test_users_expect_as_many_requests_as_they_made_before(monkeypatch):
    seen = []

    def look(view):
        seen.append(view)
        return np.zeros((view.n_cells, view.n_files))

    monkeypatch.setattr("fedcell.world.edge.rules.predicted.wanted", look)
    far = config("predicted", edge_reports=2, edge_horizon=5.0)
    problem, method = build_problem(far), methods.parse("central").build()
    made = [after.world.memory.stream.source - 9 for _, after in simulate(problem, method)]
    for round, view in enumerate(seen):
        before = made[round - 1] if round else np.zeros(7)
        assert view.reports.rate == pytest.approx(5 * (before + 1) / (round + 1))
        assert ((view.reports.share > 0).sum(axis=1) == 2).all()
        cell = problem.world.topology.cell
        assert view.n_expected == pytest.approx([view.reports.rate[cell == b].sum() for b in range(2)])
        assert view.next is None


def test_places_that_change_move_requests_to_another_server():
    settings = config("lru")
    moving = replace(settings, world=replace(settings.world, geometry="redraw", edge_rounds=0))
    rows = rows_of(moving)
    assert [row.metrics["requests"] for row in rows] == [row.metrics["requests"] for row in rows_of(settings)]


# ---------------------------------------------------------------- the models that users have


def test_users_foretell_with_the_edge_model_of_their_cell():
    problem, plain = build_problem(config("predicted")), methods.parse("h_fedavg:mode=ub").build()
    method = over_edges(problem, plain)
    _, snapshot = play_round(SIMULATED, problem, method, begin(problem, method))
    edge = snapshot.method.models
    assert not torch.equal(edge[0], edge[1])
    observation, _ = observe(problem.world, snapshot.world, problem.seed, 1)
    x = problem.learner.train_samples.ahead(np.full(7, 9))
    ask = foretold_by(problem, method, snapshot.params, snapshot.method, observation)
    found = ask(x)
    layout = problem.learner.architectures[0]
    for device in range(7):
        net, model = layout.replica(torch.device("cpu")), edge[problem.world.topology.cell[device]]
        torch.nn.utils.vector_to_parameters(model, net.parameters())
        with torch.no_grad():
            expected = net(x[device : device + 1]).softmax(1)[0].numpy()
        assert found[device] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("text", ["fedrep", "apfl:mixture=1", "knowledge", "fedkd"])
def test_devices_with_own_models_foretell_with_them(text):
    settings = replace(config("predicted"), world=replace(CONFIG.world, edge_rounds=0, deadline_s=1e6))
    problem, method = build_problem(settings), methods.parse(text).build()
    _, snapshot = play_round(SIMULATED, problem, method, begin(problem, method))
    observation, _ = observe(problem.world, snapshot.world, problem.seed, 1)
    x = problem.learner.train_samples.ahead(np.full(7, 9))
    found = foretold_by(problem, method, snapshot.params, snapshot.method, observation)(x[:1].expand_as(x).clone())
    assert found.shape == (7, 12)
    assert found.sum(axis=1) == pytest.approx(1)
    assert len(np.unique(found.round(9), axis=0)) > 1  # the same input, other models


def test_top_popular_foretells_its_ranking():
    problem, method = build_problem(config("predicted")), methods.parse("top_popular").build()
    _, snapshot = play_round(SIMULATED, problem, method, begin(problem, method))
    found = method.foretell(problem, snapshot.params, snapshot.method, torch.zeros(7, 1))
    met = problem.learner.train_samples.labels[snapshot.method.met]
    assert found[3].argmax() == np.bincount(met).argmax()
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("features", ["compact", "content", "history"])
def test_the_input_ahead_is_that_of_the_next_sample(features):
    settings = replace(VIDEO, features=features, history=3)
    train = video_problem_parts(settings, 7, 6, 1).train
    index = np.arange(7) * train.per_user
    made = np.array([0, 1, 2, 3, 4, 5, 6])
    assert torch.equal(train.ahead(made), train.take(index + made)[0])
    behind = train.ahead(np.full(7, train.per_user))  # nothing follows, but what it is made of is there
    assert behind.shape == train.take(index)[0].shape
    if features == "history":
        assert behind.long().tolist() == train.log[:, -3:].tolist()


# ---------------------------------------------------------------- ceilings


def tiny():
    """Three users of a catalogue with two genres of two files, and a law of requests without zeros."""
    similarity = np.stack([np.array([[1.0, 0.5], [0.5, 1.0]])] * 2)
    catalogue = Catalogue(
        content=np.zeros((4, 1), dtype=np.float32),
        similarity=similarity,
        similar=np.array([[1], [0], [3], [2]]),
        similar_share=np.ones((4, 1)),
        popular=np.array([[0, 1], [3, 2]]),
        popularity=np.array([0.7, 0.3]),
    )
    profiles = Profiles(
        preference=np.array([[0.6, 0.4], [0.2, 0.8], [0.5, 0.5]]),
        stay=np.array([0.3, 0.6, 0.8]),
        activity=np.array([0.9, 0.4, 0.7]),
        slots=np.array([2, 3, 1]),
        capacity=np.full(3, np.inf),
    )
    return catalogue, profiles, np.array([0, 1, 0])


def expected_hits(catalogue, profiles, user, last, held):
    """The expected hits of one user, by every number of requests and every path that they can take."""
    step, total = transition_matrix(catalogue, profiles, user), 0.0
    for n in range(profiles.slots[user] + 1):
        chance = binom.pmf(n, profiles.slots[user], profiles.activity[user])
        for path in product(range(4), repeat=n):
            share = np.prod([step[a, b] for a, b in zip((last, *path), path, strict=False)])
            total += chance * share * sum(file in held for file in path)
    return total


def test_expected_requests_equal_the_sum_over_all_paths():
    catalogue, profiles, cell = tiny()
    laws = np.stack([request_law(catalogue, profiles, user) for user in range(3)])
    found = expected_requests(laws, np.array([1, 2, 3]), cell, 2)
    for b, file in product(range(2), range(4)):
        each = [
            expected_hits(catalogue, profiles, user, last, {file})
            for user, last in enumerate((1, 2, 3))
            if cell[user] == b
        ]
        assert found[b, file] == pytest.approx(sum(each))


@pytest.mark.parametrize("room", [1, 2, 3])
def test_the_ceiling_equals_the_best_of_all_placements_in_all_states(room):
    catalogue, profiles, cell = tiny()
    law = stationary_law(catalogue, profiles)
    made, total = (profiles.slots * profiles.activity).sum(), 0.0
    for states in product(range(4), repeat=3):
        share = np.prod([law[user, state] for user, state in enumerate(states)])
        for b in range(2):
            total += share * max(
                sum(
                    expected_hits(catalogue, profiles, user, states[user], held) for user in range(3) if cell[user] == b
                )
                for held in combinations(range(4), room)
            )
    found = hit_ceiling(catalogue, profiles, cell, room, seed=3, n_draws=4000)
    assert abs(found.mean - total / made) < 4 * found.error + 1e-12
    assert found.error < 0.01
    static = static_hit_ceiling(catalogue, profiles, cell, room)
    rate = profiles.slots * profiles.activity
    by_hand = sum(
        max(
            sum(rate[user] * law[user, list(held)].sum() for user in range(3) if cell[user] == b)
            for held in combinations(range(4), room)
        )
        for b in range(2)
    )
    assert static == pytest.approx(by_hand / made)
    assert static <= found.mean + 4 * found.error


def test_no_placement_between_rounds_beats_the_ceiling():
    """A perfect predictor reaches it: `predicted` with the exact laws, over many rounds."""
    settings = replace(CONFIG, rounds=400, video=replace(VIDEO, slots=1))
    problem = build_problem(settings)
    parts = video_problem_parts(settings.video, 7, 400, settings.seed)
    step = np.stack([transition_matrix(parts.catalogue, parts.profiles, user) for user in range(7)])
    last = np.full(7, parts.train.lead + 9)
    room, cell = 2, problem.world.topology.cell
    edges = [Edge("predicted", room, n_named=12, prefix="exact "), Edge("popular", room, prefix="popular ")]
    stream = watched(problem, settings.video, edges).world.stream
    store, memory = stream.start(settings.seed)
    hits = {"exact ": 0.0, "popular ": 0.0}
    n = 0.0
    for round in range(400):
        made = memory.stream.source - 9
        law = step[np.arange(7), parts.train.log[np.arange(7), last + made - 1]]
        store, after = stream.arrive(settings.seed, round, store, memory)
        arrived = Arrived(settings.seed, round, memory, after, cell, lambda x, law=law: law)
        memory, row = stream.serve(arrived)
        for name in hits:
            hits[name] += row[f"{name}requests"] * row.get(f"{name}hit_ratio", 0.0)
        n += row["exact requests"]
    best = hit_ceiling(parts.catalogue, parts.profiles, cell, room, seed=1)
    slack = 4 * (0.25 / n) ** 0.5
    assert hits["exact "] / n == pytest.approx(best.mean, abs=slack)
    assert hits["popular "] < hits["exact "]


# ---------------------------------------------------------------- sizes


def test_sizes_by_law_and_by_table(tmp_path):
    drawn = file_bits(replace(VIDEO, file_bit=Law((1e6, 2e6), "uniform")), 3)
    assert drawn.shape == (12,)
    assert ((drawn >= 1e6) & (drawn <= 2e6)).all()
    table = tmp_path / "sizes.csv"
    table.write_text("bits\n" + "\n".join(str(n + 1) for n in range(12)))
    assert file_bits(replace(VIDEO, file_sizes=str(table)), 3).tolist() == list(range(1, 13))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1\n2\n", "has sizes of 2 files and the catalogue has 12: give one for each"),
        ("1\n0\n", "line 2: '0' is no size"),
        ("1\nbig\n", "line 2: 'big' is no size"),
        ("1,2\n", "line 1: '1,2' is no size"),
        ("nan\n", "line 1: 'nan' is no size"),
        ("1\n2\nbits\n3\n", "line 3: 'bits' is no size"),
    ],
)
def test_files_without_sizes(tmp_path, text, sentence):
    table = tmp_path / "sizes.csv"
    table.write_text(text)
    with pytest.raises(BadInput, match=sentence):
        read_sizes(str(table), 12)


def test_a_table_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_sizes(str(tmp_path / "none.csv"), 12)
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not a CSV text"):
        read_sizes(str(tmp_path / "odd.csv"), 12)
    with pytest.raises(BadInput, match=r"video\.file_sizes = 'a\\x00b' cannot be read \(no path of a file\)"):
        read_sizes("a\x00b", 12)


def test_a_problem_refuses_what_servers_may_not_know():
    with pytest.raises(BadInput, match="'predicted' asks for the files that users"):
        build_problem(config("predicted", edge_knows=("served",)))
    assert edges_of(replace(VIDEO, edge_files=3, edge_placement="none")) == []
