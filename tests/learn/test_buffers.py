"""Buffers are used again only when nobody looks at them any more."""

import pytest

from fedcell.errors import FedcellError
from fedcell.learn import memory
from fedcell.learn.buffers import Buffers


def test_used_again_when_free():
    buffers = Buffers()
    first = buffers.matrix(4, 5)
    where = first.data_ptr()
    del first
    assert buffers.matrix(2, 3).data_ptr() == where


def test_kept_rows_are_never_overwritten():
    buffers = Buffers()
    kept = buffers.matrix(4, 5).fill_(1.0)[2]
    for _ in range(3):
        buffers.matrix(4, 5).fill_(7.0)
    assert (kept == 1.0).all()


def test_grows():
    buffers = Buffers()
    small = buffers.matrix(1, 2)
    assert buffers.matrix(30, 40).shape == (30, 40)
    assert small.shape == (1, 2)


def test_what_cannot_fit_is_refused_with_the_bytes_it_needs(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * 999)
    assert Buffers().matrix(9, 111).shape == (9, 111)
    with pytest.raises(FedcellError, match=r"updates of 10 devices need 4\.44e\+03 bytes .* 4e\+03 are free"):
        Buffers().matrix(10, 111)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)  # a system that does not say
    assert Buffers().matrix(10, 111).shape == (10, 111)


def test_free_memory_is_known_here():
    free = memory.available_bytes()
    assert free is None or 1e6 < free < 1e15
