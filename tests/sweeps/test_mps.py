"""NVIDIA's multi-process service around the workers of a sweep, with a made-up program in place of NVIDIA's."""

import os
from pathlib import Path

import pytest
import torch

from fedcell.errors import BadInput, FedcellError
from fedcell.sweeps import local, mps, runner
from fedcell.sweeps.task import Orders, SweepRun

PROGRAM = """#!/bin/sh
read -r word
echo "$* $word ${CUDA_VISIBLE_DEVICES-none} $CUDA_MPS_PIPE_DIRECTORY" >> BOOK
CODE
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """The calls of the program."""
    monkeypatch.setattr(mps, "USUAL", tmp_path / "nobody")
    monkeypatch.delenv(mps.PIPES, raising=False)
    monkeypatch.setenv(mps.ASKED, "1")
    monkeypatch.setenv(mps.VISIBLE, "2,3")
    return put(tmp_path, monkeypatch, "exit 0")


def put(tmp_path, monkeypatch, code):
    path = tmp_path / "bin" / mps.CONTROL
    path.parent.mkdir(exist_ok=True)
    path.write_text(PROGRAM.replace("BOOK", str(tmp_path / "book")).replace("CODE", code))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "book"


def test_it_starts_in_a_folder_of_its_own_and_quits(book):
    service = mps.start(1)
    assert service.environment == {mps.PIPES: service.home, mps.LOGS: service.home}
    assert Path(service.home).is_dir()
    service.quit()
    calls = [f"-d  none {service.home}", f" quit none {service.home}"]  # which name all GPUs
    assert book.read_text().splitlines() == calls
    assert not Path(service.home).exists()


def test_it_is_left_alone_unless_it_is_asked_for_and_missing(book, tmp_path, monkeypatch):
    assert not mps.start(0).environment, "no GPU"
    monkeypatch.setenv(mps.PIPES, "/elsewhere")
    assert not mps.start(1).environment, "somebody's own"
    monkeypatch.delenv(mps.PIPES)
    (tmp_path / "nobody").mkdir()
    (tmp_path / "nobody" / "control").touch()
    assert not mps.start(1).environment, "somebody's own in the usual place"
    monkeypatch.setenv(mps.ASKED, "0")
    (tmp_path / "nobody" / "control").unlink()
    service = mps.start(1)
    service.quit()
    assert not service.environment
    assert not book.exists()


def test_what_is_missing_or_fails_is_said(book, tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, "echo no such device >&2; exit 1")
    with pytest.raises(BadInput, match=r"could not be started \(no such device\): unset FEDCELL_MPS"):
        mps.start(1)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(mps, "MORE_PATHS", str(tmp_path))
    with pytest.raises(BadInput, match="FEDCELL_MPS=1 needs nvidia-cuda-mps-control"):
        mps.start(1)
    monkeypatch.setenv(mps.ASKED, "yes")
    with pytest.raises(BadInput, match="'yes' is neither 0 nor 1"):
        mps.start(1)


def test_a_service_that_does_not_quit_is_told(book, tmp_path, monkeypatch):
    service = mps.start(1)
    put(tmp_path, monkeypatch, "exit 1")
    with pytest.warns(UserWarning, match="did not quit"):
        service.quit()


def test_the_workers_of_a_sweep_share_it_and_it_ends_after_them(book, monkeypatch):
    seen = []

    class Fake:
        stopped = False

        def __init__(self, threads, place=None, gpu="", service=None):
            self.service = service

        def play(self, asked, orders):
            seen.append(self.service[mps.PIPES])
            yield "outcome", {"code": 0, "message": ""}

        def stop(self):
            pass

        def wait(self):
            seen.append("ended")

        close = stop

    monkeypatch.setattr(local, "Runner", Fake)
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(1 << 40, 1 << 40)])
    monkeypatch.setattr(local, "needed_bytes", lambda task, known: 0)
    tasks = [SweepRun(f"{number}", "", "", {}, {"rounds": 1}) for number in range(2)]
    ends = list(local.run(tasks, Orders(""), 2, lambda *given: None))
    assert [end.code for end in ends] == [0, 0]
    assert sorted(seen)[2:] == ["ended", "ended"]
    assert [line.split()[0] for line in book.read_text().splitlines()] == ["-d", "quit"]


def test_it_ends_even_if_nobody_waits_for_the_workers(book, monkeypatch):
    """As after a second Ctrl-C."""

    class Worker:
        def __init__(self, waiting, orders, threads, said, *given):
            said.put((None, FedcellError("the sweep ends")))

        def stop(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(local, "_Worker", Worker)
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(1 << 40, 1 << 40)])
    with pytest.raises(KeyboardInterrupt):
        list(
            local.run([SweepRun(name, "", "", {}, {"rounds": 1}) for name in "ab"], Orders(""), 2, lambda *given: None)
        )
    assert [line.split()[0] for line in book.read_text().splitlines()] == ["-d", "quit"]


def test_a_worker_that_shares_it_is_never_killed(monkeypatch):
    killed = []
    monkeypatch.delenv(mps.PIPES, raising=False)

    class Process:
        def kill(self):
            killed.append(True)

    for service in ({}, {mps.PIPES: "/tmp/x"}):
        one = runner.Runner(1, service=service)
        one.process = Process()
        one.kill()
    assert killed == [True]


def test_a_worker_without_a_gpu_does_not_train_on_the_cpu_instead(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(mps.ASKED, "1")
    assert not mps.is_broken(), "nobody started it"
    monkeypatch.setenv(mps.PIPES, "/tmp/x")
    assert mps.is_broken()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not mps.is_broken()
    monkeypatch.setenv(mps.ASKED, "what")
    assert not mps.is_broken()
