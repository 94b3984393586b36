"""Totals of edge servers over a whole run, from the columns of its rounds; empty for runs without them."""

from collections.abc import Mapping
from typing import Any

COLUMNS = ("requests", "request_bit", "hit_ratio", "video_backhaul_bit", "fetch_bit", "delivery_s")
MARK = "video_backhaul_bit"  # a column that only runs with edge servers have
NAMES = ("hit_ratio", "saved_share", "video_backhaul_bit", "fetch_bit", "delivery_s")


def served(columns: Mapping[str, Any]) -> dict[str, float]:
    """The totals of a run whose rounds have `COLUMNS`; empty for any other.

    `hit_ratio` and `delivery_s` are means over all requests, `video_backhaul_bit` and `fetch_bit` sums over all rounds.
    `saved_share` is the share of the requested bits that the backhaul was spared; bits fetched by a placement count
    against it, so that it may be negative.
    """
    if MARK not in columns or not len(columns[MARK]):
        return {}
    import numpy as np  # totals on file are read without it

    def total(name: str, weight: Any = 1.0) -> float:
        return float(np.nansum(np.asarray(columns.get(name, 0.0)) * weight))

    requests = np.nan_to_num(np.asarray(columns.get("requests", 0.0)))
    return result(
        float(requests.sum()),
        total("hit_ratio", requests),
        total("request_bit"),
        total("video_backhaul_bit"),
        total("fetch_bit"),
        total("delivery_s", requests),
    )


def weighed(metrics: Mapping[str, float]) -> tuple[float, ...]:
    """What a single round adds to the arguments of `result`."""
    n, asked, ratio, backhaul, fetch, seconds = (metrics.get(name, 0.0) for name in COLUMNS)
    return n, n * ratio, asked, backhaul, fetch, n * seconds


def result(
    n: float, hits: float, asked_bit: float, backhaul_bit: float, fetch_bit: float, delay_s: float
) -> dict[str, float]:
    """The values of `NAMES` from sums over rounds: requests, hits, bits asked for, carried and fetched, and seconds.

    >>> result(4, 3, 400.0, 150.0, 50.0, 8.0)
    {'hit_ratio': 0.75, 'saved_share': 0.625, 'video_backhaul_bit': 150.0, 'fetch_bit': 50.0, 'delivery_s': 2.0}
    """
    nan = float("nan")
    values = (
        hits / n if n else nan,
        1 - backhaul_bit / asked_bit if asked_bit else nan,
        backhaul_bit,
        fetch_bit,
        delay_s / n if n else nan,
    )
    return dict(zip(NAMES, values, strict=True))
