"""Problems small enough to run in milliseconds."""

import os
from dataclasses import replace
from importlib.util import find_spec

import hypothesis
import pytest
import torch
from small_config import SMALL

from fedcell import machine
from fedcell.learn import deferred
from fedcell.learn.engines import batched
from fedcell.options import override
from fedcell.scenarios import build_problem

# A busy machine is not a bug. CI tries the same examples every time; at home they are new in every run.
hypothesis.settings.register_profile("fedcell", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("fedcell")


if "PYTEST_XDIST_WORKER" in os.environ:  # two threads in each of two processes would wait for one another
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small():
    """Build a small problem: `small({"world.n_devices": 3})`; equal settings are built once."""
    built = {}

    def build(changes=None, **parts):
        config = replace(override(SMALL, changes or {}), **parts)
        if config not in built:
            built[config] = build_problem(config)
        return built[config]

    return build


@pytest.fixture
def in_blocks(monkeypatch):
    """Make all cohorts large ones, trained in blocks of so many rows per worker."""

    def make(rows):
        monkeypatch.setattr(deferred, "BLOCK_BYTES", 0)
        monkeypatch.setattr(deferred, "PER_WORKER", rows)
        monkeypatch.setattr(deferred, "GROUP", 2)

    monkeypatch.setattr(batched, "rows_per_chunk", lambda architecture: 2)

    return make


@pytest.fixture(scope="session")
def ray_cluster():
    """A local Ray cluster of two CPUs, started once for all tests that need one."""
    if find_spec("ray") is None:
        missing = pytest.fail if "FEDCELL_REQUIRE_RAY" in os.environ else pytest.skip
        missing("Ray is not installed: pip install 'fedcell[ray]'")
    leave = machine.connect(None, cpus=2, store_bytes=200 << 20)
    yield
    leave()
