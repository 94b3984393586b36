"""What every runner has in common: the stored work, the networks, plain local training, and how it reports.

A runner is a process of its own: `python runner_NAME.py TASK.npz --rounds 5 --threads 2 --out final.npy`. It does the
stored rounds from the stored start on the stored mini-batches, on a CPU or with `--device cuda`, and prints one JSON
line for its start, for every round and for its end. Needs NumPy alone; PyTorch only if a network is asked for.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn

MARK = "peer"  # key of the lines that count; frameworks print lines of their own
BEGUN = "PEERS_BEGUN_S"  # environment: when the driver started the process, seconds of time.time()
GATE = "PEERS_GATE"  # environment: wait for a line on stdin before the first round
_IMPORTED_S = time.time()


class Stored(NamedTuple):
    """The work of a task, as the driver wrote it."""

    about: dict[str, Any]  # model, lr, steps, batch_size, n_clients, seed, ...
    x: NDArray[np.float32]  # [n_samples, ...]
    y: NDArray[np.int64]  # [n_samples]
    start: NDArray[np.float32]  # [n_params]
    cohort: NDArray[np.int64]  # [n_rounds, n_selected], who trains
    batches: NDArray[np.int64]  # [n_rounds, n_selected, steps, batch_size], sample indices

    @staticmethod
    def read(path: str | Path, samples: bool = True) -> "Stored":
        """Read a task; without samples for a server that trains nothing itself."""
        with np.load(path, allow_pickle=False) as file:
            x, y = (file["x"], file["y"]) if samples else (np.empty((0, 1), np.float32), np.empty(0, np.int64))
            rest = {name: file[name] for name in ("start", "cohort", "batches")}
            return Stored(json.loads(str(file["about"])), x, y, **rest)

    def write(self, path: str | Path) -> None:
        arrays = {name: getattr(self, name) for name in ("x", "y", "start", "cohort", "batches")}
        np.savez(path, about=np.array(json.dumps(self.about)), **arrays)


class Options(NamedTuple):
    """The command line of a runner."""

    task: Path
    rounds: int
    threads: int
    out: Path
    setting: dict[str, str]  # of this framework, such as processes=2
    device: str  # cpu or cuda
    keep: int  # after so many rounds the model is what is left in `out`

    @property
    def channels_last(self) -> bool:
        return self.setting.get("layout") == "channels_last"


def options(doc: str | None) -> Options:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--setting", action="append", default=[], help="key=value of this framework")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--keep", type=int, help="leave the model of this round; the last one's by default")
    found = parser.parse_args()
    setting = dict(text.split("=", 1) for text in found.setting)
    keep = found.keep or found.rounds
    return Options(found.task, found.rounds, found.threads, found.out, setting, found.device, keep)


class Meter:
    """Prints when the first round begins, how long every round took, and leaves the final model."""

    def __init__(self, device: str = "cpu") -> None:
        self._device, self._since_s = device, 0.0
        self._began = False

    def begin(self) -> None:
        """A round begins."""
        if not self._began:
            say(startup_s=time.time() - float(os.environ.get(BEGUN, _IMPORTED_S)))
            self._began = True
            if GATE in os.environ and not sys.stdin.readline():
                sys.exit("not let go")
        self._since_s = time.perf_counter()

    def end(self) -> None:
        """It is over: the new global model is there."""
        if self._device == "cuda":
            import torch

            torch.cuda.synchronize()
        say(round_s=time.perf_counter() - self._since_s)

    def finish(self, out: Path, final: NDArray[np.float32]) -> None:
        np.save(out, final)
        say(peak_byte=high_water_byte("self"))


def say(**facts: float) -> None:
    print(json.dumps({MARK: 1, **facts}), flush=True)


def high_water_byte(process: str) -> int:
    """Peak resident memory of a process; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


# ---------------------------------------------------------------- PyTorch


def network(name: str, start: NDArray[np.float32] | None = None, channels_last: bool = False) -> "nn.Module":
    """The network of a task with the given start vector, in the order of `module.parameters()`."""
    import torch
    from networks import resnet, transformer
    from torch import nn

    parts: dict[str, list[nn.Module]] = {
        "logistic": [nn.Flatten(), nn.Linear(784, 10)],
        "lenet": [
            *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10)),
        ],
        # Deviation: without the two dropout layers of the original, whose masks no two frameworks share.
        "cifar": [
            *(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10)),
        ],
        "2nn": [*(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))],
        "resnet": resnet() if name == "resnet" else [],
        "transformer": transformer() if name == "transformer" else [],
    }
    module: Any = nn.Sequential(*parts[name])
    if start is not None:
        nn.utils.vector_to_parameters(torch.from_numpy(start.copy()), module.parameters())
    return module.to(memory_format=torch.channels_last) if channels_last else module


def as_vector(module: "nn.Module") -> NDArray[np.float32]:
    """The parameters of a module as one flat vector."""
    return np.concatenate([parameter.detach().cpu().numpy().ravel() for parameter in module.parameters()])


def tensors(stored: Stored, channels_last: bool = False, device: str = "cpu") -> "tuple[Tensor, Tensor]":
    """All samples as tensors."""
    import torch

    x, y = torch.from_numpy(stored.x).to(device), torch.from_numpy(stored.y).to(device)
    return x.to(memory_format=torch.channels_last) if channels_last and x.dim() == 4 else x, y


def full_precision() -> None:
    """No product rounds to TensorFloat-32, as PyTorch's convolutions on a GPU do unless told; fedcell's do not here."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def local_sgd(module: "nn.Module", x: "Tensor", y: "Tensor", batches: NDArray[np.int64], lr: float) -> None:
    """What most code does on a client: autograd and `torch.optim.SGD`, one step for each mini-batch."""
    import torch
    from torch.nn import functional

    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for batch in torch.from_numpy(batches).to(x.device):
        optimiser.zero_grad()
        functional.cross_entropy(module(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
