"""Archives give up only the members asked for, and packages become the official files."""

import gzip
import json
import sys
import tarfile
import zipfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from fedcell.data.catalog import CATALOG, CIFAR_FILES, _batch, cifar_batches, official_gzip
from fedcell.data.sources import SourceError, debian, npm, read_tar, read_zip, run, tool


def tar(members, links=()):
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
        for name in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive.addfile(info)
    out.seek(0)
    return out


def test_tar_reads_named_members_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive = tar({"../evil": b"1", "/abs": b"2", "in/a": b"3", "in/b": b"4"})
    assert read_tar(archive, {"A": "in/a"}) == {"A": b"3"}
    assert not list(tmp_path.iterdir())


def test_tar_without_the_member_or_with_a_link_in_its_place():
    with pytest.raises(SourceError, match="lacks B"):
        read_tar(tar({"in/a": b"3"}, links=["in/b"]), {"A": "in/a", "B": "in/b"})


@pytest.mark.parametrize("content", [b"", b"nonsense" * 200, tar({"a": bytes(range(256)) * 99}).read()[:200]])
def test_broken_tar(content):
    with pytest.raises(SourceError):
        read_tar(BytesIO(content), {"A": "a"})


def test_zip_reads_named_members_only(tmp_path):
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../evil", b"1")
        archive.writestr("in/a", b"3")
    assert read_zip(path, {"A": "in/a"}) == {"A": b"3"}
    with pytest.raises(SourceError, match="in/b"):
        read_zip(path, {"B": "in/b"})
    path.write_bytes(b"nonsense")
    with pytest.raises(SourceError, match=r"x\.whl"):
        read_zip(path, {"A": "in/a"})


def test_programs_that_are_missing_or_fail(tmp_path, monkeypatch):
    with pytest.raises(SourceError, match="boom"):
        run([sys.executable, "-c", "import sys; print('ERROR: boom', file=sys.stderr); sys.exit(3)"], tmp_path)
    with pytest.raises(SourceError, match="exit code 4"):
        run([sys.executable, "-c", "raise SystemExit(4)"], tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="npm is not installed"):
        tool("npm")
    for source in (debian("x", {}, official_gzip), npm("x", {}, cifar_batches)):
        with pytest.raises(SourceError, match="is not installed"):
            source.read(tmp_path, print)


def test_official_gzip_header():
    made = official_gzip("t10k-labels-idx1-ubyte.gz", gzip.compress(b"content", mtime=0))
    assert gzip.decompress(made) == b"content"
    assert made[3] == 8
    assert made[10:].startswith(b"t10k-labels-idx1-ubyte\x00")


def png(pixels):
    out = BytesIO()
    Image.fromarray(pixels).save(out, format="PNG")
    return out.getvalue()


def test_sprite_becomes_official_records():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1024, 3), dtype=np.uint8)
    records = np.frombuffer(_batch(png(pixels), [7, 3]), np.uint8).reshape(2, 3073)
    assert records[:, 0].tolist() == [7, 3]
    for plane in range(3):
        np.testing.assert_array_equal(records[:, 1 + 1024 * plane : 1 + 1024 * (plane + 1)], pixels[:, :, plane])


def test_unexpected_sprites_are_a_failed_source():
    files = dict.fromkeys(CIFAR_FILES, png(np.zeros((2, 1024, 3), np.uint8)))
    labels = {"train_lables.json": json.dumps([0] * 50_000).encode(), "test_lables.json": b"[0, 1]"}
    with pytest.raises(SourceError, match="sprites"):
        cifar_batches(files | labels)
    with pytest.raises(SourceError, match="sprites"):
        cifar_batches(dict.fromkeys(CIFAR_FILES, b"no image") | labels)


def test_every_entry_has_checksums_for_its_files():
    for entry in CATALOG.values():
        assert entry.sources
        assert all(len(md5) == 32 for md5 in entry.md5.values())
        assert "http" in entry.sources[0].title  # the makers first
