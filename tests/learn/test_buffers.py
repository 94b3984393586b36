"""Buffers are used again only when nobody looks at them any more, and go to files where memory is short."""

from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcell import methods
from fedcell.errors import FedcellError
from fedcell.learn import memory
from fedcell.learn.buffers import Buffers
from fedcell.methods.parts.contributions import nothing, remember
from fedcell.methods.representativity.memory import blank
from fedcell.record import checkpoint, tree
from fedcell.simulate import SIMULATED, begin, simulate


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


@pytest.fixture
def little(monkeypatch):
    """A machine with so many bytes of memory left."""

    def leave(free):
        monkeypatch.setattr(memory, "ALWAYS_BYTES", 0)
        monkeypatch.setattr(memory, "available_bytes", lambda: free)

    return leave


def in_files():
    """Files without a name that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("(deleted)")


def test_what_does_not_fit_into_memory_lies_in_a_file(little):
    before = in_files()
    little(4 * 1000)
    inside = Buffers()
    assert inside.matrix(6, 111).shape == (6, 111)
    assert in_files() == before
    buffers = Buffers()
    matrix = buffers.matrix(9, 111).fill_(3.0)
    assert in_files() == before + 1
    assert matrix.sum() == 3 * 999
    where = matrix.data_ptr()
    del matrix
    assert buffers.matrix(9, 111).data_ptr() == where, "and is used again"
    del buffers
    assert in_files() == before, "nothing is left"


def test_what_cannot_fit_is_refused_with_the_bytes_it_needs(little, monkeypatch):
    def full(*_):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(memory.os, "posix_fallocate", full)
    little(4 * 999)
    needed = r"no room for the updates of 10 devices \(10 x 111 parameters x 4\): 4\.44e\+03 bytes are needed"
    there = r"4e\+03 are free in memory and .* in /.* \(no space left on device\): .* set TMPDIR"
    with pytest.raises(FedcellError, match=f"{needed}, {there}"):
        Buffers().matrix(10, 111)
    little(None)  # a system that does not say
    assert Buffers().matrix(10, 111).shape == (10, 111)


def test_a_real_disk_refuses_what_it_cannot_hold(little):
    little(1)
    with pytest.raises(FedcellError, match=r"4e\+18 bytes are needed"):
        Buffers().matrix(10**9, 10**9)


def test_what_devices_sent_last_is_refused_with_all_its_bytes(little, monkeypatch):
    def full(*_):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(memory.os, "posix_fallocate", full)
    little(1)
    kept = nothing(30, 10**6)
    with pytest.raises(FedcellError, match=r"the last updates of 30 devices, 1\.2e\+08 bytes in all: 4e\+06 bytes are"):
        remember(kept, np.arange(2), torch.ones(2, 10**6), np.ones(2, dtype=np.int64), np.ones(2))


def test_distances_of_too_many_devices_are_refused(little):
    little(10**9)
    with pytest.raises(
        FedcellError, match=r"distances of 100000 gradients .*: 8e\+10 bytes are needed, 1e\+09 are free"
    ):
        blank(100_000, 5)


def test_pairs_of_too_many_devices_and_bands_are_refused(small, little):
    problem = small({"world.access": "block", "world.n_blocks": "4"})
    method = methods.parse("recycling").build()
    begun = begin(problem, method)
    observation, _ = SIMULATED.observe(problem, begun)
    assert method.decide(problem, begun.method, observation).selected.any()
    little(8 * 6 * 4)
    with pytest.raises(
        FedcellError, match=r"what 6 devices could do on 4 bands \(6 x 4 x 6 x 8\): 1\.15e\+03 bytes are"
    ):
        method.decide(problem, begun.method, observation)


def test_copies_in_files_are_equal():
    for tensor in (torch.arange(5000).view(50, 100), torch.tensor([True, False]), torch.zeros(0, 3)):
        copy = memory.spilled(tensor, "numbers")
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)
        assert copy.data_ptr() != tensor.data_ptr() or not tensor.numel()


@pytest.mark.parametrize("text", ["osafl", "recycling", "pruning"])
def test_what_servers_keep_of_devices_may_lie_in_files(text, small, little, tmp_path):
    """The same bits, whole snapshots, and a run that resumes from a checkpoint, whatever lies where."""
    changes = {"world.access": "own_band"} if text == "osafl" else {"world.access": "block", "world.n_blocks": "6"}
    problem, method = small({"world.n_devices": "9", "model.name": "mlp", **changes}), methods.parse(text).build()
    expected = list(simulate(problem, method))
    before = in_files()
    little(8000)  # room for the small tables of decisions
    found = []
    for row, after in simulate(problem, method):
        found.append((row, after, tree.digest(*tree.pack(after, *checkpoint.Template.of(after)))))
    assert in_files() > before
    template = checkpoint.Template.of(begin(problem, method))
    for (row, after), (other, again, digest) in zip(expected, found, strict=True):
        assert row == other
        assert torch.equal(after.params, again.params)
        assert tree.digest(*tree.pack(again, *template)) == digest, "later rounds left it alone"
    checkpoint.save(tmp_path, found[1][1], template)
    del found, again, after
    assert in_files() == before, "nothing is left"
    restored = checkpoint.load(next(tmp_path.iterdir()), template)
    assert in_files() > before
    resumed = list(simulate(problem, method, restored))
    assert [row for row, _ in resumed] == [row for row, _ in expected[2:]]
    assert torch.equal(resumed[-1][1].params, expected[-1][1].params)


GIB, STATED = 2**30, "anon 1\ninactive_file {}\ntotal_inactive_file {}\n"
NEW, OLD = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")


@pytest.mark.parametrize(
    ("lines", "groups", "left"),
    [
        ("0::/\n", {".": (NEW, 5 * GIB, 3 * GIB, 0)}, 2),
        ("0::/\n", {".": (NEW, 5 * GIB, 3 * GIB, GIB)}, 3),
        ("0::/jobs/one\n", {"jobs": (NEW, 4 * GIB, GIB, 0), "jobs/one": (NEW, "max", GIB, 0)}, 3),
        ("0::/jobs/one\n", {"jobs": (NEW, 9 * GIB, GIB, 0), "jobs/one": (NEW, 2 * GIB, GIB, 0)}, 1),
        ("0::/not/mounted\n", {".": (NEW, 5 * GIB, 3 * GIB, 0)}, 2),
        ("2:cpu:/\n4:memory:/job\n0::/\n", {"memory/job": (OLD, 6 * GIB, 2 * GIB, GIB)}, 5),
        ("3:cpu,memory:/elsewhere\n", {"memory": (OLD, 6 * GIB, 2 * GIB, 0)}, 4),
        ("4:memory:/\n", {"memory": (OLD, 9223372036854771712, 2 * GIB, 0)}, 50),
        ("0::/\n", {}, 50),
        ("", {".": (NEW, 5 * GIB, 3 * GIB, 0)}, 50),
    ],
)
def test_limits_of_control_groups_are_seen(lines, groups, left, tmp_path, monkeypatch):
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {50 * 2**20} kB\n")
    (tmp_path / "self" / "cgroup").write_text(lines)
    for path, (names, most, used, dropped) in groups.items():
        folder = tmp_path / "groups" / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in zip((*names, "memory.stat"), (most, used, STATED.format(dropped, dropped)), strict=True):
            (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    assert memory.available_bytes() == left * GIB


def test_a_group_without_statistics_has_a_limit_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "self").mkdir()
    for name, text in (
        ("meminfo", f"MemAvailable: {2**20} kB"),
        ("self/cgroup", "0::/"),
        ("memory.max", "700"),
        ("memory.current", "200"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory.available_bytes() == 500


def test_free_memory_is_known_here():
    free = memory.available_bytes()
    assert free is None or 1e6 < free < 1e15
