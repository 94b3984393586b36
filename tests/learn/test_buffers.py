"""Buffers are used again only when nobody looks at them any more."""

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
