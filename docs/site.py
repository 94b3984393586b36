"""Build the documentation as a site, and fail on a dead link.

    python docs/site.py [FOLDER]

Pages link to files beside `docs/`, such as examples and figures of experiments. So the sources of the site are a copy
of that part of the repository, in which all relative links hold as they do on a code host. Notebooks become pages.
"""

import json
import logging
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|src=\")([^)\s\"#]+)")
NAV: dict[str, list[str]] = {  # what is not named here goes to the end of its folder's section
    "Start here": ["README.md", "docs/index.md", "docs/start.md"],
    "Guides": [
        *("docs/guides/researcher.md", "docs/guides/planner.md", "docs/guides/engineer.md", "docs/guides/*.md"),
        "docs/notebooks/*.md",
    ],
    "Using it": [
        *("docs/studies.md", "docs/sweeps.md", "docs/compare.md", "docs/report.md", "docs/dashboard.md"),
        *("docs/plan.md", "docs/records.md", "docs/deploy.md", "docs/scaling.md", "docs/performance.md", "docs/*.md"),
    ],
    "Methods": ["docs/methods/*.md"],
    "Families": ["docs/families/index.md", "docs/families/*.md"],
    "Papers": ["docs/papers/index.md", "docs/papers/*.md", "docs/claims.md", "docs/reproduce.md"],
    "Reference": ["docs/configuration.md", "docs/api.md", "docs/method-api.md", "docs/engine.md"],
    "The project": ["CONTRIBUTING.md", "CHANGELOG.md"],
}


def build(target: Path, root: Path = ROOT) -> None:
    """Write the site into a folder; raises `mkdocs.exceptions.Abort` for anything that is not as it should be."""
    from mkdocs.commands.build import build as write
    from mkdocs.config import load_config

    with TemporaryDirectory(prefix="fedcell-docs-") as scratch:
        source = Path(scratch)
        collect(root, source)
        config = load_config(
            str(ROOT / "mkdocs.yml"), docs_dir=str(source), site_dir=str(target.resolve()), nav=navigation(source)
        )
        config.plugins.run_event("startup", command="build", dirty=False)
        write(config)


def collect(root: Path, source: Path) -> None:
    """Copy the pages, with notebooks as pages, and every file that one of them links to."""
    pages = [root / name for name in PAGES if (root / name).is_file()]
    pages += [path for path in sorted(root.glob("docs/**/*")) if path.suffix in (".md", ".ipynb")]
    for path in pages:
        place = source / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        text = notebook_page(text) if path.suffix == ".ipynb" else text
        place.with_suffix(".md").write_text(spaced(text), encoding="utf-8")
        for link in LINK.findall(FENCE.sub("", text)):
            linked = (path.parent / link).resolve()
            if "://" not in link and linked.is_file() and linked not in pages and linked.is_relative_to(root):
                copy = source / linked.relative_to(root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, copy)


def spaced(text: str) -> str:
    """Info strings such as `sh run`, which tests read, as the plain language that a highlighter knows."""
    return re.sub(r"^```(sh|python) run$", r"```\1", text, flags=re.MULTILINE).replace(".ipynb)", ".md)")


def notebook_page(text: str) -> str:
    """The cells of a notebook as Markdown.

    >>> print(notebook_page('{"cells": [{"cell_type": "code", "source": ["1 + 1"]}]}'))
    ```python
    1 + 1
    ```
    """
    parts = []
    for cell in json.loads(text)["cells"]:
        body = "".join(cell["source"])
        parts.append(f"```python\n{body}\n```" if cell["cell_type"] == "code" else body)
    return "\n\n".join(parts)


def navigation(source: Path) -> list[dict[str, Any]]:
    """Sections with their pages, each page once: where it is named, or else where a pattern first takes it in."""
    named = {page for pages in NAV.values() for page in pages if "*" not in page}
    left = {path.relative_to(source).as_posix() for path in source.rglob("*.md")}
    found = []
    for section, patterns in NAV.items():
        pages: list[str] = []
        for pattern in patterns:
            near = sorted(path.relative_to(source).as_posix() for path in source.glob(pattern))
            pages += [page for page in near if page in left and (page not in named or page == pattern)]
            left -= set(pages)
        if pages:
            found.append({section: pages})
    return found


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s: %(message)s")
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site"))
