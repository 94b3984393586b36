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
from work import BEGUN, GATE, MARK, high_water_byte

HERE = Path(__file__).parent
TOKEN = "PEERS_RUN"  # environment: marks a run's process and all that it starts, wherever they hang in the tree
POLL_S = 0.25
READY_POLL_S = 0.05
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


class Started:
    """A process on its way to its first round: there it waits to be let go if it was started with a `gate`.

    What it prints goes to files beside `out`, so that it never waits for a reader.
    """

    def __init__(
        self,
        python: Path,
        peer: str,
        setting: str,
        task: Path,
        rounds: int,
        threads: int,
        out: Path,
        device: str = "cpu",
        keep: int = 0,
        gate: bool = False,
    ) -> None:
        self.peer, self.setting, self.rounds, self.out = peer, setting, rounds, out
        command = [str(python), str(HERE / f"runner_{peer}.py"), str(task)]
        command += ["--rounds", str(rounds), "--threads", str(threads), "--out", str(out), "--device", device]
        command += ["--keep", str(keep)] if keep else []
        for part in setting.split():
            command += ["--setting", part]
        self._token = uuid.uuid4().hex
        unset = THREADS if gate else UNSET  # this very interpreter runs with all that it has
        environment = {key: value for key, value in os.environ.items() if key not in unset}
        environment |= {TOKEN: self._token, BEGUN: repr(time.time())} | ({GATE: "1"} if gate else {})
        out.unlink(missing_ok=True)
        self._printed, self._errors = (out.with_suffix(f".{name}") for name in ("printed", "errors"))
        self._load = os.getloadavg()[0]
        self._watch: Watch | None = None if gate else Watch(self._token)
        with self._printed.open("wb") as printed, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE if gate else subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                start_new_session=True,
            )

    def wait_until_ready(self, until_s: float) -> None:
        """Wait until it is at the gate or has ended, or until that time of `time.monotonic()`."""
        while not self._facts()["startup_s"] and self._process.poll() is None and time.monotonic() < until_s:
            time.sleep(READY_POLL_S)

    def finish(self, patience_s: float = PATIENCE_S) -> tuple[Trial, NDArray[np.float32]]:
        """Let it go, and wait for its end; its trial and its final model."""
        load = os.getloadavg()[0] if self._watch is None else self._load
        watch = self._watch = self._watch or Watch(self._token)
        self._let_go(b"\n")
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise FailedRunError(
                f"{self.peer} took more than {patience_s:.0f} s: lower --rounds, or give more --seconds"
            ) from None
        finally:
            peak_byte = watch.stop()  # also ends what is left of it
            self._process.wait()
        facts, code = self._facts(), self._process.returncode
        if code or not self.out.exists() or len(facts["round_s"]) != self.rounds:
            how = f"status {code} after {len(facts['round_s'])} rounds"
            errors = self._errors.read_text(errors="replace").strip().splitlines()
            raise FailedRunError(f"{self.peer} ended with {how}: {(errors or ['no message'])[-1]}")
        peak_byte = max(peak_byte, facts["peak_byte"])
        return Trial(self.peer, self.setting, facts["startup_s"], facts["round_s"], peak_byte, load), np.load(self.out)

    def drop(self) -> None:
        """End a run that is not wanted; one that has ended stays as it is."""
        if self._process.poll() is None:
            self._let_go(b"")  # which ends it at its gate
            (self._watch or Watch(self._token)).stop()
            self._process.wait()

    def _let_go(self, word: bytes) -> None:
        if self._process.stdin and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(word)
                self._process.stdin.close()

    def _facts(self) -> dict[str, Any]:
        return read(self._printed.read_text(errors="replace"))


def run(
    python: Path, peer: str, setting: str, task: Path, rounds: int, threads: int, out: Path, device: str = "cpu"
) -> tuple[Trial, NDArray[np.float32]]:
    """Run a framework in its own environment; returns its trial and its final model."""
    started = Started(python, peer, setting, task, rounds, threads, out, device)
    try:
        return started.finish()
    finally:
        started.drop()


def read(printed: str) -> dict[str, Any]:
    """The facts in what a runner printed; frameworks print lines of their own between them."""
    facts: dict[str, Any] = {"startup_s": 0.0, "round_s": [], "peak_byte": 0}
    for line in printed.splitlines(keepends=True):
        if not line.startswith(f'{{"{MARK}"') or not line.endswith("\n"):  # the last may be half written
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
