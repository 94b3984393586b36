"""Placement rules and edge servers: caches against plain references, placements by brute force, what each may see."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.data.video.settings import KNOWABLE, VideoConfig
from fedcell.errors import BadInput
from fedcell.options import check, override
from fedcell.world.edge import MAY_KNOW, Network, View, check_known, names
from fedcell.world.edge.rules import genie, lfu, load, lru, popular, predicted, random
from fedcell.world.edge.servers import Reports, Requests, Servers, admit, begin, columns, counted, refill
from fedcell.world.edge.stream import named


def plain_lru(room, trace):
    """A list with the newest file last."""
    kept, hits = [], []
    for file in trace:
        hits.append(file in kept)
        kept = [one for one in kept if one != file] + [file]
        kept = kept[-room:]
    return hits, set(kept)


def plain_lfu(room, trace, n_files):
    """Counts of all files from the start; the rarest held file goes, of equals the one unasked for longest."""
    kept, hits, asked = [], [], []
    for file in trace:
        hits.append(file in kept)
        if file not in kept:
            if len(kept) == room:
                age = {one: max((i for i, old in enumerate(asked) if old == one), default=-1) for one in kept}
                kept.remove(min(kept, key=lambda one: (asked.count(one), age[one], one)))
            kept.append(file)
        asked.append(file)
    return hits, set(kept)


@pytest.mark.parametrize(("rule", "reference"), [(lru, plain_lru), (lfu, plain_lfu)])
def test_caches_equal_a_plain_reference_on_a_thousand_traces(rule, reference):
    draw = np.random.default_rng(5)
    for _ in range(1000):
        n_files = int(draw.integers(1, 12))
        room, length = int(draw.integers(1, n_files + 1)), int(draw.integers(0, 60))
        trace = (n_files * draw.random(length) ** draw.uniform(0.5, 3)).astype(np.int64)
        cuts = np.sort(draw.integers(0, length + 1, size=3))
        state = begin(Network(1, np.ones(n_files), 1.0, 1.0), np.zeros((1, n_files), dtype=np.int64))
        hits = []
        for part in np.split(trace, cuts):  # rounds
            hit, held = rule.serve(room, state.held[0], state.served[0], state.last[0], state.clock, part)
            state = counted(state, Requests(np.zeros_like(part), part))._replace(held=held[None])
            hits += hit.tolist()
        extra = (n_files,) if reference is plain_lfu else ()
        expected, kept = reference(room, trace.tolist(), *extra)
        assert hits == expected
        assert set(np.flatnonzero(state.held[0]).tolist()) == kept


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.booleans(), min_size=n, max_size=n),
            st.lists(st.integers(0, 4), min_size=n, max_size=n),
            st.integers(1, n),
        )
    )
)
def test_refill_holds_the_most_wanted_and_fetches_no_more_than_needed(drawn):
    before, wanted, room = drawn
    held = np.array([before])
    held[0, np.flatnonzero(held[0])[room:]] = False  # never more than fit
    after = refill(held, np.array([wanted], dtype=np.float64), room)[0]
    best = max(sum(wanted[file] for file in chosen) for chosen in combinations(range(len(wanted)), room))
    assert after.sum() <= room
    assert sum(np.array(wanted)[after]) == best
    new = set(np.flatnonzero(after & ~held[0]))
    cheapest = min(
        len(set(chosen) - set(np.flatnonzero(held[0])))
        for size in range(room + 1)
        for chosen in combinations(range(len(wanted)), size)
        if sum(wanted[file] for file in chosen) == best
    )
    assert len(new) == cheapest


def test_a_file_replaces_another_only_by_more_than_the_margin():
    held, wanted = np.array([[True, True, False, False]]), np.array([[0.5, 3.0, 1.5, 1.6]])
    assert refill(held, wanted, 2, margin=1.0).tolist() == [[False, True, False, True]]
    assert refill(held, wanted, 2, margin=1.1).tolist() == [[True, True, False, False]]


def test_passing_files_take_the_place_of_less_wanted_ones():
    """Against a plain loop, on random traces of two servers."""
    draw = np.random.default_rng(9)
    for _ in range(200):
        n_files, n = int(draw.integers(2, 9)), int(draw.integers(0, 40))
        room, margin = int(draw.integers(1, n_files + 1)), float(draw.choice([0.0, 0.5]))
        wanted = draw.integers(0, 4, (2, n_files)).astype(float)
        requests = Requests(draw.integers(0, 2, n), draw.integers(0, n_files, n))
        held = np.zeros((2, n_files), dtype=bool)
        held[:, :room] = draw.random((2, room)) < 0.5
        kept, hits = [[f for f in range(n_files) if held[b, f]] for b in range(2)], []
        for b, file in zip(requests.cell, requests.file, strict=True):
            hits.append(file in kept[b])
            if file not in kept[b]:
                if len(kept[b]) < room:
                    kept[b].append(file)
                else:
                    worst = sorted(kept[b], key=lambda f, b=b: (wanted[b, f], f))[0]
                    if wanted[b, file] - wanted[b, worst] > margin:
                        kept[b][kept[b].index(worst)] = file
        hit, after = admit(held, wanted, room, margin, requests)
        assert hit.tolist() == hits
        assert [sorted(np.flatnonzero(row).tolist()) for row in after] == [sorted(own) for own in kept]


def view(**parts):
    base = {"n_cells": 2, "n_files": 3, "room": 1, "seed": 1, "n_expected": np.array([4.0, 2.0])}
    return View(**{**base, **parts})


def test_popular_ranks_by_the_whole_network():
    served = np.array([[5, 0, 1], [0, 4, 0]])
    assert popular.wanted(view(served=served)) == pytest.approx(np.outer([4, 2], [0.5, 0.4, 0.1]))


def test_predicted_equals_a_plain_loop():
    draw = np.random.default_rng(3)
    share, rate, cell = draw.dirichlet(np.ones(3), 7) * 0.8, draw.uniform(0, 3, 7), draw.integers(0, 2, 7)
    served = draw.integers(0, 9, (2, 3))
    expected = np.zeros((2, 3))
    for user in range(7):
        b, first = cell[user], min(rate[user], 1)
        rest = first * (1 - share[user].sum()) + max(rate[user] - 1, 0)
        for file in range(3):
            expected[b, file] += first * share[user, file] + rest * served[b, file] / served[b].sum()
    found = predicted.wanted(view(served=served, reports=Reports(share, rate, cell)))
    assert found == pytest.approx(expected)
    assert found.sum() == pytest.approx(rate.sum())


def test_nobody_holds_more_requested_files_than_the_genie():
    coming = np.array([[2, 0, 1], [0, 3, 3]])
    held = refill(np.zeros((2, 3), dtype=bool), genie.wanted(view(next=coming)), 1)
    assert (held * coming).sum() == 5
    assert all((coming[0, a] + coming[1, b]) <= 5 for a in range(3) for b in range(3))


def test_random_files_are_drawn_once_and_differ_between_cells():
    one = random.wanted(view(n_files=50))
    assert (one == random.wanted(view(n_files=50))).all()
    assert (one[0] != one[1]).any()
    assert (one != random.wanted(view(n_files=50, seed=2))).any()


def test_named_files_are_the_likeliest_and_fit_the_catalogue():
    foretold = np.array([[0.1, 0.4, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    assert named(foretold, 2, 4).tolist() == [[0, 0.4, 0.3, 0], [0.25, 0.25, 0, 0]]
    assert named(foretold, 9, 3).shape == (2, 3)
    assert named(foretold, 1, 6).tolist()[0] == [0, 0.4, 0, 0, 0, 0]


def test_columns_count_misses_and_fetches():
    network = Network(2, np.array([10.0, 20.0, 40.0]), backhaul_bps=5.0, downlink_bps=10.0)
    requests, hit = Requests(np.array([0, 0, 1]), np.array([0, 2, 1])), np.array([True, False, True])
    fetched = np.array([[True, False, False], [False, True, False]])
    assert columns(network, requests, hit, fetched) == {
        "requests": 3,
        "request_bit": 70,
        "fetch_bit": 30,
        "video_backhaul_bit": 70,
        "hit_ratio": pytest.approx(2 / 3),
        "delivery_s": pytest.approx((1 + 4 + 8 + 2) / 3),
    }
    nothing = Requests(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    assert columns(network, nothing, np.empty(0, dtype=bool), fetched) == {
        "requests": 0,
        "request_bit": 0,
        "fetch_bit": 30,
        "video_backhaul_bit": 30,
    }


def test_counts_and_last_requests():
    before = Servers(np.zeros((1, 3), dtype=bool), np.array([[4, 0, 0]]), np.array([[2, 0, 0]]), 7)
    after = counted(before, Requests(np.zeros(3, dtype=np.int64), np.array([1, 0, 1])))
    assert after.served.tolist() == [[5, 2, 0]]
    assert after.last.tolist() == [[9, 10, 0]]
    assert after.clock == 10


# ---------------------------------------------------------------- what may be asked for


def test_the_files_are_the_choices():
    entry = next(entry for entry in VideoConfig.__dataclass_fields__.values() if entry.name == "edge_placement")
    assert sorted([*names(), "none"]) == sorted(entry.metadata["choices"])
    assert tuple(MAY_KNOW) == KNOWABLE
    for name in names():
        assert set(load(name).NEEDS) <= {*MAY_KNOW, "next"}
        assert hasattr(load(name), "wanted") != hasattr(load(name), "serve")
    assert [name for name in names() if "next" in load(name).NEEDS] == ["genie"]


def test_a_placement_that_asks_for_what_servers_may_not_know_is_refused():
    check_known("predicted", ("served", "reports"))
    check_known("genie", ())
    check_known("random", ())
    with pytest.raises(
        BadInput, match=r"'predicted' asks for the files that users .* with video.edge_knows = served: a"
    ):
        check_known("predicted", ("served",))
    with pytest.raises(
        BadInput, match=r"'lru' asks for the files it has served.*nothing: allow 'served', or use genie or"
    ):
        check_known("lru", ())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"edge_files": "101"}, "video.edge_files = 101 but the catalogue has 100 files"),
        ({"edge_files": "-1"}, "video.edge_files = -1 is out of range"),
        ({"edge_placement": "lru2"}, "video.edge_placement = 'lru2' is unknown"),
        ({"edge_knows": "served,location"}, "video.edge_knows names 'location'"),
        ({"file_bit": "0"}, "video.file_bit = 0 is out of range"),
        ({"edge_reports": "0"}, "video.edge_reports = 0 is out of range"),
        ({"backhaul_bps": "inf"}, "video.backhaul_bps = inf is out of range"),
    ],
)
def test_settings_out_of_range(changes, sentence):
    with pytest.raises(BadInput, match=sentence):
        check(override(VideoConfig(), changes, "video."), "video.")
