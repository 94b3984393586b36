"""What a model sees of a request: a row of a table of files, with a few numbers of the user written into it.

The input depends on (user, requested file) alone, so a table with one row per file and one short row per user
stands for every sample there can be.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import BadInput
from ...types import Floats, Ints
from .catalogue import IMAGE, Catalogue
from .settings import VideoConfig
from .users import Profiles

FLOAT_BIT = 32


class FeatureTable(NamedTuple):
    """Sample (user, file) = `file[file]` with `user[user]` at `user_columns`, reshaped to `shape`."""

    file: NDArray[np.float32]  # [n_files, width]
    user: NDArray[np.float32]  # [n_users, n_user_columns]
    user_columns: Ints  # [n_user_columns]
    shape: tuple[int, ...]  # of one sample; channels first, while the columns are channels last


def feature_table(settings: VideoConfig, catalogue: Catalogue, profiles: Profiles) -> FeatureTable:
    """The table of `features=content` or `features=compact`.

    - content: the file's content, the user's preferences, the similarities of the genre's files to this one (1 for
      itself), the genre number repeated, the user's stay probability. 3072 + 5 + 20 + 70 + 1 = 3168 in preset osafl.
    - compact: stay probability, preferences, `g / G`, the similarities, place in the genre over its size.
      1 + 8 + 1 + 32 + 1 = 43 in preset rawhfl.

    Reference: osafl, Appendix (Dataset-1); rawhfl, section VI-A
    """
    n_files, n = catalogue.n_files, catalogue.per_genre
    genre, place = np.divmod(np.arange(n_files)[:, None], n)
    near = catalogue.similarity.reshape(n_files, n)
    taste, stay = profiles.preference, profiles.stay[:, None]
    if settings.features == "content":
        parts: list[tuple[str, Floats]] = [
            ("file", catalogue.content.astype(np.float64)),
            ("user", taste),
            ("file", near),
            ("file", genre.repeat(settings.genre_repeats, axis=1)),
            ("user", stay),
        ]
    else:
        parts = [("user", stay), ("user", taste), ("file", genre / catalogue.n_genres), ("file", near)]
        parts.append(("file", place / n))
    table = _assemble(parts)
    return _as_image(table) if settings.layout == "image" and settings.features == "content" else table


def sample_bit(settings: VideoConfig, catalogue: Catalogue) -> int:
    """Bits of one sample in the computation model: 32 per feature, or `ceil(log2 F)` per token of a history."""
    if settings.features == "history":
        return settings.history * int(np.ceil(np.log2(catalogue.n_files)))
    shared = catalogue.n_genres + catalogue.per_genre + 1  # preferences, similarities, stay probability
    own = catalogue.content.shape[1] + settings.genre_repeats if settings.features == "content" else 2
    return FLOAT_BIT * (shared + own)


def _assemble(parts: list[tuple[str, Floats]]) -> FeatureTable:
    """Lay the blocks side by side; those of the user leave a gap in the rows of the files."""
    n_files = next(len(block) for whose, block in parts if whose == "file")
    rows = [block if whose == "file" else np.zeros((n_files, block.shape[1])) for whose, block in parts]
    is_user = np.concatenate([np.full(block.shape[1], whose == "user") for whose, block in parts])
    file = np.concatenate(rows, axis=1).astype(np.float32)
    user = np.concatenate([block for whose, block in parts if whose == "user"], axis=1).astype(np.float32)
    return FeatureTable(file, user, np.flatnonzero(is_user), (file.shape[1],))


def _as_image(table: FeatureTable) -> FeatureTable:
    """The same samples as images `[3, 32, width / 96]`, their columns in channels-last order."""
    channels, height, _ = IMAGE
    width, odd = divmod(table.file.shape[1], channels * height)
    if odd:
        raise BadInput(
            f"video.layout = 'image' needs samples of a multiple of {channels * height} numbers, not "
            f"{table.file.shape[1]}: change video.genre_repeats or use layout = 'flat'"
        )
    order = np.arange(table.file.shape[1]).reshape(channels, height, width).transpose(1, 2, 0).ravel()
    columns = np.argsort(order)[table.user_columns]
    return FeatureTable(np.ascontiguousarray(table.file[:, order]), table.user, columns, (channels, height, width))
