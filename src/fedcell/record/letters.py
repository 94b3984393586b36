"""How the outcomes of a round are stored: one letter per device, or runs of letters if that is shorter.

A round that asks 1,000 of 1,000,000 devices is a megabyte of letters and about 10 kB of runs.
"""

import re
from itertools import chain

import numpy as np

SHORT = 4096  # letters up to which they are written one by one
MOST = 10_000_000  # letters of a round, as many as `world.n_devices` may be
RUN = re.compile(r"([1-9][0-9]*)([^0-9])")


def pack(letters: str) -> str:
    """Pack letters as runs with a count before each letter if that is shorter; no letter is a digit.

    >>> pack("..D."), pack("." * 5000 + "DD" + "." * 5000)
    ('..D.', '5000.2D5000.')
    """
    if len(letters) <= SHORT:
        return letters
    codes = np.frombuffer(letters.encode("latin-1"), dtype=np.uint8)
    first = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
    if 2 * (len(first) - 1) >= len(letters):  # a run takes two characters at least
        return letters
    counts, marks = np.diff(first).tolist(), codes[first[:-1]].tobytes().decode("latin-1")
    runs = "".join(map(str, chain.from_iterable(zip(counts, marks, strict=True))))
    return runs if len(runs) < len(letters) else letters


def unpack(text: str) -> str:
    """Undo `pack`: one letter per device.

    Raises:
        ValueError: if runs are damaged.

    >>> unpack("3.2D"), unpack("..D.")
    ('...DD', '..D.')
    """
    if not text[:1].isdecimal():
        return text
    runs = RUN.findall(text)
    if sum(len(count) + 1 for count, _ in runs) != len(text):
        raise ValueError("the outcome is no runs of letters")
    counts = [int(count) for count, _ in runs]
    if sum(counts) > MOST:
        raise ValueError(f"the outcome has {sum(counts)} letters, and none of ours has more than {MOST}")
    return "".join([letter * count for count, (_, letter) in zip(counts, runs, strict=True)])
