"""A virtual environment for every framework, made from its pinned requirements if it is missing or stale."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
STAMP = "installed.txt"  # the requirements an environment was made from


def names() -> list[str]:
    """Every framework that has requirements; fedcell comes first."""
    found = sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))
    return sorted(found, key=lambda name: name != "fedcell")


def interpreter(folder: Path, name: str) -> Path:
    """The Python of an environment."""
    return folder / name / "bin" / "python"


def is_ready(folder: Path, name: str) -> bool:
    """Whether an environment was made from the requirements of today."""
    stamp = folder / name / STAMP
    return stamp.is_file() and stamp.read_text() == _wanted(name)


def prepare(folder: Path, name: str) -> str:
    """Make an environment unless it is ready; returns what went wrong, empty if nothing did."""
    if is_ready(folder, name):
        return ""
    print(f"installing {name} into {folder / name} ...", flush=True)
    python = interpreter(folder, name)
    commands = [] if python.exists() else [[sys.executable, "-m", "venv", str(folder / name)]]
    flags = ["--quiet", "--disable-pip-version-check", "--requirement", str(REQUIREMENTS / f"{name}.txt")]
    for command in [*commands, [str(python), "-m", "pip", "install", *flags]]:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            return refusal(name, done.stderr)
    (folder / name / STAMP).write_text(_wanted(name))
    return ""


def refusal(name: str, errors: str) -> str:
    """One sentence on an environment that could not be made."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no message")
    file = (REQUIREMENTS / f"{name}.txt").relative_to(ROOT)
    return f"{name} could not be installed ({said}): change {file}, or leave it out with --peer"


def versions(folder: Path, name: str) -> dict[str, str]:
    """Versions of what matters in an environment."""
    listing = [str(interpreter(folder, name)), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    done = subprocess.run(listing, capture_output=True, text=True, check=True)
    found = dict(line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    wanted = (name, {"flower": "flwr"}.get(name, name), "torch", "numpy", "ray", "jax")
    return {key: found[key] for key in wanted if key in found}


def here() -> list[str]:
    """Every framework that this very interpreter has; fedcell and the plain loop need nothing more."""
    return [name for name in names() if name in ("fedcell", "plain") or find_spec(name)]


def versions_here() -> dict[str, str]:
    """As `versions`, of this interpreter."""
    found = {}
    for name in ("fedcell", "pfl", "torch", "numpy", "triton"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # such as fedcell's sources on the path
            continue
    return found


def _wanted(name: str) -> str:
    return (REQUIREMENTS / f"{name}.txt").read_text()
