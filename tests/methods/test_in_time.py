"""FedCS: as many devices as meet the deadline, against all subsets played in the world."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import methods, radio, world
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.in_time import most_on_time
from fedcell.methods.parts.resources import plan
from fedcell.methods.parts.schedulers import schedule
from fedcell.simulate import simulate

TIGHT = {"world.cycles_per_sample": "1e5..3e6", "world.cpu_hz": "1e9", "world.bandwidth_hz": "3e5"}
ACCESS = {
    "shares": {"world.access": "fdma"},
    "turns": {"world.access": "tdma"},
    "own bands": {"world.access": "own_band"},
}


def all_arrive(problem, seen, selected):
    decision = plan(problem, seen, selected, problem.train.steps, problem.train.batch_size)
    uplink = radio.transmit(problem.world, seen, decision, problem.seed)
    return bool(uplink.delivered[selected].all())


def largest(problem, seen, most):
    """The most devices of one cell that all arrive, by trying all subsets."""
    there = np.flatnonzero(seen.available)
    for n in range(min(most, len(there)), 0, -1):
        for some in combinations(there, n):
            selected = np.zeros(problem.world.n_devices, dtype=np.bool_)
            selected[list(some)] = True
            if all_arrive(problem, seen, selected):
                return n
    return 0


def observed(problem, round):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


@pytest.mark.parametrize("access", ACCESS)
def test_no_larger_set_meets_the_deadline(small, access):
    found = set()
    for deadline_s in (0.02, 0.05, 0.1, 0.2, 0.4):
        changes = {"world.deadline_s": str(deadline_s), "world.availability": "0.8"}
        problem = small(TIGHT | ACCESS[access] | changes)
        for round in range(3):
            seen = observed(problem, round)
            for most in (2, 6):
                chosen = schedule("fedcs", most, problem, seen)
                assert not (chosen & ~seen.available).any()
                assert all_arrive(problem, seen, chosen)
                assert chosen.sum() == largest(problem, seen, most)
                found.add(int(chosen.sum()))
    assert len(found) >= 4, "deadlines must be tight, or everyone is chosen"


def test_cells_are_chosen_one_by_one(small):
    cells = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "9", "world.deadline_s": "0.1"}
    problem = small(TIGHT | cells)
    seen = observed(problem, 0)
    chosen = schedule("fedcs", 9, problem, seen)
    assert all_arrive(problem, seen, chosen)
    for cell in range(2):
        here = seen.topology.cell == cell
        alone = seen._replace(available=seen.available & here)
        assert (schedule("fedcs", 9, problem, alone) == (chosen & here)).all()


def test_nobody_is_late_who_is_with_everyone(small):
    problem = small(TIGHT | {"world.deadline_s": "0.05", "world.bandwidth_hz": "1e5"})
    everyone, some = (
        [row for row, _ in simulate(problem, methods.parse(text).build())]
        for text in ("fedavg", "fedavg:scheduler=fedcs,n_selected=6")
    )
    assert any("T" in row.outcome for row in everyone)
    assert all(row.n_delivered == row.n_selected > 0 for row in some)
    assert sum(row.n_delivered for row in some) > sum(row.n_delivered for row in everyone)


jobs = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=7)


@given(jobs)
def test_most_jobs_are_on_time(jobs):
    """Against all subsets, each in the order of due times, which is as good as any."""

    def on_time(some):
        ends = np.cumsum([length for _, length in sorted(some)])
        return all(end <= due for end, (due, _) in zip(ends, sorted(some), strict=True))

    due, length = (np.array([job[i] for job in jobs], dtype=np.float64) for i in (0, 1))
    kept = most_on_time(due, length)
    assert on_time([jobs[i] for i in kept])
    assert len(kept) == max(n for n in range(len(jobs) + 1) if any(map(on_time, combinations(jobs, n))))


@pytest.mark.parametrize(
    ("text", "deadline_s"),
    [
        ("ditto", 0.1),
        ("apfl", 0.1),
        ("fedrep:head_layers=1", 0.1),
        ("moon", 0.06),
        ("qfedavg:loss_cost=1", 0.2),
        ("fedkd:public_per_class=20", 0.8),
        ("knowledge", 0.8),
    ],
)
def test_methods_that_pay_or_send_otherwise_choose_with_what_they_pay_and_send(small, text, deadline_s):
    """Nobody is late whom FedCS takes, and it takes as many as could be in time."""
    problem = small(TIGHT | {"world.deadline_s": str(deadline_s)}, model=ModelConfig(name="mlp", hidden=(8,)), rounds=3)
    joiner = "," if ":" in text else ":"
    method, found = methods.parse(f"{text}{joiner}scheduler=fedcs,n_selected=6").build(), []
    decide = method.decide

    def noted(problem, state, seen):
        found.append((seen, decision := decide(problem, state, seen)))
        return decision

    for row, _ in simulate(problem, method._replace(decide=noted)):
        seen, decision = found[-1]
        assert 0 < row.n_selected == row.n_delivered
        assert row.n_selected == most_that_arrive(problem, seen, decision) < 6


def most_that_arrive(problem, seen, decision):
    """The most devices that arrive with equal shares of the band, by trying all subsets."""
    for n in range(6, 0, -1):
        for some in combinations(range(6), n):
            selected = np.isin(np.arange(6), some)
            band = np.where(selected, problem.world.settings.bandwidth_hz / n, 0.0)
            tried = decision._replace(selected=selected, bandwidth_hz=band)
            if radio.transmit(problem.world, seen, tried, problem.seed).delivered.sum() == n:
                return n
    return 0
