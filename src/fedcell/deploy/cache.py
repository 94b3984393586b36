"""A `StreamingCache` on disk: what a device keeps of its stream survives a restart or a power cut."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ..errors import BadInput, FedcellError
from ..record.files import reason, write_atomic
from ..types import Ints
from ..world import StreamingCache


class DiskCache:
    """The cache of one device in one file; it takes every round once, and ignores a round that is offered again.

    Args:
        path: of the file, made on the first offer.
        capacity: samples to keep at most.
        rule: fifo, srsr, drsr or lazy.
        theta: weight of new label shares in [0, 1] (srsr).
        seed: of the choice among samples of one class.
    """

    def __init__(
        self,
        path: str | Path,
        capacity: int,
        rule: str = "drsr",
        theta: float = 2 / 3,
        seed: int = 0,
    ) -> None:
        self.path = Path(path)
        self.cache = StreamingCache(capacity, rule, theta, seed)
        self.next_round = 0  # the first round that has not been offered
        if self.path.exists():
            self._read()

    def offer(self, round: int, samples: np.ndarray, labels: np.ndarray) -> bool:
        """Let the rule decide which samples of a round to keep; return False if the round was offered before."""
        if round < self.next_round:
            return False
        self.cache.offer(samples, labels)
        self.next_round = round + 1
        self._write()
        return True

    def contents(self) -> tuple[np.ndarray, Ints]:
        """(samples, labels) held, in no particular order."""
        return self.cache.contents()

    def _read(self) -> None:
        try:
            state = load(self.path.read_bytes())
            self.cache.load_state_dict(state)
            self.next_round = int(state["next_round"][0])
        except OSError as error:
            raise FedcellError(f"cannot read {self.path}: {reason(error)}; make it readable and try again") from None
        except (SafetensorError, KeyError, ValueError, IndexError) as error:
            raise FedcellError(f"{self.path} is damaged ({error}): remove it, and the cache starts empty") from None
        except BadInput as error:
            raise BadInput(f"{self.path} does not fit ({error}): remove it, and the cache starts empty") from None

    def _write(self) -> None:
        state = {name: np.ascontiguousarray(value) for name, value in self.cache.state_dict().items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, save(state | {"next_round": np.array([self.next_round])}))
