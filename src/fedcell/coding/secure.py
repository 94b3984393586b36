"""What secure aggregation costs a device: masks that cancel in the sum, so that a server learns nothing else.

In a round of `n` devices every device shares keys with `k` others and hides its update behind a mask of its own and one
for each of them. It sends and gets

    up    2 a_K + (2 k + k + 1) a_S + d (b + ceil(log2 n))    two public keys; a share of both its secrets for each
                                                              neighbour; the masked update, with room for the sum of
                                                              all; and in the end a share of every neighbour's secret
    down  2 k a_K + 2 k a_S                                   keys and shares of its neighbours
    CPU   c d (k + 1)                                         numbers drawn for masks

with `d` numbers of `b` bits, keys of `a_K` and shares of `a_S` bits. `pairwise`: `k = n - 1`, so that the keys of all
grow with the square of `n`, and up and down are `2 n a_K + (5 n - 4) a_S + d (b + ceil(log2 n))`. `graph`:
`k = degree log2 n` (rounded up, at most `n - 1`). Left out are the overhead of ciphers, signatures, the list of who
dropped out, and the delays of four exchanges. Not a coding itself: it has no `build`.

Reference: Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, 2017, section 7;
Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic Overhead, 2020 (`graph`).
"""

from math import ceil, log2

from . import Extra

KEY_BIT = SHARE_BIT = 256
NOTHING = Extra(0.0, 0.0, 0.0)


def neighbours(kind: str, degree: float, n_devices: int) -> int:
    """`k`, the devices with which each one shares keys.

    >>> neighbours("pairwise", 2, 100), neighbours("graph", 2, 100), neighbours("graph", 2, 3)
    (99, 14, 2)
    """
    if kind == "pairwise" or n_devices < 2:
        return max(n_devices - 1, 0)
    return min(ceil(degree * log2(n_devices)), n_devices - 1)


def secure_cost(kind: str, degree: float, mask_cycles: float, n_devices: int, n_numbers: int) -> Extra:
    """What each of the `n_devices` of a round pays beside its plain update; nothing without secure aggregation."""
    if kind == "none" or not n_devices:
        return NOTHING
    k = neighbours(kind, degree, n_devices)
    up = 2 * KEY_BIT + (3 * k + 1) * SHARE_BIT + n_numbers * ceil(log2(n_devices))
    return Extra(up, 2 * k * (KEY_BIT + SHARE_BIT), mask_cycles * n_numbers * (k + 1))
