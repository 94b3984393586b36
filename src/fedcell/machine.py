"""The machine under a process: its cores, the threads that work on them, and the Ray cluster that it belongs to.

Ray is optional: nothing imports it before `connect` is called.
"""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from logging import ERROR
from threading import current_thread
from typing import Any

import torch

from .errors import BadInput

NAME = "fedcell"  # of the threads
STORE_BYTES = 100 << 20  # shared memory of a local cluster that only passes messages; Ray takes no less than 75 MiB
ANSWER_S = 5.0  # to wait for the head of a cluster
FIX = "start one with `ray start --head`, correct the address, or leave it out for a cluster of your own"
LOOPBACK = (
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0": listen on 127.0.0.1 alone, on any system; read when Ray is imported
)


# ---------------------------------------------------------------- cores and threads


def for_each(work: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """Call `work` on every item in `workers` threads (0: one per core), each with single-threaded kernels.

    A worker thread that calls this does all the work itself, because waiting for its own pool would deadlock. A single
    item also stays in the calling thread, because a pool would only delay it.
    """
    parts = list(items)
    if current_thread().name.startswith(NAME):
        for part in parts:
            work(part)
    elif len(parts) == 1:
        with one_thread():
            work(parts[0])
    else:
        for _ in _pool(workers or cores()).map(work, parts):
            pass


@contextmanager
def one_thread() -> Iterator[None]:
    """Make kernels of the calling thread single-threaded while the context lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def precision(tf32: bool) -> Iterator[None]:
    """Allow or forbid TensorFloat-32 in products on a GPU while the context lasts."""
    products: Any = torch.backends.cuda.matmul
    convolutions: Any = torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        products.allow_tf32 = convolutions.allow_tf32 = tf32
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def cores() -> int:
    """Number of cores for this process: those that the system gives it, or `FEDCELL_CORES` if that is less."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = os.environ.get("FEDCELL_CORES", "")
    if not text:
        return given
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"FEDCELL_CORES = {text!r} is no number of cores: set it to 1 or more, or unset it")
    return min(int(text), given)


@lru_cache
def _pool(workers: int) -> ThreadPoolExecutor:
    torch.get_num_threads()  # the number of this thread is settled before others set theirs
    return ThreadPoolExecutor(workers, NAME, initializer=_single)


def _single() -> None:
    """Make kernels of a new thread single-threaded for good.

    PyTorch settles the number of a thread at its first parallel kernel, by what any thread has set last. So it is
    settled here, before it is set: else a worker takes as many threads as the main thread has by then, which takes
    longer and changes rounding.
    """
    torch.get_num_threads()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


# ---------------------------------------------------------------- the Ray cluster: joined, or a small one of our own


def require_ray(what: str) -> None:
    """Refuse what needs Ray if it is not installed."""
    if find_spec("ray") is None:
        raise BadInput(f"{what} needs Ray: pip install 'fedcell[ray]'")


def connected() -> bool:
    """Whether this process uses a cluster already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def connect(address: str | None, cpus: int, store_bytes: int | None = None) -> Callable[[], None]:
    """Connect this process to a Ray cluster; return a function that disconnects it.

    Args:
        address: `host:port` of a cluster to join, `auto` for the one of this machine; None: `RAY_ADDRESS` if it is
            set, else a cluster of this process alone, without dashboard or usage reports, on the loopback interface.
        cpus: CPUs of a cluster of our own.
        store_bytes: shared memory of a cluster of our own; None: as Ray chooses.
    """
    address = address or os.environ.get("RAY_ADDRESS") or None
    if not address or address == "local":
        os.environ.setdefault(LOOPBACK, "0")
    import ray

    if connected():
        _refuse_other(ray.get_runtime_context().gcs_address, address)
        return lambda: None  # whoever connected disconnects
    if address and address != "local":
        _join(address)
        return ray.shutdown
    return _start(cpus, store_bytes)


def per_worker(amounts: Sequence[float], workers: int) -> float:
    """The most of a resource that each of `workers` can have, given the amount on each node; below 1, workers share.

    >>> per_worker([8, 8], 4), per_worker([4, 4, 4], 4), per_worker([2], 3)
    (4.0, 2.0, 0.5)
    """
    whole = [int(amount) for amount in amounts]
    for share in range(max(whole, default=0), 0, -1):
        if sum(amount // share for amount in whole) >= workers:
            return float(share)
    return 1 / -(-workers // max(sum(whole), 1))


def shares(workers: int) -> tuple[float, float]:
    """(CPUs, GPUs) of each of `workers` on the cluster that this process is connected to; at most one GPU."""
    cpus, gpus = (_amounts(name) for name in ("CPU", "GPU"))
    return per_worker(cpus, workers), min(per_worker(gpus, workers), 1.0) if any(gpus) else 0.0


def count_cpus() -> int:
    """CPUs of the cluster that this process is connected to."""
    return max(int(sum(_amounts("CPU"))), 1)


def _amounts(resource: str) -> list[float]:
    """The amount of a resource on each node that is alive."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["Resources"].get(resource, 0.0) for node in nodes if node["Alive"]]


def _refuse_other(present: str, wanted: str | None) -> None:
    if wanted and wanted not in ("auto", "local", present):
        raise BadInput(f"this process uses the Ray cluster at {present}, not {wanted}: call ray.shutdown() first")


def check_answers(address: str | None) -> None:
    """Refuse an address where no cluster answers; Ray itself checks `auto`, `local` and an empty address."""
    address = address or os.environ.get("RAY_ADDRESS") or ""
    if address.startswith("ray://"):
        raise BadInput(f"address {address} is for Ray's remote client: run on a machine of the cluster, with HOST:PORT")
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        host = host.removeprefix("[").removesuffix("]")  # of an IPv6 address
        try:  # Ray itself would wait for a minute
            socket.create_connection((host, int(port)), ANSWER_S).close()
        except (OSError, OverflowError, ValueError) as error:  # no answer, no such port, no such host
            raise BadInput(f"no Ray cluster at {address} ({error}): {FIX}") from None


def _join(address: str) -> None:
    import ray

    check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"no Ray cluster at {address} ({str(error).splitlines()[0]}): {FIX}") from None


def _start(cpus: int, store_bytes: int | None) -> Callable[[], None]:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report its use over the network
    home = tempfile.mkdtemp(prefix="fedcell-ray-", dir="/tmp")  # sockets need a short path
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": ERROR}

    def leave() -> None:
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)

    try:
        ray.init(address="local", num_cpus=cpus, object_store_memory=store_bytes, _temp_dir=home, **options)
    except BaseException:
        leave()
        raise
    return leave
