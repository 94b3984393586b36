"""Products of small matrices against float64, and by which library they are made."""

import numpy as np
import pytest
import torch

from fedcell.learn.engines.cpu import products
from fedcell.learn.engines.cpu.products import product, subtract_product

SHAPES = {  # rows, inner, columns -> whether NumPy makes the product
    "few classes": ((10, 784, 32), True),
    "a small batch": ((40, 50, 10), True),
    "a batch of one": ((10, 1, 30), False),
    "nothing short": ((40, 50, 60), False),
    "wide, with a small batch": ((300, 200, 8), False),
    "few classes and much to do": ((10, 3000, 10), False),
}


def pair(rows, inner, columns):
    rng = torch.Generator().manual_seed(1)
    left, right = torch.randn(3, rows, inner, generator=rng), torch.randn(3, inner, columns, generator=rng)
    return left, right, torch.randn(3, rows, columns, generator=rng)


@pytest.fixture
def by_numpy(monkeypatch):
    """How many products NumPy has made."""
    made, matmul = [], np.matmul
    monkeypatch.setattr(products.np, "matmul", lambda *given: made.append(1) or matmul(*given))
    return made


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_product(shape, turned, by_numpy):
    size, expected = SHAPES[shape]
    left, right, plus = pair(*size)
    if turned:  # the same numbers, lying the other way round
        left, right = left.mT.contiguous().mT, right.mT.contiguous().mT
    exact = left.double() @ right.double()
    torch.testing.assert_close(product(left, right), exact.float(), rtol=1e-4, atol=1e-4)
    bias = plus[:, :, :1]
    torch.testing.assert_close(product(left, right, bias), (exact + bias).float(), rtol=1e-4, atol=1e-4)
    assert len(by_numpy) == (2 if expected else 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_subtract_product(shape, turned):
    (rows, inner, columns), _ = SHAPES[shape]
    left, right, plus = pair(rows, inner, columns)
    flat = torch.cat([plus.flatten(1), torch.ones(3, 5)], dim=1)  # as a layer lies in the row of a client
    into = flat[:, :-5].view(3, rows, columns)
    subtract_product(into, left, right.mT.contiguous().mT if turned else right)
    exact = plus.double() - left.double() @ right.double()
    torch.testing.assert_close(into, exact.float(), rtol=1e-4, atol=1e-4)
    assert (flat[:, -5:] == 1).all()


def test_large_products_are_left_to_the_worker(by_numpy):
    """NumPy would spread them over threads that other workers need."""
    left, right, into = pair(16, 1 << 12, 16)
    product(left, right)
    subtract_product(into, left, right)
    assert not by_numpy
