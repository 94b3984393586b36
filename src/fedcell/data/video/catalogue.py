"""The catalogue: what the files look like, which are similar, which are popular.

A file is a number `genre * files_per_genre + place in the genre`, which is also its label.

Reference: osafl, Eqs. (80)-(82)
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import BadInput
from ...rng import SETUP, stream
from ...types import Floats, Ints
from ..checks import features, labels
from ..fetch import cache_dir
from ..loading import read_npz
from ..scaling import UNIT, Scaling, apply, fit
from .settings import VideoConfig

IMAGE = (3, 32, 32)
GRID = 4  # coarse patches along each side of a synthetic image
TIE = 12  # decimals: cosines nearer than this are equal, and the lower file number wins


class Catalogue(NamedTuple):
    """Everything about the files that requests depend on; `F` files, `G` genres of `n` files."""

    content: NDArray[np.float32]  # [F, H], features of each file
    similarity: Floats  # [G, n, n], cosines inside a genre; 1 on the diagonal
    similar: Ints  # [F, K], the most similar files, nearest first
    similar_share: Floats  # [F, K], law of the next file among them
    popular: Ints  # [G, n], the files of a genre, most popular first
    popularity: Floats  # [n], law of the popularity rank of a file asked for from another genre
    scaling: Scaling = UNIT  # of the content

    @property
    def n_genres(self) -> int:
        return len(self.similarity)

    @property
    def per_genre(self) -> int:
        return self.similarity.shape[1]

    @property
    def n_files(self) -> int:
        return len(self.content)


def build_catalogue(settings: VideoConfig, seed: int) -> Catalogue:
    """Draw or read the files, and order them by similarity and popularity.

    Args:
        settings: sizes and laws.
        seed: of the run; fixes drawn features and the popularity order.
    """
    content, scaling = file_features(settings, seed)
    cosine = similarity(content, settings.n_genres)
    similar, share = most_similar(cosine, settings.similar)
    draw = stream(seed, SETUP, "video.popularity")
    order = np.stack([draw.permutation(settings.files_per_genre) for _ in range(settings.n_genres)])
    first = np.arange(settings.n_genres)[:, None] * settings.files_per_genre
    popularity = zipf_mandelbrot(settings.files_per_genre, settings.skew, settings.shift)
    if settings.explore == "top":
        popularity = np.eye(settings.files_per_genre)[0]
    return Catalogue(content, cosine, similar, share, first + order, popularity, scaling)


def zipf_mandelbrot(n: int, skew: float, shift: float) -> Floats:
    """`p(r) = (r + q)^-gamma / sum_r' (r' + q)^-gamma` for the ranks `r = 1 .. n`, with `gamma` skew and `q` shift.

    Deviation: the printed law takes the reciprocal twice and drops the minus sign, so that it is no probability.

    >>> zipf_mandelbrot(3, 1.0, 0.0).round(3).tolist()
    [0.545, 0.273, 0.182]

    Reference: osafl, Eq. (80)
    """
    weight = (np.arange(1.0, n + 1) + shift) ** -skew
    return weight / weight.sum()


def similarity(content: NDArray[np.float32], n_genres: int) -> Floats:
    """Cosines `<x, x'> / (|x| |x'|)` of the files inside each genre, `[n_genres, n, n]`. Reference: osafl, Eq. (81)"""
    rows = content.astype(np.float64).reshape(n_genres, -1, content.shape[1])
    rows /= np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), np.finfo(np.float64).tiny)
    cosine = np.clip(np.round(rows @ rows.transpose(0, 2, 1), TIE), -1.0, 1.0)
    own = np.arange(cosine.shape[1])
    cosine[:, own, own] = 1.0
    return cosine


def most_similar(cosine: Floats, k: int) -> tuple[Ints, Floats]:
    """The `k` other files of the genre with the largest cosines, and the softmax of these; each `[n_files, k]`.

    Top-k of the law (82) is top-k of the cosine, and its share is renormalised on them.

    Reference: osafl, Eq. (82)
    """
    n_genres, n, _ = cosine.shape
    others = np.where(np.eye(n, dtype=bool), -np.inf, cosine)
    place = np.argsort(-others, axis=2, kind="stable")[:, :, :k]
    weight = np.exp(np.take_along_axis(cosine, place, axis=2)).reshape(-1, k)
    files = place + np.arange(n_genres)[:, None, None] * n
    return files.reshape(-1, k), weight / weight.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------- features of the files


def file_features(settings: VideoConfig, seed: int) -> tuple[NDArray[np.float32], Scaling]:
    """One row per file: synthetic, uniform, or from a user's images; scaled over all files, channel by channel."""
    draw = stream(seed, SETUP, "video.content")
    if settings.content == "synthetic":
        content = synthetic_images(settings.n_files, draw)
    elif settings.content == "uniform":
        content = draw.random((settings.n_files, settings.content_width), dtype=np.float32)
    else:
        content = read_images(settings.content, settings.n_files)
    what, key = f"video.content = {settings.content!r}", "video.scaling"
    scaling = fit(settings.scaling, content, what, key)
    return apply(scaling, content, what, key).reshape(settings.n_files, -1), scaling


def synthetic_images(n: int, draw: np.random.Generator) -> NDArray[np.float32]:
    """Image-like arrays `[n, 3, 32, 32]` in [0, 1]: a base colour, coarse patches, and noise in every pixel."""
    channels, side, _ = IMAGE
    colour = draw.uniform(0.1, 0.9, (n, channels, 1, 1))
    patches = draw.normal(0, 0.25, (n, channels, GRID, GRID))
    noise = draw.normal(0, 0.08, (n, *IMAGE))
    blown_up = patches.repeat(side // GRID, axis=2).repeat(side // GRID, axis=3)
    return np.clip(colour + blown_up + noise, 0, 1).astype(np.float32)


def read_images(name: str, n_files: int) -> NDArray[np.float32]:
    """The first image of each of the labels `0 .. n_files - 1` of an .npz file, `[n_files, ...]`, channels first.

    Args:
        name: path of a file with `x` (images; bytes are scaled to [0, 1]) and `y` (labels), looked up as given,
            then in the cache folder.
        n_files: images wanted.
    """
    given = Path(name).expanduser()
    path = next((p for p in (given, cache_dir() / given) if p.is_file()), None)
    if path is None:
        raise BadInput(
            f"video.content = {name!r} is no file, here or in {cache_dir()}: "
            "use 'synthetic', 'uniform' or the path of an .npz file"
        )
    x, y = _read(path)
    found, first = np.unique(y, return_index=True)
    if found[:n_files].tolist() != list(range(n_files)):
        raise BadInput(f"{name!r} has images of {len(found)} labels: give one of each label 0 .. {n_files - 1}")
    return np.ascontiguousarray(x[first[:n_files]])


def _read(path: Path) -> tuple[NDArray[np.float32], Ints]:
    found = read_npz(path, ("x", "y"))
    names, images = labels(found["y"], f"y of {str(path)!r}"), features(found["x"], f"x of {str(path)!r}")
    if len(images) != len(names):
        raise BadInput(f"{str(path)!r} has {len(images)} images but {len(names)} labels: give one label each")
    return images, names
