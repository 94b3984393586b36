"""The event clock against a plain event simulation, and what asynchronous methods must keep to."""

from heapq import heappop, heappush

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_config import SMALL

from fedcell import methods, radio, record, world
from fedcell.errors import BadInput, Diverged
from fedcell.methods.parts import parcels
from fedcell.options import override
from fedcell.plan.looking import looks_at_updates
from fedcell.plan.untrained import play
from fedcell.record import checkpoint
from fedcell.simulate import SIMULATED, begin, play_round, simulate

OWN = {"world.access": "own_band", "world.pathloss": "power_law", "world.fading": "exponential"}
RANDOM = {  # devices of all speeds; channels, outages and switches are drawn anew in every row
    **OWN,
    "world.cpu_hz": "1e7..2e9",
    "world.cycles_per_sample": "1e5",
    "world.outage_threshold_db": "25",
    "world.availability": "0.8",
    "world.deadline_s": "0.3",
    "world.n_devices": "9",
}


def rows_of(problem, method):
    return list(simulate(problem, methods.parse(method).build()))


def unlike(left, right, columns=()):
    """What differs between two runs beside columns that only one has."""
    for (a, after), (b, other) in zip(left, right, strict=True):
        for name in a._fields:
            if name not in ("metrics", *columns) and getattr(a, name) != getattr(b, name):
                yield f"{name} of row {a.round}: {getattr(a, name)} and {getattr(b, name)}"
        if {key: value for key, value in b.metrics.items() if key in a.metrics} != dict(a.metrics):
            yield f"metrics of row {a.round}"
        if not torch.equal(after.params, other.params):
            yield f"model after row {a.round}"


# ---------------------------------------------------------------- FedAvg is the limit

ALIKE = {
    "shared band": {},
    "own bands": OWN,
    "three uneven cells": {"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "7"},
    "devices come and go": {**OWN, "world.availability": "0.6"},
    "resource blocks with outage": {
        "world.access": "block",
        "world.n_blocks": "3",
        "world.interference_over_noise": "1e2..1e5",
        "world.outage_threshold_db": "20",
        "world.pathloss": "power_law",
    },
    "answers within a deadline": {"world.response": "exponential", "world.deadline_s": "0.8"},
    "batteries that run out": {"world.battery_joule": "1e-4..1e-2", "world.cycles_per_sample": "1e6"},
    "idle devices and a way down": {
        "world.downlink": "broadcast",
        "world.receive_watt": "0.1",
        "world.idle_watt": "0.01",
        "world.battery_joule": "0.2..5",
        "world.harvest_watt": "0.05",
    },
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_buffer_of_all_devices_is_fedavg_bit_for_bit(small, name):
    problem = small(ALIKE[name])
    assert not [*unlike(rows_of(problem, "fedavg:weights=equal"), rows_of(problem, "fedbuff:buffer=1000"))]
    assert not [*unlike(rows_of(problem, "fedavg"), rows_of(problem, "fedbuff:buffer=1000,weights=samples"))]


@pytest.mark.parametrize("name", ALIKE)
def test_a_period_longer_than_the_slowest_is_fedavg_with_longer_rounds(small, name):
    if name == "idle devices and a way down":
        pytest.skip("longer rounds cost more joules of standing by")
    problem = small(ALIKE[name])
    left, right = rows_of(problem, "fedavg"), rows_of(problem, "semi_async:period_s=100")
    assert not [*unlike(left, right, ("clock_s", "round_s"))]
    assert [row.clock_s for row, _ in right] == [100.0, 200.0, 300.0, 400.0]


def test_in_large_cohorts_it_is_fedavg_up_to_the_order_of_sums(small, in_blocks):
    in_blocks(2)
    problem = small({"world.n_devices": 11})
    left, right = (rows_of(problem, m)[-1][1].params for m in ("fedavg:weights=equal", "fedbuff:buffer=1000"))
    assert torch.allclose(left, right, atol=1e-6)


# ---------------------------------------------------------------- a plain event simulation


def physics(problem):
    """Seconds, fate and presence of every device, had it started in each row: with bands of their own, nobody matters
    to anybody else."""
    found, state = [], world.start(problem.world, problem.seed)
    for number in range(problem.n_rounds):
        seen, state = world.observe(problem.world, state, problem.seed, number)
        everyone = seen._replace(available=np.ones(problem.world.n_devices, dtype=bool))
        decision = methods.parse("fedavg").build().decide(problem, None, everyone)
        uplink = radio.transmit(problem.world, everyone, decision, problem.seed)
        compute_s, upload_s = radio.times(problem.world, everyone, decision)
        found.append((np.minimum(compute_s + upload_s, decision.deadline_s), uplink.letters, seen.available))
    return found


def events(rows, n_arrivals=None, period_s=None):
    """Clock, letters and staleness of every row, by a heap of absolute times."""
    heap, busy, now, version = [], set(), 0.0, 0
    for seconds, fates, here in rows:
        for device, fate in enumerate(fates):
            if device not in busy and here[device]:
                heappush(heap, (now + seconds[device], device, version, fate))
                busy.add(device)
        letters, stale, end = ["."] * len(fates), {}, now + (period_s or 0.0)
        while heap and (len(stale) < n_arrivals if n_arrivals else heap[0][0] <= end):
            now, device, got, fate = heappop(heap)
            busy.remove(device)
            letters[device] = fate if fate != "D" or here[device] else "O"
            if letters[device] == "D":
                stale[device] = version - got
        now = end if period_s else now
        version += bool(stale)
        yield now, "".join(letters), stale


@given(st.integers(0, 10**6), st.integers(1, 9))
@settings(max_examples=30)
def test_arrivals_staleness_and_clock_are_those_of_a_plain_event_simulation(small, seed, n_arrivals):
    problem = small(RANDOM, rounds=25)._replace(seed=seed)
    check_against_events(problem, f"fedbuff:buffer={n_arrivals}", n_arrivals=n_arrivals)


@given(st.integers(0, 10**6), st.floats(0.01, 0.4))
@settings(max_examples=20)
def test_periods_are_those_of_a_plain_event_simulation(small, seed, period_s):
    problem = small(RANDOM, rounds=25)._replace(seed=seed)
    check_against_events(problem, f"semi_async:period_s={period_s!r}", period_s=period_s)


def check_against_events(problem, method, **rule):
    found = play(problem, methods.parse(method).build())
    for (row, after), (clock_s, letters, stale) in zip(found, events(physics(problem), **rule), strict=True):
        assert row.outcome == letters
        assert row.clock_s == pytest.approx(clock_s, rel=1e-9)
        assert {k: after.method.staleness[k] for k in stale} == stale
        assert row.metrics["arrivals"] == row.n_delivered == len(stale)
        assert row.metrics["stale_mean"] == pytest.approx(np.mean([*stale.values()] or [0.0]))
        assert row.metrics["stale_max"] == max(stale.values(), default=0)


# ---------------------------------------------------------------- the servers


@pytest.mark.parametrize(
    "method",
    [
        "fedasync:staleness=constant",
        "fedasync:alpha=0.9,staleness_slope=0.7",
        "fedasync:staleness=hinge,staleness_slope=10,staleness_free=2,rho=0.1",
    ],
)
def test_fedasync_is_the_loop_of_its_paper(small, method):
    """`w <- (1 - a) w + a w_k`, every device trained alone, from the model that it got."""
    problem, config = small(OWN, rounds=20), methods.parse(method).config
    model, version, models = problem.learner.whole().clone(), 0, {}
    start = begin(problem, methods.parse("fedprox").build())
    for row, after in simulate(problem, methods.parse(method).build()):
        seen, _ = world.observe(problem.world, start.world, problem.seed, row.round)
        for device in set(range(6)) - set(models):
            models[device] = trained_alone(problem, model, seen, device, config.rho), version
        device = row.outcome.index("D")
        theirs, got = models.pop(device)
        tau = version - got
        if config.staleness == "polynomial":
            alpha = config.alpha * (tau + 1) ** -config.staleness_slope
        elif config.staleness == "hinge" and tau > config.staleness_free:
            alpha = config.alpha / (config.staleness_slope * (tau - config.staleness_free) + 1)
        else:
            alpha = config.alpha
        model, version = (1 - alpha) * model + alpha * theirs, version + 1
        assert torch.allclose(after.params, model, atol=1e-5)
    assert version == 20


def trained_alone(problem, model, seen, device, mu):
    """The model of one device after its local steps."""
    alone = seen._replace(available=np.arange(6) == device)
    fedprox = methods.parse(f"fedprox:mu={mu},effort=fixed").build()
    decision = fedprox.decide(problem, None, alone)
    begun = fedprox.broadcast(problem, model, None, alone, decision)
    return model + fedprox.local(problem, None, begun, alone, decision).delta[0]


def test_fedbuff_weighs_by_staleness(small):
    """Every step is the mean of the buffer with `1 / sqrt(1 + tau)`, from rows that were trained alone."""
    problem = small(OWN, rounds=8)
    model, models = problem.learner.whole().clone(), {}
    start = begin(problem, methods.parse("fedavg").build())
    for row, after in simulate(problem, methods.parse("fedbuff:buffer=2,server_lr=0.7").build()):
        seen, _ = world.observe(problem.world, start.world, problem.seed, row.round)
        for device in set(range(6)) - set(models):
            models[device] = trained_alone(problem, model, seen, device, 0.0) - model, row.round
        for device, letter in enumerate(row.outcome):
            if letter == "D":
                delta, got = models.pop(device)
                model = model + 0.7 / 2 * delta / np.sqrt(1 + row.round - got)
        assert torch.allclose(after.params, model, atol=1e-5)


# ---------------------------------------------------------------- what is on the way


def test_rows_without_arrivals_make_nothing_stale(small):
    """The server did not step in them, so a device that gets the first model and answers later is up to date."""
    problem = small({**OWN, "world.cpu_hz": "1e7..2e9", "world.cycles_per_sample": "1e5", "rounds": "40"})
    whole = max(row.round_s for row, _ in rows_of(problem, "fedbuff:buffer=1"))
    found = [row.metrics for row, _ in rows_of(problem, f"semi_async:period_s={whole / 20!r}")]
    came = [row["arrivals"] for row in found]
    first = next(place for place, n in enumerate(came) if n)
    assert first > 0, "there are rows without arrivals"
    assert found[first]["stale_max"] == 0
    steps = np.cumsum([n > 0 for n in came])
    assert all(row["stale_max"] <= step - 1 for row, step, n in zip(found, steps, came, strict=True) if n)


METHODS = ["fedbuff:buffer=2", "fedasync", "semi_async", "fedbuff+topk:fraction=0.3,buffer=2", "semi_async+qsgd"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_saved_in_mid_flight_ends_with_the_same_bits(small, method, tmp_path):
    problem = small({"world.cpu_hz": "1e7..2e9", "world.cycles_per_sample": "1e5"}, rounds=10)
    built = methods.parse(method).build()
    straight = list(simulate(problem, built))
    template = checkpoint.Template.of(begin(problem, built))
    for cut in (0, 3, 6):
        assert straight[cut][0].metrics["in_flight"] > 0
        folder = tmp_path / str(cut)
        folder.mkdir()
        checkpoint.save(folder, straight[cut][1], template)
        restored = checkpoint.load(next(folder.iterdir()), template)
        resumed = list(simulate(problem, built, restored))
        assert [row for row, _ in resumed] == [row for row, _ in straight[cut + 1 :]]
        assert torch.equal(resumed[-1][1].params, straight[-1][1].params)


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["fdma", "block"]), st.sampled_from([1, 3]))
@settings(max_examples=25)
def test_nobody_holds_what_another_holds(small, seed, most, access, n_cells):
    """Bands, blocks and slots of all that are on the way, who started in several rows, keep to the budgets."""
    changes = {
        **RANDOM,
        "world.access": access,
        "world.n_blocks": 4,
        "world.n_cells": n_cells,
        "world.availability": 0.7,
    }
    changes |= {"world.topology": "cells" if n_cells > 1 else "disc", "world.battery_joule": "1e-3..1"}
    changes |= {"world.interference_over_noise": "1..10"} if access == "block" else {}
    problem = small(changes, rounds=15)._replace(seed=seed)
    built = methods.parse(f"fedbuff:buffer=2,scheduler=random,n_selected={most}").build()
    held = []
    collect = built.collect

    def look(problem, params, state, sent):
        before = state.fate != 0
        assert not (before & sent.decision.selected).any(), "busy devices do not start"
        cell = np.where(before, state.cell, sent.observation.topology.cell)
        busy = before | sent.decision.selected
        assert np.bincount(cell[busy], minlength=1).max() <= most
        if access == "fdma":
            hz = np.where(before, state.bandwidth_hz, np.where(sent.decision.selected, sent.decision.bandwidth_hz, 0.0))
            assert np.bincount(cell, weights=hz).max() <= problem.world.settings.bandwidth_hz * (1 + 1e-9)
        else:
            block = np.where(before, state.block, sent.decision.block)
            slots = [*zip(cell[busy], block[busy], strict=True)]
            assert len(slots) == len({*slots})
            assert all(0 <= number < 4 for _, number in slots)
        held.append(busy.sum())
        return collect(problem, params, state, sent)

    for row, _ in play(problem, built._replace(collect=look)):
        assert row.metrics["in_flight"] <= most * n_cells
    assert held


def test_batteries_pay_once_for_all_that_started(small):
    changes = {"world.battery_joule": 5.0, "world.cpu_hz": "1e7..2e9", "world.cycles_per_sample": "1e5"}
    history = rows_of(small(changes, rounds=20), "fedbuff:buffer=1")
    spent = sum(row.compute_joule + row.radio_joule for row, _ in history)
    assert spent == pytest.approx(float((5.0 - history[-1][1].world.battery_joule).sum()))
    started = sum(row.metrics["started"] for row, _ in history)
    ended = sum(row.n_selected for row, _ in history)
    assert started == ended + history[-1][0].metrics["in_flight"]


def test_standing_by_is_paid_for_the_length_of_the_row(small):
    changes = {"world.idle_watt": "0.5", "world.battery_joule": "100", "world.cpu_hz": "1e7..2e9"}
    for row, _ in rows_of(small(changes | {"world.cycles_per_sample": "1e5"}, rounds=6), "fedasync"):
        assert row.metrics["idle_joule"] == pytest.approx(6 * 0.5 * row.round_s)


def poisoned(method, device):
    """The method in which some device always sends numbers that are not finite."""

    def local(*given):
        updates = method.local(*given)
        updates.delta[torch.from_numpy(np.isin(updates.device, device)), 5] = float("nan")
        return updates

    return method._replace(local=local)


@pytest.mark.parametrize("method", ["fedasync", "fedbuff:buffer=2", "semi_async"])
def test_bad_updates_never_count(small, method):
    """A server that gets numbers that are not finite waits for the next arrival."""
    history = list(simulate(small(rounds=20), poisoned(methods.parse(method).build(), [0, 3])))
    assert any(row.outcome[0] == "X" for row, _ in history)
    assert not any("D" in (row.outcome[0], row.outcome[3]) for row, _ in history)
    assert all(torch.isfinite(after.params).all() for _, after in history)
    if method != "semi_async":
        assert {row.n_delivered for row, _ in history} == {1 if method == "fedasync" else 2}


def test_nothing_but_bad_updates_is_divergence(small):
    with pytest.raises(Diverged, match=r"all 6 updates on the way are not finite: lower the learning rate"):
        list(simulate(small(), poisoned(methods.parse("fedasync").build(), range(6))))


@given(st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=12), st.data())
def test_parcels_are_a_table_of_rows_and_take_twice_their_memory_at_most(starts, data):
    ours, plain = parcels.nothing(8), {}
    for number, wanted in enumerate(starts):
        device = np.array(sorted(wanted - set(plain)), dtype=np.int64)
        rows = torch.arange(len(device) * 3.0).reshape(-1, 3) + 100 * number
        ours = parcels.sent_off(ours, number, device, rows, -rows[:, :1] if len(device) else None)
        plain |= dict(zip(device.tolist(), rows, strict=True))
        gone = np.array(sorted(data.draw(st.sets(st.sampled_from(sorted(plain))))) if plain else [], dtype=np.int64)
        before = {key: value.clone() for key, value in ours.rows.items()}
        after, found, tails = parcels.taken(ours, gone)
        assert all(torch.equal(value, ours.rows[key]) for key, value in before.items()), "a snapshot stays whole"
        for k, row, tail in zip(gone.tolist(), found, tails, strict=True):
            assert torch.equal(row, plain.pop(k))
            assert torch.equal(tail, -row[:1])
        ours = after
        assert sum(map(len, ours.rows.values())) <= 2 * len(plain)
        assert ours.rows.keys() == ours.tails.keys()


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        (
            "fedbuff",
            {"world.edge_rounds": 2},
            r"fedbuff does not go with world.edge_rounds = 2: .* set world.edge_rounds=0",
        ),
        ("semi_async", {"world.access": "tdma"}, "semi_async does not go with world.access = 'tdma', .*: use fdma"),
        (
            "fedasync",
            {"world.response": "exponential", "world.n_fast": 1},
            "clock would stand still: lower world.n_fast",
        ),
    ],
)
def test_worlds_without_a_place_for_it_are_refused(small, method, changes, words):
    with pytest.raises(BadInput, match=words):
        begin(small(changes), methods.parse(method).build())


def test_an_empty_row_costs_nothing_and_moves_nothing(small):
    problem = small({"world.availability": "0"})
    for method in ("fedbuff", "fedasync", "semi_async:period_s=3"):
        built = methods.parse(method).build()
        first = begin(problem, built)
        row, after = play_round(SIMULATED, problem, built, first)
        assert torch.equal(first.params, after.params)
        assert row.metrics["arrivals"] == row.metrics["in_flight"] == row.compute_joule == 0
        assert row.round_s == (3.0 if "period_s" in method else 0.0)


@pytest.mark.parametrize("method", ["fedbuff:buffer=2", "fedasync", "semi_async", "fedbuff+topk:fraction=0.3,buffer=2"])
def test_the_plan_is_the_simulation(small, method):
    """Costs, fates and clocks without training are those with it."""
    problem, built = small(RANDOM, rounds=12), methods.parse(method).build()
    assert not looks_at_updates(problem, built)
    told = [row._replace(metrics={}) for row, _ in play(problem, built)]
    assert told == [row._replace(metrics={}) for row, _ in simulate(problem, built)]


@pytest.mark.parametrize("method", ["fedbuff:buffer=2", "fedasync", "fedbuff+topk:fraction=0.3,buffer=2"])
def test_a_run_that_was_killed_in_mid_flight_ends_with_the_same_files(method, tmp_path):
    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.row is not None and progress.row.round == 4:
            assert progress.row.metrics["in_flight"] > 0
            raise KilledError

    config = override(SMALL, {"rounds": 9, "world.cpu_hz": "1e7~2e9", "world.cycles_per_sample": "1e5"})
    asked, often = [methods.parse(method)], record.Period(0.0)
    record.execute(config, asked, tmp_path / "whole", period=often)
    with pytest.raises(KilledError):
        record.execute(config, asked, tmp_path / "cut", watch=kill, period=often)
    record.resume(tmp_path / "cut", period=often)
    for name in ("rounds.jsonl", "checkpoint-000009.safetensors"):
        (one,), (other,) = ([*(tmp_path / folder).rglob(name)] for folder in ("whole", "cut"))
        assert one.read_bytes() == other.read_bytes()


def test_parcels_keep_no_more_memory_alive_than_they_say(small):
    """The engine hands out views of a larger matrix that it uses again."""
    problem = small({"world.cpu_hz": "1e7~2e9", "world.cycles_per_sample": "1e5", "world.n_devices": 12}, rounds=20)
    for _, after in simulate(problem, methods.parse("fedbuff:buffer=3").build()):
        rows = after.method.parcels.rows.values()
        alive = sum(part.untyped_storage().nbytes() for part in rows)
        assert alive <= 2 * sum(part.nbytes for part in rows)
        on_the_way = np.count_nonzero(after.method.parcels.parcel >= 0)
        assert sum(map(len, rows)) <= 2 * on_the_way == 2 * np.count_nonzero(after.method.fate)


@pytest.mark.parametrize("engine", ["debug", "vmap"])
def test_every_engine_trains_for_it(small, engine):
    problem = small({"train.engine": engine})
    assert not [*unlike(rows_of(problem, "fedavg:weights=equal"), rows_of(problem, "fedbuff:buffer=1000"))]
    found = rows_of(problem, "fedasync")[-1][1].params
    assert torch.allclose(found, rows_of(small(), "fedasync")[-1][1].params, atol=1e-5)


def test_devices_that_fit_their_work_into_the_deadline_are_not_late(small):
    changes = {
        "world.cpu_hz": "1e8~2e9",
        "world.cycles_per_sample": "1e6",
        "world.deadline_s": "0.1",
        "train.steps": "9",
    }
    letters = "".join(row.outcome for row, _ in rows_of(small(changes, rounds=10), "fedbuff:buffer=2,effort=fit"))
    assert "D" in letters
    assert "T" not in letters
    assert "T" in "".join(row.outcome for row, _ in rows_of(small(changes, rounds=10), "fedbuff:buffer=2"))
