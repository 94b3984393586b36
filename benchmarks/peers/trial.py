"""One run of one framework on one task: start its process, watch its memory, read what it printed."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from work import BEGUN, MARK, high_water_byte

HERE = Path(__file__).parent
TOKEN = "PEERS_RUN"  # environment: marks a run's process and all that it starts, wherever they hang in the tree
POLL_S = 0.25
PATIENCE_S = 280.0
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "FEDCELL_CORES")  # each runner sets its own
UNSET = (*THREADS, "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # peers come compiled, and so may fedcell's sources


class Trial(NamedTuple):
    """What one run took."""

    peer: str
    setting: str  # of the framework, such as "processes=2 layout=channels_last"
    startup_s: float  # from the start of the process to that of the first round
    round_s: list[float]
    peak_byte: int  # largest sum, over the processes alive at one time, of their peak resident memory
    load_before: float

    @property
    def steady_s(self) -> float:
        """Seconds of a round once everything is warm: the median of all but the first."""
        return median(self.round_s[1:])

    @property
    def warm_up_s(self) -> float:
        """What the first round took longer than the others: compilers, pools, imports in workers."""
        return max(0.0, self.round_s[0] - self.steady_s)


class FailedRunError(Exception):
    """A run that ended without its result."""


def run(
    python: Path, peer: str, setting: str, task: Path, rounds: int, threads: int, out: Path, device: str = "cpu"
) -> tuple[Trial, NDArray[np.float32]]:
    """Run a framework in its own environment; returns its trial and its final model."""
    command = [str(python), str(HERE / f"runner_{peer}.py"), str(task)]
    command += ["--rounds", str(rounds), "--threads", str(threads), "--out", str(out), "--device", device]
    for part in setting.split():
        command += ["--setting", part]
    out.unlink(missing_ok=True)
    token, load = uuid.uuid4().hex, os.getloadavg()[0]
    unset = UNSET if device == "cpu" else THREADS  # on a GPU this interpreter runs with all that it has
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {TOKEN: token, BEGUN: repr(time.time())}
    watch = Watch(token)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise FailedRunError(f"{peer} took more than {PATIENCE_S:g} s: lower --rounds") from None
    finally:
        peak_byte = watch.stop()  # also ends what is left of it
    facts = read(printed)
    if process.returncode or not out.exists() or len(facts["round_s"]) != rounds:
        how = f"status {process.returncode} after {len(facts['round_s'])} rounds"
        raise FailedRunError(f"{peer} ended with {how}: {(errors.strip().splitlines() or ['no message'])[-1]}")
    peak_byte = max(peak_byte, facts["peak_byte"])
    return Trial(peer, setting, facts["startup_s"], facts["round_s"], peak_byte, load), np.load(out)


def read(printed: str) -> dict[str, Any]:
    """The facts in what a runner printed; frameworks print lines of their own between them."""
    facts: dict[str, Any] = {"startup_s": 0.0, "round_s": [], "peak_byte": 0}
    for line in printed.splitlines():
        if not line.startswith(f'{{"{MARK}"'):
            continue
        said = json.loads(line)
        facts["round_s"] += [said["round_s"]] if "round_s" in said else []
        facts |= {key: said[key] for key in ("startup_s", "peak_byte") if key in said}
    return facts


class Watch:
    """Adds up the peak resident memory of all processes of a run until it is stopped, and ends those that are left."""

    def __init__(self, token: str) -> None:
        self._mark = f"{TOKEN}={token}".encode()
        self._strangers: set[str] = set()
        self._peak_byte, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Bytes at the peak."""
        self._over.set()
        self._thread.join()
        for process in self._family():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        return self._peak_byte

    def _work(self) -> None:
        while not self._over.wait(POLL_S):
            self._peak_byte = max(self._peak_byte, sum(high_water_byte(process) for process in self._family()))

    def _family(self) -> list[str]:
        found = []
        for process in filter(str.isdecimal, os.listdir("/proc")):
            if process in self._strangers:
                continue
            if self._mark in _environment(process):
                found.append(process)
            else:
                self._strangers.add(process)
        return found


def _environment(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return b""
