"""Tags: what a file is called in a period. Only those with the period's key can read them: the CSP and its users.

The CSP changes the key (`ContentProvider.rotate`), and with it every tag.

Reference: rawhfl, section II-A (temporal tag IDs)
"""

from ....errors import ContractError
from ....sealing import mark

TAG_BYTES = 8


def tag_of(key: bytes, file: int) -> bytes:
    """The tag of a file under the key of a period."""
    return mark(key, b"tag", file.to_bytes(4, "big"))[:TAG_BYTES]


def tag_table(key: bytes, n_files: int) -> dict[bytes, int]:
    """The file behind every tag of a period."""
    table = {tag_of(key, file): file for file in range(n_files)}
    if len(table) < n_files:  # one in 2^64 / n_files^2
        raise ContractError("two files have one tag in this period: rotate once more")
    return table
