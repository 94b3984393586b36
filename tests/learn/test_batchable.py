"""The LSTM cell for many models. Its kernels are CUDA's; here formulas of the same contract stand in for them."""

import pytest
import torch
from torch.func import grad, vmap

from fedcell.learn.engines.gpu import batchable


def step(drive, recurrent, cell):
    """(state, cell, gates) as the kernel gives them."""
    gate_in, forget, update, out = (drive + recurrent).chunk(4, 1)
    gate_in, forget, update, out = gate_in.sigmoid(), forget.sigmoid(), update.tanh(), out.sigmoid()
    after = forget * cell + gate_in * update
    return out * after.tanh(), after, torch.cat([gate_in, forget, update, out], 1)


def step_back(by_state, by_cell, cell, after, gates):
    """Gradients of the gates' inputs and of the cell before."""
    gate_in, forget, update, out = gates.chunk(4, 1)
    whole = by_cell + by_state * out * (1 - after.tanh() ** 2)
    towards = (
        whole * update * gate_in * (1 - gate_in),
        whole * cell * forget * (1 - forget),
        whole * gate_in * (1 - update**2),
        by_state * after.tanh() * out * (1 - out),
    )
    return torch.cat(towards, 1), whole * forget


@pytest.fixture
def ours(monkeypatch):
    monkeypatch.setattr(batchable._Cell, "kernel", staticmethod(step))
    monkeypatch.setattr(batchable._CellBackward, "kernel", staticmethod(step_back))
    return lambda *given: score(*batchable._Cell.apply(*given)[:2])


def score(state, after):
    return (state**2).sum() + (after**3).sum()


def plain(*given):
    return score(*step(*given)[:2])


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, 0), (1, 0, None)])
def test_cells_of_many_models_have_the_gradients_of_each(ours, in_dims):
    torch.manual_seed(0)
    shapes = ((4, 8), (4, 8), (4, 2))
    given = [
        torch.randn(shape, dtype=torch.float64)
        if dim is None
        else torch.randn(3, *shape, dtype=torch.float64).movedim(0, dim)
        for shape, dim in zip(shapes, in_dims, strict=True)
    ]
    found, wanted = (vmap(grad(loss, argnums=(0, 1, 2)), in_dims)(*given) for loss in (ours, plain))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_one_model_alone(ours):
    torch.manual_seed(1)
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 8), (4, 8), (4, 2))]
    for one, other in zip(*(torch.autograd.grad(loss(*given), given) for loss in (ours, plain)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
