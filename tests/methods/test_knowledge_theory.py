"""The bounds of knowledge-aided learning: their limits and a plain loop."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.methods.knowledge.theory import (
    Constants,
    Rates,
    contraction,
    deviations,
    drift,
    energy_bound,
    final_bound,
    highest_rates,
    missed_knowledge,
    pull_cost,
    recursion,
    reward_gap,
)

CONSTANTS = Constants(2.0, 3.0, 1.5, 1.2, 0.8, 0.5, 0.9)
COUNTS = np.array([[4, 0, 2], [0, 5, 1], [3, 3, 0], [0, 0, 6]])


def rates(scale=1.0, pull=0.3, steps=5):
    body, head = highest_rates(CONSTANTS, steps)
    return Rates(scale * body, scale * head, steps, pull)


def test_nothing_contracts_at_the_highest_rates_and_something_inside():
    assert contraction(CONSTANTS, rates()) == pytest.approx(1.0, abs=1e-12)
    for scale in (0.01, 0.5, 0.99):
        assert 0 < contraction(CONSTANTS, rates(scale)) < 1


def test_everyone_heard_misses_nothing_and_fewer_miss_more():
    assert missed_knowledge(COUNTS, np.ones(4, bool)) == 0
    some = missed_knowledge(COUNTS, np.array([True, True, False, False]))
    assert 0 < some < missed_knowledge(COUNTS, np.zeros(4, bool))


def test_missed_knowledge_as_in_a_plain_loop():
    scheduled, total = np.array([True, False, True, False]), 0.0
    for k in range(4):
        for c in range(3):
            gap = 1 - COUNTS[scheduled, c].sum() / COUNTS[:, c].sum()
            total += COUNTS[k, c] ** 2 * gap**2 / COUNTS[k].sum()
    assert missed_knowledge(COUNTS, scheduled) == pytest.approx(3 / COUNTS.sum() * total)


def test_recursion_adds_what_was_missed_the_round_before():
    everyone, nobody = np.ones((6, 4), bool), np.ones((6, 4), bool)
    nobody[[2, 5]] = False  # what the last one misses is nowhere
    full, holed = (recursion(CONSTANTS, rates(0.5), COUNTS, some, 3.0) for some in (everyone, nobody))
    np.testing.assert_allclose(full[:4], holed[:4])
    extra = pull_cost(CONSTANTS, rates(0.5)) * missed_knowledge(COUNTS, np.zeros(4, bool))
    assert holed[4] - full[4] == pytest.approx(extra)
    assert drift(CONSTANTS, rates(0.5)) > 0


def test_final_bound_falls_with_participation_and_is_above_the_recursion():
    """The theorem loosens the recursion; without a pull both are the same."""
    scheduled = np.random.default_rng(1).random((6, 4)) < 0.5
    more = np.ones((6, 4), bool)
    assert final_bound(CONSTANTS, rates(0.5), COUNTS, more, 3.0) < final_bound(
        CONSTANTS, rates(0.5), COUNTS, scheduled, 3.0
    )
    free = rates(0.5, pull=0.0)
    last = recursion(CONSTANTS, free, COUNTS, scheduled, 3.0)[-1]
    assert final_bound(CONSTANTS, free, COUNTS, scheduled, 3.0) == pytest.approx(last)
    edge = replace(rates(), pull=0.0)
    assert final_bound(CONSTANTS, edge, COUNTS, scheduled, 3.0) == pytest.approx(
        recursion(CONSTANTS, edge, COUNTS, scheduled, 3.0)[-1], rel=1e-6
    )


def test_a_device_without_data_adds_nothing():
    """The recursion stays, and so does the theorem without a pull; with one it is finite, even where nobody has any."""
    scheduled = np.random.default_rng(1).random((6, 4)) < 0.5
    counts, heard = np.vstack([COUNTS, np.zeros((1, 3), dtype=int)]), np.hstack([scheduled, np.ones((6, 1), bool)])
    np.testing.assert_allclose(
        recursion(CONSTANTS, rates(0.5), counts, heard, 3.0), recursion(CONSTANTS, rates(0.5), COUNTS, scheduled, 3.0)
    )
    free, last = rates(0.5, pull=0.0), recursion(CONSTANTS, rates(0.5, pull=0.0), counts, heard, 3.0)[-1]
    assert final_bound(CONSTANTS, free, counts, heard, 3.0) == pytest.approx(last)
    assert np.isfinite(final_bound(CONSTANTS, rates(0.5), counts, heard, 3.0))
    assert np.isfinite(final_bound(CONSTANTS, rates(0.5), 0 * counts, heard, 3.0))


def test_scheduler_bounds():
    joule, budget = np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([1.0, 2.0])
    assert deviations(joule, budget).tolist() == [0.5, 2.0]
    zeta0 = 0.5 * (0.25 + 4)
    expected = 3 + np.sqrt(2 * 2 * (2 * zeta0 + 0.1 * 1.5 * 50))
    assert energy_bound(joule, budget, 0.1, np.array([1.0, 0.5]), 50) == pytest.approx(expected)
    assert reward_gap(joule, budget, 0.1) == pytest.approx(2 * zeta0 / 0.1 + 2 / 0.2 * 4.25)
