"""Problems small enough to run in milliseconds."""

import gc
import os
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import forked
import hypothesis
import pytest
import torch
from matplotlib.figure import Figure
from small_config import SMALL

from fedcell import machine
from fedcell.experiment import pool
from fedcell.learn import deferred
from fedcell.learn.engines import batched
from fedcell.learn.engines.cpu import native
from fedcell.options import override
from fedcell.scenarios import build_problem

# A busy machine is not a bug. CI tries the same examples every time; at home they are new in every run.
hypothesis.settings.register_profile("fedcell", deadline=None, derandomize="CI" in os.environ, max_examples=50)
hypothesis.settings.load_profile("fedcell")


if "PYTEST_XDIST_WORKER" in os.environ:  # two threads in each of two processes would wait for one another
    torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nobody looks for garbage, again and again, among what PyTorch and the collected tests are made of."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


ALLOCATOR = {  # the heap keeps what it has: to ask for a page and clear it takes longer than most tests use it
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


def pytest_configure(config):
    """Say it to NumPy, too, which looks when it is loaded: before the processes start that will have it from here.

    A machine without pytest-xdist knows no groups, and a mark that nobody knows is an error.
    """
    config.addinivalue_line("markers", "xdist_group(name): tests that one process has")
    if config.getoption("numprocesses", None):
        for name, value in ALLOCATOR.items():
            os.environ.setdefault(name, value)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("FEDCELL_CORES", "1")  # so that a sweep starts other processes where a test asks for them


MEMORY = "/dev/shm"  # where there is one, no disk is waited for: every record is synchronised with it several times
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082"
)


@pytest.fixture(autouse=True)
def _the_same_draws_every_time():
    """Tests that draw from PyTorch's own stream see the same numbers in every run and order."""
    # without a GPU `torch.manual_seed` notes for later what it would seed, with the whole call stack
    (torch if torch.cuda.is_available() else torch.default_generator).manual_seed(0)


@pytest.fixture(autouse=True)
def _figures_are_composed(request, monkeypatch):
    """A PNG figure is made with all its lines and texts; it is rendered, for 0.4 s, only if a test says so."""
    if request.node.get_closest_marker("rendered"):
        return
    render = Figure.savefig

    def savefig(self, out, *given, format=None, **options):
        if (format or Path(out).suffix[1:]) != "png":
            render(self, out, *given, format=format, **options)
        elif hasattr(out, "write"):
            out.write(PIXEL)
        else:
            Path(out).write_bytes(PIXEL)

    monkeypatch.setattr(Figure, "savefig", savefig)


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
def ray_nodes():
    """A Ray cluster of two nodes, each of processes of its own on 127.0.0.1, with a CPU and a made-up GPU."""
    if find_spec("ray") is None:
        missing = pytest.fail if "FEDCELL_REQUIRE_RAY" in os.environ else pytest.skip
        missing("Ray is not installed: pip install 'fedcell[ray]'")
    os.environ.setdefault(machine.LOOPBACK, "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray._private import services
    from ray.cluster_utils import Cluster

    # Ray waits a second for what it ends. On a busy machine that is too short, and the process would be found "still
    # running" when its handle is collected, in a test that has nothing to do with Ray and fails by that warning.
    services.ConsolePopen.__del__ = lambda handle: None
    quiet = {"include_dashboard": False, "include_log_monitor": False}
    node = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 100 << 20, **quiet}
    for attempts_left in (2, 1, 0):  # Ray gives a node 30 s to start, which a busy disk may take
        cluster = Cluster()
        try:
            cluster.add_node(**node)
            cluster.add_node(**node)
            break
        except Exception:
            cluster.shutdown()
            if not attempts_left:
                raise
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="session")
def ray_cluster(ray_nodes):
    """Be connected to that cluster, which all tests share that need one."""
    leave = machine.connect(ray_nodes.address, cpus=2)
    yield ray_nodes
    leave()


# ---------------------------------------------------------------- tests that share what is slow to start


@pytest.fixture
def forked_pool(monkeypatch):
    """Runs of experiments side by side, in processes that are forked: those that a user gets import all, for 2 s each.

    Tests without it hold that such processes find the modules of a paper, and that they have one thread.
    """
    monkeypatch.setattr(pool, "get_context", lambda method: forked.CONTEXT)


@pytest.fixture(scope="session")
def compiler():
    """Skip what needs a C++ compiler. A fixture, so that not every process that collects the tests compiles kernels."""
    if native.library(native.IMAGES) is None:
        pytest.skip("no compiler")


@pytest.fixture
def no_compiler(monkeypatch):
    """Kernels of PyTorch alone, as on a machine without a C++ compiler."""
    monkeypatch.setenv("FEDCELL_COMPILER", "none")
    native.library.cache_clear()
    yield
    native.library.cache_clear()


SHARED = {"ray_nodes", "federation", "browser"}  # fixtures: one process has all their tests, and waits most of the time
SLOW = (  # files that the others begin with, so that no process is left alone with one at the end
    "test_site.py",
    "test_cell_plan.py",
    "test_docs.py",
    "test_method_contract.py",
    "test_extremes.py",
    "test_cli.py",
    "test_rounds.py",
    "test_examples.py",
    "test_federation.py",
    "test_sweep.py",
    "test_notebooks.py",
    "test_running_statistics.py",
    "test_tasks.py",
    "test_by_lot.py",
    "test_norm.py",
)
ALONE = Path(__file__).parent / "sweeps"  # where `make test` looks for tests that run alone


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """With `--dist loadgroup` one process has all tests of a file, and one those with a fixture in `SHARED`."""
    for item in items:
        if item.get_closest_marker("alone") and ALONE not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} runs alone: move it to {ALONE}, where `make test` looks for it")
        _put_into("shared" if _shares(item) else item.nodeid.partition("::")[0], item)
    items.sort(key=_turn)


def _put_into(group, item):
    """Mark the test, and write the group behind its name: with pytest 9.2 the mark alone does nothing.

    The scheduler reads the group from the name of a test, and pytest no longer looks at the name that pytest-xdist 3.8
    writes there (its issue 1386). Without groups every process starts a cluster, a federation and a browser of its own.
    """
    item.add_marker(pytest.mark.xdist_group(group))
    if "PYTEST_XDIST_WORKER" in os.environ and hasattr(item, "_id"):
        item._id = type(item._id).parse(f"{item.nodeid}@{group}")


def _turn(item):
    """Tests that share something come first, those that run alone last: they let go of a cluster that others share."""
    if item.get_closest_marker("alone"):
        return len(SLOW) + 1
    return -1 if _shares(item) else SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW)


def _shares(item):
    return not SHARED.isdisjoint(getattr(item, "fixturenames", ()))
