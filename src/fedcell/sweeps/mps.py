"""NVIDIA's multi-process service for the runs of a sweep that share a GPU, if `FEDCELL_MPS=1` asks for it.

By itself a GPU gives its time to one process after the other, however little of it each fills. With the service,
kernels of several runs are on it at the same time. A sweep starts one in a folder of its own, unless one is there
already, and ends it when all workers have ended. A process that is killed while it uses the service can take the
others with it: workers are then only ever asked to stop.
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from warnings import warn

import torch

from ..errors import BadInput
from .runner import PIPES

ASKED = "FEDCELL_MPS"
CONTROL = "nvidia-cuda-mps-control"
MORE_PATHS = "/usr/local/nvidia/bin"  # where containers have the programs of the driver
LOGS, VISIBLE = "CUDA_MPS_LOG_DIRECTORY", "CUDA_VISIBLE_DEVICES"
USUAL = Path("/tmp/nvidia-mps")  # the pipes of a service that was started without naming a folder
PATIENCE_S = 30.0
BROKEN = f"no GPU answers through NVIDIA's multi-process service: unset {ASKED} and resume"


class Service:
    """A service that was started for the workers of a sweep, and their environment; empty if none was started."""

    def __init__(self, program: str = "", home: str = "") -> None:
        self.program, self.home = program, home

    @property
    def environment(self) -> dict[str, str]:
        return {PIPES: self.home, LOGS: self.home} if self.home else {}

    def quit(self) -> None:
        """End the service if one was started; all workers must have ended before."""
        if not self.home:
            return
        try:
            _call([self.program], self.home, "quit\n")
        except (OSError, subprocess.SubprocessError) as error:
            warn(f"{CONTROL} did not quit ({error}): end it yourself, its pipes are in {self.home}", stacklevel=2)
        else:
            shutil.rmtree(self.home, ignore_errors=True)


def is_asked() -> bool:
    """Whether the environment asks a sweep to start the service."""
    text = os.environ.get(ASKED, "")
    if text not in ("", "0", "1"):
        raise BadInput(f"{ASKED} = {text!r} is neither 0 nor 1: set it to one of them, or unset it")
    return text == "1"


def start(gpus: int) -> Service:
    """Start the service if it is asked for, there are GPUs, and no service runs yet."""
    if not is_asked() or not gpus or os.environ.get(PIPES) or (USUAL / "control").exists():
        return Service()
    program = shutil.which(CONTROL, path=os.pathsep.join([os.environ.get("PATH", ""), MORE_PATHS]))
    if program is None:
        raise BadInput(f"{ASKED}=1 needs {CONTROL}, a part of NVIDIA's driver: install it, or unset {ASKED}")
    home = tempfile.mkdtemp(prefix="fedcell-mps-", dir="/tmp")  # sockets need a short path
    try:
        _call([program, "-d"], home)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(home, ignore_errors=True)
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise BadInput(f"{CONTROL} could not be started ({said}): unset {ASKED}") from None
    return Service(program, home)


def is_broken() -> bool:
    """Whether this worker should use the service but sees no GPU through it, so that it would train on the CPU."""
    with suppress(BadInput):
        return is_asked() and PIPES in os.environ and not torch.cuda.is_available()
    return False


def _call(command: list[str], home: str, text: str = "") -> None:
    """Run a command of the service without `CUDA_VISIBLE_DEVICES`: it needs the GPUs as the system numbers them.

    The output goes to a file, because the daemon that is left behind would keep a pipe open.
    """
    environment = {key: value for key, value in os.environ.items() if key != VISIBLE} | {PIPES: home, LOGS: home}
    said = Path(home, "said.txt")
    with said.open("wb") as out:
        done = subprocess.run(
            command, input=text.encode(), env=environment, stdout=out, stderr=out, timeout=PATIENCE_S, check=False
        )
    if done.returncode:
        words = said.read_text(errors="replace").strip() if said.exists() else ""
        raise subprocess.CalledProcessError(done.returncode, command, stderr=words)
