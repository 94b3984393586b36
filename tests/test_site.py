"""The documentation as a site: every page is in it, and a dead link or anchor fails."""

import runpy
from pathlib import Path

import pytest
from mkdocs.exceptions import Abort

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


def test_the_site_has_every_page_and_asks_no_other_place(tmp_path):
    SITE["build"](tmp_path / "site")
    for path in ROOT.glob("docs/**/*.md"):
        assert (tmp_path / "site" / path.relative_to(ROOT)).with_suffix(".html").is_file(), path
    for path in ROOT.glob("docs/notebooks/*.ipynb"):
        assert "fedcell" in (tmp_path / "site" / path.relative_to(ROOT)).with_suffix(".html").read_text()
    front = (tmp_path / "site" / "index.html").read_text()
    assert "fonts.googleapis" not in front
    guide = (tmp_path / "site" / "docs" / "guides" / "researcher.html").read_text()
    assert 'href="../notebooks/researcher.html"' in guide
    assert (tmp_path / "site" / "examples" / "server_momentum.py").is_file()


@pytest.mark.parametrize("link", ["gone.md", "other.md#nowhere", "../gone.py", "#nowhere"])
def test_a_dead_link_fails(tmp_path, link):
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text("# Front\n\n[in](docs/index.md) [there](docs/other.md)\n")
    (root / "docs" / "index.md").write_text("# Index\n\n[there](other.md#there) [front](../README.md)\n")
    (root / "docs" / "other.md").write_text("# Other\n\n## There\n\n[code](../code.py)\n")
    (root / "code.py").write_text("1\n")
    SITE["build"](tmp_path / "sound", root)
    (root / "docs" / "other.md").write_text(f"# Other\n\n## There\n\n[dead]({link})\n")
    with pytest.raises(Abort, match="1 warnings"):
        SITE["build"](tmp_path / "dead", root)
