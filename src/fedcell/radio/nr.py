"""A link of 5G New Radio: SINR to modulation and coding, to block errors, to HARQ attempts.

A payload is cut into transport blocks, one a slot. For each the link takes the highest modulation and coding scheme
(MCS) whose block error rate stays within a target. A block that fails is sent again, and attempts add up (chase
combining): after `i` of them it is as if it had been sent once at `i` times the SINR, so it fails with probability
`p_i`, takes `1 + p_1 + ... + p_(M-1)` attempts in the mean, and is lost with probability `p_M`.

Error rates of code blocks are those of Sionna's physical abstraction, stored in `nr.npz` by `benchmarks/nr_tables.py`.
Sionna has none for MCS 0 to 2, so the link does without these schemes.
One layer, one antenna; the SINR is the same over the band and for all attempts of an upload.

Reference: 3GPP TS 38.214, Table 5.1.3.1-1 (MCS) and section 5.1.3.2 (size); TS 38.212, section 5.2.2 (code blocks)
"""

from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints
from ..units import ratio_to_db
from .cost import RESOURCE_BLOCK_HZ

SLOT_S = 1e-3  # at a subcarrier spacing of 15 kHz
ELEMENTS = 156.0  # of a resource block in a slot that carry data, of 12 * 14
HIGHEST_DB = 20.0  # the last SINR that was simulated
TRANSPORT_CRC_BIT, SHORT_CRC_BIT, SHORT_BIT = 24.0, 16.0, 3824.0
CODE_CRC_BIT = 24.0


class Tables(NamedTuple):
    """Error rates of code blocks, and the schemes they belong to."""

    error: Floats  # [n_mcs, n_sizes, n_snr]
    code_block_bit: Floats  # [n_sizes], evenly spaced
    snr_db: Floats  # [n_snr], evenly spaced
    mcs: Ints  # [n_mcs], their numbers in the standard
    modulation: Floats  # [n_mcs], bits a symbol
    code_rate: Floats  # [n_mcs]

    @property
    def efficiency(self) -> Floats:
        """Bits a symbol, `[n_mcs]`."""
        return self.modulation * self.code_rate


class Blocks(NamedTuple):
    """The transport blocks of an upload; arrays of one shape, `fails` with an axis of attempts before it."""

    scheme: Ints  # rows of the tables
    bit: Floats  # of payload in one block
    seconds: Floats  # of one attempt
    fails: Floats  # [n_attempts, ...], probability that a block is still not decoded after so many

    @property
    def attempts(self) -> Floats:
        """Mean number of attempts for one block."""
        return 1.0 + self.fails[:-1].sum(axis=0)

    @property
    def decoded(self) -> Floats:
        """Share of the blocks that are decoded in the end."""
        return 1.0 - self.fails[-1]


@cache
def tables() -> Tables:
    """Load the stored tables."""
    with (files("fedcell.radio") / "nr.npz").open("rb") as file, np.load(file, allow_pickle=False) as found:
        return Tables(
            error=found["error"] / 65535.0,
            code_block_bit=found["code_block_bit"].astype(np.float64),
            snr_db=found["snr_db"],
            mcs=found["mcs"],
            modulation=found["modulation"].astype(np.float64),
            code_rate=found["code_rate"] / 1024.0,
        )


def code_block_error(scheme: Ints, code_block_bit: Floats, sinr: Floats) -> Floats:
    """Error rate of one code block, interpolated in the tables, 1 below them; arguments broadcast.

    Deviation: the simulations behind the tables end at 20 dB, where the highest schemes still fail. Sionna repeats the
    last value beyond; here errors fall tenfold with every decibel, which is slower than any of the curves.

    Args:
        scheme: rows of the tables.
        code_block_bit: beyond the largest simulated size, the curve of that size is used.
        sinr: a ratio.
    """
    known = tables()
    sinr_db = ratio_to_db(sinr)
    size, up = _between(known.code_block_bit, code_block_bit)
    snr, right = _between(known.snr_db, np.minimum(sinr_db, HIGHEST_DB))
    flat, row, point = known.error.ravel(), len(known.snr_db), (scheme * len(known.code_block_bit) + size)
    at = point * row + snr
    low = flat[at] * (1 - right) + flat[at + 1] * right
    high = flat[at + row] * (1 - right) + flat[at + row + 1] * right
    beyond = 10.0 ** -np.maximum(sinr_db - HIGHEST_DB, 0.0)
    return np.where(sinr_db < known.snr_db[0], 1.0, (low * (1 - up) + high * up) * beyond)


def _between(grid: Floats, value: Floats) -> tuple[Ints, Floats]:
    """The grid point below a value, and how far it is to the next; values outside the grid are clipped to it."""
    place = np.clip((value - grid[0]) / (grid[1] - grid[0]), 0.0, len(grid) - 1.0)
    low = np.minimum(place.astype(np.int64), len(grid) - 2)
    return low, place - low


def code_blocks(block_bit: Floats, code_rate: Floats) -> tuple[Floats, Floats]:
    """How many code blocks a transport block is cut into, and the bits of each.

    Reference: 3GPP TS 38.212, section 5.2.2 and 7.2.2 (base graph)
    """
    short = (block_bit <= 292) | (code_rate <= 0.25) | ((block_bit <= SHORT_BIT) & (code_rate <= 0.67))
    largest = np.where(short, 3840.0, 8448.0)
    whole = block_bit + np.where(block_bit > SHORT_BIT, TRANSPORT_CRC_BIT, SHORT_CRC_BIT)
    count = np.where(whole <= largest, 1.0, np.ceil(whole / (largest - CODE_CRC_BIT)))
    return count, np.where(count == 1, whole, whole / count + CODE_CRC_BIT)


def block_error(scheme: Ints, block_bit: Floats, sinr: Floats) -> Floats:
    """Error rate of a transport block: none of its code blocks may fail."""
    count, size = code_blocks(block_bit, tables().code_rate[scheme])
    with np.errstate(divide="ignore"):  # a block that is lost for certain
        return np.asarray(-np.expm1(count * np.log1p(-code_block_error(scheme, size, sinr))))


def blocks(bandwidth_hz: Floats, sinr: Floats, target: float, n_attempts: int) -> Blocks:
    """The scheme that the link takes, and what its blocks cost.

    Args:
        bandwidth_hz: need not be whole resource blocks; less than one stretches a block over several slots.
        sinr: a ratio, in that band; broadcasts with it.
        target: highest error rate of the first attempt; if every scheme has more, the lowest one is taken.
        n_attempts: after which a block is lost.
    """
    known = tables()
    band, quality = np.broadcast_arrays(np.asarray(bandwidth_hz, dtype=np.float64), np.asarray(sinr, dtype=np.float64))
    size = band / RESOURCE_BLOCK_HZ
    bit_each = ELEMENTS * np.maximum(size, 1.0)
    seconds = SLOT_S * np.maximum(np.divide(1.0, size, out=np.full_like(size, np.inf), where=size > 0), 1.0)
    scheme = _highest(bit_each.ravel(), quality.ravel(), target).reshape(band.shape)
    bit = bit_each * known.efficiency[scheme]
    fails = np.array([block_error(scheme, bit, quality * count) for count in range(1, n_attempts + 1)])
    return Blocks(scheme, bit, seconds, np.minimum.accumulate(fails, axis=0))


def _highest(bit_each: Floats, sinr: Floats, target: float) -> Ints:
    """The highest scheme within the target, `[n]`, 0 if none is; tried downwards from the highest possible one.

    Args:
        bit_each: `[n]`, symbols of a block.
        sinr: `[n]`.
        target: as for `blocks`.
    """
    known = tables()
    scheme = np.searchsorted(_possible_db(target), ratio_to_db(sinr), side="right") - 1
    left = np.flatnonzero(scheme >= 0)
    while len(left):
        tried = scheme[left]
        fails = block_error(tried, bit_each[left] * known.efficiency[tried], sinr[left]) > target
        left = left[fails]
        scheme[left] -= 1
        left = left[scheme[left] >= 0]
    return np.maximum(scheme, 0)


@lru_cache(maxsize=8)
def _possible_db(target: float) -> Floats:
    """For each scheme, the SINR below which neither it nor a higher one meets the target at any size; ascending.

    A transport block fails at least as often as its code blocks, and these at least as often as those of the best size
    at the neighbouring points of the tables.
    """
    known = tables()
    best = known.error[:, :, known.snr_db <= HIGHEST_DB].min(axis=1)
    there = best <= target
    first = np.where(there.any(axis=1), there.argmax(axis=1), best.shape[1] - 1)
    before_db = known.snr_db[np.maximum(first - 1, 0)]
    return np.asarray(np.minimum.accumulate(before_db[::-1])[::-1])


def rate_bps(found: Blocks, sinr: Floats) -> Floats:
    """Payload bits per second that are decoded, with the mean number of attempts; 0 if every block is lost."""
    return np.where(np.asarray(sinr) > 0, found.bit * found.decoded / (found.seconds * found.attempts), 0.0)


def play(found: Blocks, payload_bit: Floats, uniform: Floats) -> tuple[Floats, Bools]:
    """How often the blocks of each upload were sent on average, and whether all of them were decoded.

    Args:
        found: the blocks of `[n]` uploads.
        payload_bit: `[n]`.
        uniform: `[n_attempts, n]` numbers in [0, 1) that decide how many fail.
    """
    first = np.ceil(payload_bit / found.bit)
    left, sent, before = first, np.zeros_like(first), np.ones_like(first)
    for fails, draw in zip(found.fails, uniform, strict=True):
        sent = sent + left
        again = np.divide(fails, before, out=np.zeros_like(fails), where=before > 0)
        left, before = _binomial(draw, left, np.minimum(again, 1.0)), fails
    return np.divide(sent, first, out=np.ones_like(first), where=first > 0), left == 0


def _binomial(uniform: Floats, count: Floats, probability: Floats) -> Floats:
    """Draw binomial numbers by inverting the distribution, so that each depends only on its own uniform number."""
    from scipy.stats import binom  # slow to import, and few runs need it

    drawn = np.where(probability >= 1, count, 0.0)
    some = (count > 0) & (probability > 0) & (probability < 1)
    drawn[some] = np.maximum(binom.ppf(uniform[some], count[some], probability[some]), 0.0)
    return drawn
