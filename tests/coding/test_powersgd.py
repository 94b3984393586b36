"""PowerSGD: factors against a plain loop and the best approximation, what devices keep, and bits."""

import numpy as np
import pytest
import torch
from coding_rows import ENTRY, check_feedback, generator, made
from hypothesis import given
from hypothesis import strategies as st

from fedcell.coding import powersgd

LENET = ((6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (10, 256), (10,))
N_LENET = 6 * 25 + 6 + 16 * 150 + 16 + 2560 + 10


def for_shapes(shapes, **settings):
    return made("powersgd", **settings).for_network(shapes)


def random_row(n, seed=0):
    return torch.from_numpy(generator(seed).standard_normal(n)).float()


def sent(code, row, memory=None):
    """What the server gets of a row, and what the device remembers."""
    payload = code.encode(row, generator(1), memory)
    return code.decode(payload, len(row)), payload["right"]


def test_a_matrix_of_low_rank_and_vectors_come_back():
    left, right = random_row(20, 1).view(10, 2), random_row(60, 2).view(30, 2)
    row = torch.cat([(left @ right.T).flatten(), random_row(7, 3)])
    code = for_shapes(((10, 30), (7,)), rank=2)
    got, _ = sent(code, row)
    torch.testing.assert_close(got, row, rtol=1e-4, atol=1e-4)
    assert torch.equal(got[300:], row[300:]), "vectors are sent as they are"


def test_bits_by_hand():
    """Rank 2: kernels as 6 x 25 and 16 x 150, a dense layer of 10 x 256, and 32 biases."""
    code = for_shapes(LENET, rank=2)
    expected = (2 * (6 + 25) + 2 * (16 + 150) + 2 * (10 + 256) + 32) * 32
    payload = code.encode(random_row(N_LENET), generator())
    assert code.bits(payload, N_LENET, 32.0) == code.most_bit(N_LENET, 32.0) == expected
    assert sum(map(len, payload.values())) * 32 == expected
    assert code.n_memory == 2 * (25 + 150 + 256)
    assert code.n_kept(N_LENET) == N_LENET + code.n_memory


def test_matrices_that_factors_would_not_shorten_are_sent_as_they_are():
    code = for_shapes(((4, 4), (3, 3, 1, 1)), rank=2)
    row = random_row(25)
    assert torch.equal(code.decode(code.encode(row, generator()), 25), row)
    assert code.most_bit(25, 32.0) == 25 * 32
    assert code.n_memory == 0


@given(st.integers(0, 99), st.integers(1, 3))
def test_it_is_the_projection_of_a_plain_loop(seed, rank):
    """`P` by Gram and Schmidt in float64; the error is that of the closed form."""
    m, q = random_row(12 * 20, seed).view(12, 20), random_row(20 * rank, seed + 1000)
    code = for_shapes(((12, 20),), rank=rank)
    got, right = sent(code, m.flatten(), q)
    wide, basis = m.double().numpy(), []
    for column in (wide @ q.double().view(20, rank).numpy()).T:
        for other in basis:
            column = column - (column @ other) * other
        basis.append(column / np.linalg.norm(column))
    expected = sum(np.outer(one, wide.T @ one) for one in basis)
    np.testing.assert_allclose(got.view(12, 20).numpy(), expected, atol=1e-4)
    left = (wide**2).sum() - (right.double().numpy() ** 2).sum()
    assert float(((m - got.view(12, 20)) ** 2).sum()) == pytest.approx(left, rel=1e-3)


def test_the_warm_start_goes_towards_the_best_matrix_of_its_rank():
    row = random_row(16 * 150)
    code, memory, errors = for_shapes(((16, 150),), rank=2), None, []
    for _ in range(40):
        got, memory = sent(code, row, memory)
        errors.append(float((row - got).norm()))
    assert errors == sorted(errors, reverse=True) or max(np.diff(errors)) < 1e-4
    best = float(torch.linalg.svdvals(row.view(16, 150))[2:].norm())
    assert errors[0] > 1.02 * best
    assert errors[-1] == pytest.approx(best, rel=5e-3)


def test_devices_remember_their_right_factor_unless_they_keep_nothing():
    code, row = for_shapes(LENET), random_row(N_LENET)
    u, first = code.send(row, None, generator())
    assert u is row
    kept = torch.empty(code.n_kept(N_LENET))
    code.keep(u, first, code.decode(first, N_LENET), out=kept)
    torch.testing.assert_close(kept[:N_LENET], row - code.decode(first, N_LENET))
    assert torch.equal(kept[N_LENET:], first["right"])
    again = code.send(torch.zeros_like(row), kept, generator(5))[1]
    expected = code.encode(kept[:N_LENET], generator(6), first["right"])
    assert all(torch.equal(again[part], expected[part]) for part in again), "nothing is drawn any more"
    bare = for_shapes(LENET, feedback=False)
    assert (bare.n_memory, bare.n_kept(N_LENET), bare.memory) == (0, 0, None)
    drawn = [bare.send(row, None, generator(seed))[1]["left"] for seed in (0, 1)]
    assert not torch.equal(*drawn)


def test_a_round_of_zeros_stops_nothing():
    code, row = for_shapes(((10, 64),), rank=1), random_row(640)
    kept = torch.empty(code.n_kept(640))
    u, payload = code.send(torch.zeros(640), None, generator())
    code.keep(u, payload, code.decode(payload, 640), out=kept)
    assert torch.equal(kept, torch.zeros_like(kept))
    got = code.decode(code.send(row, kept, generator())[1], 640)
    assert float((row - got).norm()) < float(row.norm())


@given(st.lists(st.lists(ENTRY, min_size=60, max_size=60), min_size=1, max_size=6))
def test_what_is_sent_and_what_is_kept_are_all_updates(rows):
    assert made("powersgd").feedback
    check_feedback(for_shapes(((5, 10), (10,)), rank=1), rows)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [3, 642])
def test_numbers_that_are_not_finite_are_never_hidden(bad, place):
    code, row = for_shapes(((10, 64), (10,))), torch.arange(650.0)
    row[place] = bad
    assert not sent(code, row)[0].isfinite().all()


@pytest.mark.parametrize("wrong", [{"left": 19}, {"right": 129}, {"plain": 0}])
def test_payloads_that_make_no_sense_are_refused(wrong):
    sizes = {"left": 20, "right": 128, "plain": 10}
    payload = {name: torch.ones(size) for name, size in (sizes | wrong).items() if size}
    with pytest.raises(ValueError, match=r"numbers of a row of 650, not \{'plain': 10, 'left': 20, 'right': 128\}"):
        for_shapes(((10, 64), (10,))).decode(payload, 650)
    assert powersgd.layers(2, ((10, 64), (10,))).sizes(650) == {"plain": 10, "left": 20, "right": 128}
