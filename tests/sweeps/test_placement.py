"""Runs of a sweep on GPUs that are numbers here: who begins when, and what a run is thought to need."""

import time
from collections import deque
from threading import Lock, Thread

import pytest

from fedcell import options, scenarios
from fedcell.sweeps import local, placement
from fedcell.sweeps.task import Orders, SweepRun

GIB = 1 << 30


def task(number, gib=0.0, settings=None, **changes):
    config = options.override(scenarios.get("cell").config, {"train.gpu_gib": gib, "seed": number, **changes})
    return SweepRun(f"cell-seed{number}/fedavg", "fedavg", "fedavg", settings or {}, options.to_dict(config))


def need(one):
    return placement.needed_bytes(one, {})


# ---------------------------------------------------------------- who begins when


class FakeRunner:
    """Takes as long as a run, and keeps the books of all GPUs."""

    lock, used, most, seen = Lock(), {}, {}, []

    def __init__(self, threads, place=None, gpu="", service=None):
        self.gpu, self.stopped = gpu, False

    def play(self, asked, orders):
        gib = asked["config"]["train"]["gpu_gib"]
        with self.lock:
            self.seen.append(asked["name"])
            self.used[self.gpu] = self.used.get(self.gpu, 0.0) + gib
            self.most[self.gpu] = max(self.most.get(self.gpu, 0.0), self.used[self.gpu])
        time.sleep(0.05)
        with self.lock:
            self.used[self.gpu] -= gib
        yield "outcome", {"code": 0, "message": ""}

    def stop(self):
        self.stopped = True

    def wait(self):
        pass

    close = kill = wait


@pytest.fixture
def fake(monkeypatch):
    for book in (FakeRunner.used, FakeRunner.most, FakeRunner.seen):
        book.clear()
    monkeypatch.setattr(local, "Runner", FakeRunner)
    return FakeRunner


def test_runs_share_a_gpu_as_far_as_its_memory_goes(fake, monkeypatch):
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(10 * GIB, 16 * GIB)])
    tasks = [task(number, 4.0) for number in range(8)]
    ended = list(local.run(tasks, Orders("."), 6, lambda *_: None))
    assert {one.task.name for one in ended} == {one.name for one in tasks}
    assert fake.most == {"0": 8.0}


def test_a_run_larger_than_a_gpu_gets_one_alone_and_small_ones_do_not_wait_for_it(fake, monkeypatch):
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(10 * GIB, 16 * GIB)])
    tasks = [task(1, 6.0), task(2, 30.0), task(3, 3.0)]
    assert len(list(local.run(tasks, Orders("."), 3, lambda *_: None))) == 3
    assert fake.most == {"0": 30.0}
    assert fake.seen[-1] == tasks[1].name


def test_workers_are_spread_over_the_gpus_that_this_process_sees(fake, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(5 * GIB, 8 * GIB)] * 2)
    list(local.run([task(number, 4.0) for number in range(6)], Orders("."), 4, lambda *_: None))
    assert fake.most == {"2": 4.0, "5": 4.0}


def test_without_a_gpu_nobody_waits_and_nothing_is_estimated(fake, monkeypatch):
    monkeypatch.setattr(local, "needed_bytes", lambda *_: pytest.fail("nobody asked"))
    assert len(list(local.run([task(number) for number in range(5)], Orders("."), 2, lambda *_: None))) == 5
    assert set(fake.used) == {""}


def test_a_run_whose_problem_cannot_be_built_is_begun_and_reports_it_itself(fake, monkeypatch):
    monkeypatch.setattr(local, "gpu_bytes", lambda: [(10 * GIB, 16 * GIB)])
    tasks = [task(1, **{"data.name": "gone.npz"}), task(2, 4.0), task(3, **{"data.name": "gone.npz"})]
    known = {}
    assert placement.needed_bytes(tasks[0], known) == 0
    assert list(known.values()) == [0], "which is not found out again"
    ended = []
    sweep = Thread(target=lambda: ended.extend(local.run(tasks, Orders("."), 2, lambda *_: None)), daemon=True)
    sweep.start()
    sweep.join(30)
    assert {one.task.name for one in ended} == {one.name for one in tasks}, "the sweep hangs"


def test_a_worker_that_is_stopped_takes_no_run():
    waiting = deque([task(1, 1.0)])
    places = placement.Places([GIB], need)
    assert places.next_run(0, waiting, lambda: True) is None
    assert places.next_run(0, waiting, lambda: False).name == "cell-seed1/fedavg"
    assert places.next_run(0, waiting, lambda: False) is None


# ---------------------------------------------------------------- what a run needs


def test_the_setting_wins_and_a_cpu_needs_nothing(monkeypatch):
    monkeypatch.setattr(placement, "build_problem", lambda *_: pytest.fail("no need to look"))
    assert need(task(1, 2.5)) == 2.5 * GIB
    assert need(task(1, **{"train.device": "cpu"})) == 0


def test_the_estimate_grows_with_network_cohort_and_batch():
    """Against the sum written out; runs that differ in their seeds are looked at once."""
    small = task(1, **{"model.name": "logistic", "world.n_devices": 20, "train.batch_size": 8})
    found = need(small)
    row = 4 * (4 * 650 + 16 * 8 * 64)
    assert found == placement.CONTEXT_BYTES + 4 * 64 * 1797 + 2 * 4 * 20 * 650 + 2 * 20 * row
    assert need(task(1, **{"model.hidden": "512", "world.n_devices": 20, "train.batch_size": 8})) > found
    assert need(task(1, **{"model.name": "logistic", "world.n_devices": 40, "train.batch_size": 8})) > found
    assert need(task(1, **{"model.name": "logistic", "world.n_devices": 20, "train.batch_size": 64})) > found
    few = task(1, settings={"scheduler": "random", "n_selected": 5}, **{"model.name": "logistic"})
    assert need(few) < need(task(1, **{"model.name": "logistic"}))
    known = {}
    assert placement.needed_bytes(small, known) == placement.needed_bytes(small._replace(name="other"), known)
    assert len(known) == 1
    full = task(1, **{"model.name": "logistic", "train.batch_size": 0})
    assert need(full) > placement.CONTEXT_BYTES


def test_workers_of_a_cluster_ask_for_the_part_of_a_gpu_that_the_largest_run_needs(monkeypatch):
    tasks = [task(1, 3.0), task(2, 5.0)]
    monkeypatch.setattr(placement, "gpu_bytes", lambda: [(9 * GIB, 16 * GIB)])
    assert placement.share_of_gpu(tasks, 0.1) == 0.32
    assert placement.share_of_gpu(tasks, 0.5) == 0.5
    assert placement.share_of_gpu([task(1, 99.0)], 0.5) == 1.0
    assert placement.share_of_gpu(tasks, 0.0) == 0.0
    monkeypatch.setattr(placement, "gpu_bytes", list)
    assert placement.share_of_gpu(tasks, 0.25) == 0.25, "the GPUs are elsewhere"
