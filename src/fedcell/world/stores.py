"""Streams that feed the devices' stores; those that belong to a data set live with the data."""

from typing import Any

from ..types import Store, Stream


def static_stream(store: Store) -> Stream:
    """A stream that never brings anything: every device keeps what it starts with.

    Args:
        store: what every device holds, before the first round and ever after.
    """

    def start(seed: int) -> tuple[Store, Any]:
        return store, None

    def arrive(seed: int, round: int, held: Store, memory: Any) -> tuple[Store, Any]:
        return held, memory

    return Stream(start, arrive)
