"""Problems small enough to run in milliseconds."""

import os
from dataclasses import replace
from importlib.util import find_spec

import hypothesis
import pytest
from small_config import SMALL

from fedcell import machine
from fedcell.options import override
from fedcell.scenarios import build_problem

# A busy machine is not a bug. CI tries the same examples every time; at home they are new in every run.
hypothesis.settings.register_profile("fedcell", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("fedcell")


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


@pytest.fixture(scope="session")
def ray_cluster():
    """A local Ray cluster of two CPUs, started once for all tests that need one."""
    if find_spec("ray") is None:
        missing = pytest.fail if "FEDCELL_REQUIRE_RAY" in os.environ else pytest.skip
        missing("Ray is not installed: pip install 'fedcell[ray]'")
    leave = machine.connect(None, cpus=2, store_bytes=200 << 20)
    yield
    leave()
