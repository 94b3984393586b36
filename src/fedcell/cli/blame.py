"""Where a user's own file went wrong: an exception as a place and a sentence instead of a page of fedcell's lines."""

import sysconfig
import traceback
from pathlib import Path

OURS = Path(__file__).resolve().parents[1]
LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def own_line(error: BaseException) -> str:
    """`mine.py, line 5, in aggregate`: the innermost line of a file that is neither ours nor a library's, if any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.resolve().is_relative_to(folder) for folder in (OURS, *LIBRARIES)):
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    return ""
