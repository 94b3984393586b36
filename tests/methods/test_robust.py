"""Robust aggregation: every rule against brute force, and what one wrong device of ten can do to it."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from fedcell import methods
from fedcell.errors import BadInput
from fedcell.methods import fedavg
from fedcell.methods.parts.robust import RULES, RobustConfig, cleaned, robust
from fedcell.methods.parts.robust.clipped import clipped
from fedcell.methods.parts.robust.geometric import geometric_median
from fedcell.methods.parts.robust.krum import kept_by_krum
from fedcell.methods.parts.robust.median import median
from fedcell.methods.parts.robust.trimmed import trimmed_mean
from fedcell.simulate import begin, simulate

matrices = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 7), st.integers(1, 4)),
    elements=st.floats(-100, 100, width=32),
)


@given(matrices)
def test_median_and_trimmed_mean_are_those_of_numpy_and_of_sorted_lists(rows):
    assert np.allclose(median(torch.from_numpy(rows)).numpy(), np.median(rows, axis=0), atol=1e-4)
    for trim in (0.0, 0.2, 0.4, 0.499):
        out = min(int(trim * len(rows)), (len(rows) - 1) // 2)
        expected = [np.mean(sorted(column)[out : len(column) - out]) for column in rows.T]
        assert np.allclose(trimmed_mean(torch.from_numpy(rows), trim).numpy(), expected, atol=1e-3)


@given(matrices, st.integers(0, 3), st.integers(0, 3))
def test_krum_is_its_definition(rows, n_wrong, n_kept):
    n, x = len(rows), rows.astype(np.float64)
    scores = []
    for i in range(n):
        distances = sorted(float(((x[i] - x[j]) ** 2).sum()) for j in range(n) if j != i)
        scores.append(sum(distances[: max(n - n_wrong - 2, 1)]))
    wanted = min(n_kept or max(n - n_wrong, 1), n)
    kept = kept_by_krum(torch.from_numpy(rows), n_wrong, n_kept)
    assert kept.sum() == wanted
    worst_kept = max(np.array(scores)[kept])
    assert worst_kept <= sorted(scores)[wanted - 1] * (1 + 1e-9) + 1e-12, "nobody with a lower score is left out"


@given(matrices, st.floats(0.1, 3))
def test_clipping_shortens_and_turns_nothing(rows, times):
    found = clipped(torch.from_numpy(rows), times).numpy().astype(np.float64)
    length = np.linalg.norm(rows.astype(np.float64), axis=1)
    limit = times * np.median(length)
    assert np.allclose(np.linalg.norm(found, axis=1), np.minimum(length, limit), rtol=1e-4, atol=1e-5)
    for before, after, size in zip(rows, found, length, strict=True):
        assert np.allclose(after * max(size, 1e-30), before * np.linalg.norm(after), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_geometric_median_minimises_the_sum_of_distances(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, 3)).astype(np.float32)
    rows[0] += 100

    def total(point):
        return np.linalg.norm(rows - point, axis=1).sum()

    best = minimize(total, rows[1:].mean(axis=0), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    found = geometric_median(torch.from_numpy(rows)).numpy()
    assert total(found) <= best.fun * (1 + 1e-5)
    assert torch.equal(geometric_median(torch.ones(3, 2)), torch.ones(2))


@pytest.mark.parametrize("rule", RULES)
def test_one_row_of_ten_moves_no_rule_far(rule):
    """The mean moves without bound; every rule stays among the honest rows."""
    rng = np.random.default_rng(3)
    rows = torch.from_numpy(rng.normal(1.0, 0.1, size=(10, 20)).astype(np.float32))
    for wrong in (1e30, -1e30, 50.0, -50.0):
        spoiled = rows.clone()
        spoiled[4] = wrong
        found, kept = cleaned(RobustConfig(rule=rule), spoiled)
        centre = found[torch.from_numpy(kept)].mean(dim=0)
        assert (centre - 1).abs().max() < (0.25 if rule != "clip" else 0.45), "clip: one of ten, of usual length"


def test_krum_leaves_out_every_pair_of_wrong_rows():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32))
    for pair in combinations(range(8), 2):
        spoiled = rows.clone()
        spoiled[list(pair)] += 40
        assert not kept_by_krum(spoiled, 2, 0)[list(pair)].any()


def test_a_rule_without_effect_is_fedavg(small):
    """Nothing trimmed, nobody wrong, nothing clipped; with equal weights that is the mean."""
    plain = fedavg.build(fedavg.Config(weights="equal"))
    expected = [after.params for _, after in simulate(small(), plain)]
    for config in (
        RobustConfig("trimmed", trim=0.0),
        RobustConfig("krum", n_wrong=0),
        RobustConfig("clip", clip=1e6),
    ):
        found = [after.params for _, after in simulate(small(), robust(plain, config))]
        for left, right in zip(found, expected, strict=True):
            assert torch.allclose(left, right, atol=1e-6)


def test_what_is_no_update_is_refused_and_any_method_that_sends_updates_goes(small):
    with pytest.raises(BadInput, match=r"does not go with knowledge: .* send class means"):
        robust(methods.parse("knowledge").build(), RobustConfig(), "knowledge")
    for name in ("osafl", "recycling", "scaffold", "cafe:quorum=1"):
        method = robust(methods.parse(name).build(), RobustConfig("krum"))
        begin(small(), method)
        rows = [row for row, _ in simulate(small(), method)]
        assert np.isfinite([row.metrics["loss"] for row in rows if "loss" in row.metrics]).all()
