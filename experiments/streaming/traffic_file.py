"""Build the traffic file of the streaming experiments from what its authors publish.

    python experiments/streaming/traffic_file.py 12class.zip [--out FILE]

`12class.zip` is `2.encrypted_traffic_classification/3.PerprocessResults/12class.zip` of github.com/echowei/DeepTraffic
(Wei Wang and others, Mozilla Public License 2.0): sessions of the ISCX VPN-nonVPN 2016 traces, cut to 784 bytes each,
as four idx files in `SessionAllLayers`. The result is an .npz with `x_train, y_train, x_test, y_test` and the names of
the classes, in the data folder (`FEDCELL_DATA`). Its samples are held against checksums that do not depend on their
order.
"""

import argparse
import gzip
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.data import cache_dir
from fedcell.errors import BadInput, FedcellError
from fedcell.scenarios.streaming_traffic import TRAFFIC

FOLDER = "SessionAllLayers"
FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
KINDS = ("Chat", "Email", "File", "P2P", "Streaming", "VoIP")
CLASSES = (*KINDS, *(f"VPN_{kind}" for kind in KINDS))
SHA256 = {  # of every label and image, one behind the other, sorted
    "train": "c0df9a1e9b797e1303047097e38b72f6ea79b2cc31ace65df39e1b67668951e1",
    "test": "4fcc51086ee25aa9f2bae292547d179f807dfbf73983fccaed67884735f1b205",
}


def read(archive: Path) -> dict[str, NDArray[np.uint8]]:
    """The four arrays of the archive."""
    try:
        with zipfile.ZipFile(archive) as file:
            return {name: parse(_member(file, wanted), wanted) for name, wanted in FILES.items()}
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise BadInput(f"{archive} cannot be read ({error}): download it again") from None


def _member(file: zipfile.ZipFile, wanted: str) -> bytes:
    names = [name for name in file.namelist() if f"{FOLDER}/{wanted}" in name]
    if len(names) != 1:
        raise BadInput(f"the archive has {len(names)} files {FOLDER}/{wanted}, not one: is it 12class.zip?")
    raw = file.read(names[0])
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def parse(raw: bytes, name: str) -> NDArray[np.uint8]:
    """An idx file of bytes: two zeros, 8, the number of axes, their lengths, the values."""
    axes = raw[3] if raw[:3] == b"\0\0\x08" else 0
    shape = np.frombuffer(raw[4 : 4 + 4 * axes], dtype=">u4").astype(np.int64)
    values = np.frombuffer(raw[4 + 4 * axes :], dtype=np.uint8)
    if not axes or values.size != shape.prod():
        raise BadInput(f"{name} is no idx file of bytes, or is cut short: download the archive again")
    return values.reshape(shape)


def checksum(x: NDArray[Any], y: NDArray[Any]) -> str:
    """SHA-256 of the samples in sorted order."""
    rows = np.concatenate([y[:, None], x.reshape(len(x), -1)], axis=1).astype(np.uint8)
    return hashlib.sha256(b"".join(sorted(row.tobytes() for row in rows))).hexdigest()


def build(archive: Path, out: Path) -> None:
    """Write the file, or say what is wrong with the archive."""
    arrays = read(archive)
    for half, wanted in SHA256.items():
        found = checksum(arrays[f"x_{half}"], arrays[f"y_{half}"])
        if found != wanted:
            raise BadInput(
                f"the {half} samples have checksum {found}, not {wanted}: these are not the published sessions"
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, classes=np.array(CLASSES), **arrays)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("archive", type=Path, help="12class.zip")
    parser.add_argument("--out", type=Path, default=cache_dir() / TRAFFIC, help="the file to write")
    options = parser.parse_args(arguments)
    try:
        build(options.archive, options.out)
    except FedcellError as error:
        print(error)
        raise SystemExit(error.exit_code) from None
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
