"""Samples of request logs: kept as file numbers, expanded to feature rows when a batch is taken.

A log has a row of file numbers per user. The sample at place `i` of a row has the `i`-th request as its label and is
made of the requests before it, so that a log of integers and a table with one row per file replace all feature rows.
"""

from copy import copy
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...learn.samples import Samples
from ...types import Ints

if TYPE_CHECKING:
    from .features import FeatureTable


class RequestSamples(Samples):
    """`x` and `y` of a request log; sample `user * per_user + k` is the `k`-th of that user.

    Args:
        log: file numbers, `[n_users, lead + per_user]`.
        lead: requests at the start of a row that are no samples, at least as many as an input is made of.
        device: where batches are taken.
    """

    def __init__(self, log: NDArray[np.int32], lead: int, device: torch.device) -> None:
        self.lead, self.n_users, self.per_user = lead, len(log), log.shape[1] - lead
        self.labels = log[:, lead:].astype(np.int64).ravel()
        self.y = torch.from_numpy(self.labels).to(device)
        self._log = torch.from_numpy(log).to(device).reshape(-1)
        self._first_user = 0

    @property
    def device(self) -> torch.device:
        """Where batches are taken."""
        return self.y.device

    @property
    def log(self) -> Ints:
        """Every request, also those that are no samples, `[n_users, lead + per_user]`."""
        return self._log.reshape(self.n_users, -1).cpu().numpy().astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of everything kept, in bytes."""
        own = [part for part in vars(self).values() if isinstance(part, Tensor)]
        return self.labels.nbytes + getattr(self.inputs, "nbytes", 0) + sum(part.nbytes for part in own)

    def take(self, index: Ints | Tensor) -> tuple[Tensor, Tensor]:
        """(x, y) of the samples at a flat index array."""
        at = torch.as_tensor(index, device=self.device)
        return self.at(at), self.y[at]

    def user(self, index: Ints) -> Ints:
        """Who made the samples at an index array."""
        return self._first_user + index // self.per_user

    def of_user(self, user: int) -> Self:
        """The samples of one user, in the same memory."""
        part, row = copy(self), user - self._first_user
        part.n_users, part._first_user = 1, user
        own, requests = slice(row * self.per_user, (row + 1) * self.per_user), self.lead + self.per_user
        part.labels, part.y = self.labels[own], self.y[own]
        part.inputs = None if self.inputs is None else self.inputs[own]
        part._log = self._log[row * requests : (row + 1) * requests]
        return part

    def at(self, index: Tensor) -> Tensor:
        row = torch.div(index, self.per_user, rounding_mode="floor")
        return self._inputs(row, index + (row + 1) * self.lead)

    def ahead(self, n_samples: Ints) -> Tensor:
        """The input of the sample that follows the first `n_samples[k]` ones of each user, `[n_users, ...]`.

        It exists even if the log ends with these samples.
        """
        row = torch.arange(self.n_users, device=self.device)
        first = row * (self.lead + self.per_user) + self.lead
        return self._inputs(row, first + torch.as_tensor(n_samples, device=self.device))

    def _inputs(self, row: Tensor, place: Tensor) -> Tensor:
        """The inputs of samples at places of the flat log, which lie in (or just behind) the given rows of the log."""
        raise NotImplementedError


class FeatureSamples(RequestSamples):
    """The input is the feature row of (user, request before)."""

    def __init__(self, log: NDArray[np.int32], lead: int, table: "FeatureTable", device: torch.device) -> None:
        super().__init__(log, lead, device)
        self._file, self._user = (torch.from_numpy(part).to(device) for part in (table.file, table.user))
        self._columns = torch.from_numpy(table.user_columns).to(device)
        self._shape = table.shape
        before = log[:, lead - 1 : -1]  # the request that each sample is made of
        self.inputs = (np.arange(len(log), dtype=np.int32)[:, None] * len(table.file) + before).ravel()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def _inputs(self, row: Tensor, place: Tensor) -> Tensor:
        rows = self._file.index_select(0, self._log.index_select(0, place - 1))
        rows.index_copy_(1, self._columns, self._user.index_select(0, self._first_user + row))
        if len(self._shape) == 1:
            return rows
        channels, height, width = self._shape
        return rows.view(-1, height, width, channels).movedim(-1, 1)


class HistorySamples(RequestSamples):
    """The input is the last `length` requests as tokens, oldest first."""

    def __init__(self, log: NDArray[np.int32], lead: int, length: int, device: torch.device) -> None:
        super().__init__(log, lead, device)
        self._back = torch.arange(-length, 0, device=device)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self._back),)

    def _inputs(self, row: Tensor, place: Tensor) -> Tensor:
        window = place[:, None] + self._back
        return self._log.index_select(0, window.reshape(-1)).view(window.shape).float()
