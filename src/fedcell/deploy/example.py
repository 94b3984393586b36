"""Write a small Flower app that is ready to run to a folder; list the commands that run it on this machine."""

from pathlib import Path

from ..errors import BadInput
from ..learn.model_files import split
from ..learn.settings import in_file
from ..record.files import explained, refuse_file
from .refusals import deployable
from .settings import read, with_model

PROJECT = """[project]
name = "fedcell-digits"
version = "1.0.0"
description = "Handwritten digits on real devices with a method of fedcell"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = ["fedcell[flower]"]

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.flwr.app]
publisher = "example"

[tool.flwr.app.components]
serverapp = "digits.server:app"
clientapp = "digits.client:app"

# Read by fedcell.deploy on the server and on every device. `settings` are those of `fedcell run --set`.
[tool.flwr.app.config]
method = "{method}"
scenario = "cell"
settings = "{settings}"
out = "{out}"
min-devices = 0
join-s = 120.0
patience-s = 120.0
wait = "quorum"
known-nodes = ""
seal-key = ""
max-share = 0.5
# "krum" leaves out the update that is farthest from the others: for ten devices or more that you do not trust
robust = ""
"""

SERVER = '''"""The server: the method, the settings and the folder of the record come from the run configuration."""

from fedcell.deploy.flower import server_app

app = server_app({model})
'''

CLIENT = '''"""A device: it trains on its own samples, here a part of the digits that come with scikit-learn."""

from fedcell.deploy.client import client_app, share_of

# share_of splits the digits as a simulation does. A device with samples of its own gives a function of its own:
# data(context, round) -> (float32 samples, whole-number labels).
app = client_app(share_of{model})
'''

CONNECTION = """[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""

IGNORED = """# Flower bundles the rest of this folder for every run.
runs/
device*/
*.log
"""

LAST_PORT = 65535
NETWORK = "network.py"  # the copy of a model file
SETTINGS = {"rounds": 5, "train.lr": 0.3, "train.steps": 20, "world.deadline_s": 60}


def write(folder: Path, method: str, n_devices: int, port: int, model: str | None = None) -> dict[str, str]:
    """Write the app into a new folder; returns its files by name. Raises BadInput before anything is written.

    Args:
        folder: of the app.
        method: `NAME[:key=value,...]`.
        n_devices: devices of the federation.
        port: of the server.
        model: a built-in model, or `net.py:function`: a file that the app gets a copy of, for the server and all
            devices; None: that of the scenario.
    """
    if not 1 <= n_devices <= 100:
        raise BadInput(f"--devices {n_devices} is out of range: give 1 to 100")
    if not 1 <= port <= LAST_PORT - n_devices:
        most = LAST_PORT - n_devices
        raise BadInput(
            f"--port {port} is out of range: give 1 to {most}, the {n_devices} devices have the ports behind it"
        )
    own = model is not None and in_file(model)
    settings = {**SETTINGS, "world.n_devices": n_devices, **({"model.name": model} if model and not own else {})}
    text = " ".join(f"{key}={value}" for key, value in settings.items())
    asked = read({"method": method, "settings": text})
    deployable(with_model(asked, model) if model and own else asked)
    refuse_file(folder)
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty: choose another folder")
    files = {
        "pyproject.toml": PROJECT.format(method=method, settings=text, out=folder.resolve() / "runs" / "digits"),
        "digits/__init__.py": '"""A Flower app with a method of fedcell."""\n',
        "digits/server.py": SERVER.format(model=""),
        "digits/client.py": CLIENT.format(model=""),
        ".gitignore": IGNORED,
    }
    if model and own:
        path, function = split(model)
        place = f'model=f"{{Path(__file__).with_name({NETWORK!r})}}:{function}"'
        files |= {
            f"digits/{NETWORK}": path.read_text(encoding="utf-8"),
            "digits/server.py": with_path(SERVER.format(model=place)),
            "digits/client.py": with_path(CLIENT.format(model=f", {place}")),
        }
    home = {"config.toml": CONNECTION.format(port=port)}
    with explained(folder, "or choose another folder"):
        parts = [(folder / name, body) for name, body in files.items()]
        parts += [(home_of(folder) / name, body) for name, body in home.items()]
        for path, body in parts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
    return files


def with_path(code: str) -> str:
    """Add the import to a script that the path of a model file needs."""
    return code.replace("\n\nfrom fedcell", "\n\nfrom pathlib import Path\n\nfrom fedcell", 1)


def home_of(folder: Path) -> Path:
    """Flower's own folder, beside that of the app, which is bundled as a whole."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}-flwr")


def commands(folder: Path, n_devices: int, port: int) -> list[str]:
    """What to type, one line each: the server, every device, the run, and a look at its record."""
    link = f"flower-superlink --insecure --disable-runtime-dependency-installation --port {port}"
    nodes = [
        f"flower-supernode --insecure --superlink 127.0.0.1:{port} --port {port + 1 + device} "
        f"--node-config 'partition-id={device} state-dir=\"{folder.resolve()}/device{device}\"'"
        for device in range(n_devices)
    ]
    start = "flwr run . here --stream; fedcell deploy ended runs/digits"
    return [link, *nodes, start, "fedcell show runs/digits"]
