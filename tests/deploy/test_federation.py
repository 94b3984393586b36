"""Real processes on 127.0.0.1: a SuperLink and SuperNodes; some are killed, late, wrong or unknown."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from processes import Commands, Federation, children, consecutive_ports, finished, kill, listens, rows, until

from fedcell import report
from fedcell.cli import main
from fedcell.deploy import example, flower, sealed, settings
from fedcell.resolve import choose
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

DEADLINE_S = 10
NETWORK = f"{Path(__file__).parents[2] / 'examples' / 'small_network.py'}:residual"
SETTINGS = "world.n_devices=4 train.lr=0.3 train.steps=20 model.hidden=16 world.cycles_per_sample=1e5 train.device=cpu"


def app_in(folder, client=None):
    """The app of `fedcell deploy example`, with another client where one is given."""
    example.write(folder, "fedavg", 4, 8000)
    if client:
        shutil.copy(Path(__file__).parent / client, folder / "digits" / "client.py")
    return folder


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Four devices."""
    folder = tmp_path_factory.mktemp("federation")
    made = Federation(folder, app_in(folder / "app", "trouble.py"))
    try:
        made.start_link()
        for device in range(4):
            made.start_node(device)
        yield made
    finally:
        made.stop()


@pytest.fixture
def trouble(federation):
    """Say what devices will do wrong."""

    def say(**kinds):
        for old in federation.folder.glob("device*/asked*"):
            old.unlink()
        (federation.folder / "trouble.json").write_text(json.dumps(kinds))

    say()
    return say


def config(out, method="fedavg", **changes):
    own = {"rounds": 2, "world.deadline_s": 60, **changes}
    return {
        "method": method,
        "out": str(out),
        "settings": " ".join([SETTINGS, *(f"{key}={value}" for key, value in own.items())]),
    }


def simulated(asked):
    found = settings.read({"scenario": "cell", **asked})
    problem = build_problem(found.config)
    return list(simulate(problem, choose(found.method, found.preset, found.settings).build()))


def test_a_server_killed_in_mid_round_goes_on_and_ends_where_the_simulation_ends(federation, trouble, tmp_path, capsys):
    """With gradients of all devices kept on the server, on scaled inputs; the record is read like any other."""
    trouble(**{f"{device}:1": 1 for device in range(4)})
    asked = config(tmp_path / "run", "recycling", **{"data.scaling": "standard"})
    federation.run(**asked)
    until(lambda: len(list(federation.folder.glob("device*/asked1"))) == 4)
    (server,) = children(federation.processes["link-exec"])
    kill(server)
    until(lambda: rows(tmp_path / "run").status.state == "interrupted")
    assert rows(tmp_path / "run").columns["outcome"] == ["DDDD"]
    trouble()
    federation.run(**asked)
    found = finished(tmp_path / "run")
    history = simulated(asked)
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["DDDD"] * 2
    expected = [row.metrics["accuracy"] for row, _ in history]
    assert expected[-1] > 0.4, "it learns"
    assert np.allclose(found.columns["accuracy"], expected, atol=0.006)
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "recycling" in capsys.readouterr().out
    assert report.text([found])


STOCK = """[project]
name = "stock"
version = "1.0.0"
dependencies = []
license = "Apache-2.0"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.flwr.app]
publisher = "engineer"

[tool.flwr.app.components]
serverapp = "stock:server"
clientapp = "stock:client"

[tool.flwr.app.config]
strategy = "cafe:quorum=3"
n-devices = 4
rounds = 2
result = ""
"""


def test_a_stock_flower_app_takes_a_strategy_of_fedcell(federation, tmp_path):
    """Its ClientApp knows nothing of fedcell; the same nodes run it as they run any app."""
    app = tmp_path / "stock"
    app.mkdir()
    (app / "pyproject.toml").write_text(STOCK)
    shutil.copy(Path(__file__).parent / "stock.py", app / "stock.py")
    federation.run(app, result=str(tmp_path / "result.json"))
    until((tmp_path / "result.json").exists, 300)
    found = until(lambda: json.loads((tmp_path / "result.json").read_text() or "0"))
    assert [one["heard"] for one in found["told"].values()] == [4] * 2
    assert found["accuracy"][-1] > found["accuracy"][0] + 0.1, "it learns"


def test_a_regression_ends_where_its_simulation_ends(federation, trouble, tmp_path):
    """Devices have numbers for targets, and rows the metrics of the task."""
    asked = {"scenario": "diabetes", **config(tmp_path / "run")}
    asked["settings"] = asked["settings"].replace("train.lr=0.3", "train.lr=0.0005")
    federation.run(**asked)
    found = finished(tmp_path / "run")
    assert (found.status.state, found.task) == ("finished", "regression")
    assert found.columns["outcome"] == ["DDDD"] * 2
    for name in ("rmse", "mae", "r2"):
        assert np.allclose(found.columns[name], [row.metrics[name] for row, _ in simulated(asked)], rtol=1e-3)
    assert (found.columns["uplink_message_bit"] > found.columns["uplink_bit"]).all()


def test_bad_late_and_killed_devices_are_told_and_lose_nothing_for_the_others(federation, trouble, tmp_path):
    """At once: one sends NaN, one a wrong shape, one is late, the node of one is killed. Last, as that node is lost."""
    trouble(**{"0:0": "nan", "1:0": "shape", "2:0": 60, "3:0": 60})
    federation.run(**config(tmp_path / "run", "m_fedavg", **{"world.deadline_s": DEADLINE_S}))
    until((federation.folder / "device3" / "asked0").exists)
    kill(federation.processes["node3"])
    found = finished(tmp_path / "run")
    told = (tmp_path / "run" / flower.NOTICES).read_text()
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["XXTT", "DD.."], "nobody asks those that are busy or gone"
    assert "round 0: device 0 was turned away: the update holds 1 numbers that are not finite" in told
    assert "round 0: device 1 was turned away: the update is float32" in told
    for device in (2, 3):
        assert f"round 0: device {device} was not heard within {DEADLINE_S}." in told


# ---------------------------------------------------------------- the example as it is printed


def test_the_example_runs_with_the_commands_that_are_printed(tmp_path, capsys, monkeypatch):
    """Flower's own processes, nothing forked: every message starts a Python of its own. The network is a file.

    The last command twice: the second run finds nothing to do, and its app holds nothing of the first.
    """
    port, *_ = consecutive_ports(2)
    monkeypatch.chdir(tmp_path)
    asked = ["--devices", "1", "--port", str(port), "--method", "fedprox:mu=0.1", "--model", NETWORK]
    assert main(["deploy", "example", "here", *asked]) == 0
    link, node, start = [
        line.strip() for line in capsys.readouterr().out.splitlines() if "flower-" in line or "flwr run" in line
    ]
    path = tmp_path / "here" / "pyproject.toml"
    path.write_text(path.read_text().replace("rounds=5", "rounds=1"))
    start = start.partition(" --stream")[0]
    with Commands(tmp_path / "here", example.home_of(tmp_path / "here")) as run:
        run(link)
        until(lambda: listens(port))
        run(node)
        run(start)
        found = finished(tmp_path / "here" / "runs" / "digits")
        run(start)
        log = tmp_path / "here" / "runs" / "digits" / flower.NOTICES
        until(lambda: log.exists() and "nothing to do" in log.read_text())
        sizes = {path.stat().st_size for path in example.home_of(tmp_path / "here").rglob("*.fab")}
        assert len(sizes) <= 1, "what a run leaves behind is not bundled into the next"
    assert main(["deploy", "ended", str(tmp_path / "here" / "runs" / "digits")]) == 0
    assert found.status.state == "finished"
    assert found.columns["outcome"] == ["D"]
    assert found.columns["accuracy"][0] > 0.2
    assert found.config["model"]["name"].endswith("/digits/network.py:residual")


# ---------------------------------------------------------------- TLS, node authentication


def authority(folder):
    """A throwaway certificate authority, and a certificate of it for 127.0.0.1."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def named(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def certificate(subject, key, issuer, by, *extensions):
        made = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named(issuer))
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        now = datetime.now(UTC)
        made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        for extension, critical in extensions:
            made = made.add_extension(extension, critical)
        return made.sign(by, hashes.SHA256())

    root, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    key_id = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    whose = x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key())
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
    top = certificate(
        "throwaway", root, "throwaway", root, (x509.BasicConstraints(True, None), True), (usage, True), (key_id, False)
    )
    mine = certificate("server", server, "throwaway", root, (names, False), (whose, False))
    pem = serialization.Encoding.PEM
    private = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.crt").write_bytes(top.public_bytes(pem))
    (folder / "server.crt").write_bytes(mine.public_bytes(pem))
    (folder / "server.key").write_bytes(server.private_bytes(*private))
    return folder / "ca.crt", folder / "server.crt", folder / "server.key"


def node_key(folder, name):
    """A key pair of a node, as OpenSSH writes them."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    ssh = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    public = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / name).write_bytes(key.private_bytes(*ssh))
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(*public))
    return folder / name


def test_nodes_with_known_keys_train_over_tls_and_an_unknown_one_is_refused(tmp_path):
    """Answers are sealed for the server besides: with another key it cannot read them."""
    ca, certificate, key = authority(tmp_path)
    sealing = f'server-key="{sealed.write_key(tmp_path / "ours.key")}"'
    sealed.write_key(tmp_path / "other.key")
    link = ["--ssl-ca-certfile", ca, "--ssl-certfile", certificate, "--ssl-keyfile", key, "--enable-supernode-auth"]
    trust = ["--root-certificates", ca]
    made = Federation(tmp_path / "here", app_in(tmp_path / "app"), (link, trust, {"root-certificates": str(ca)}))
    try:
        made.start_link()
        for device in range(2):
            secret = node_key(tmp_path, f"key{device}")
            made.start(f"register{device}", "flwr", "supernode", "register", f"{secret}.pub", "here")
            until(lambda: "success" in made.log(f"register{device}").lower())  # noqa: B023 - called at once
            (node,) = set(re.findall(r"\d{12,}", made.log(f"register{device}")))
            with (tmp_path / "nodes").open("a") as file:
                file.write(f"{device} {node}\n")
            made.start_node(device, *trust, "--auth-supernode-private-key", secret, knows=sealing)
        stranger = node_key(tmp_path, "stranger")
        made.start_node(2, *trust, "--auth-supernode-private-key", stranger)
        made.start_node(3, "--insecure", "--max-retries", "0")
        asked = {"min-devices": 2, "known-nodes": str(tmp_path / "nodes")}
        made.run(**config(tmp_path / "run-ours", rounds=1), **asked, **{"seal-key": str(tmp_path / "ours.key")})
        found = finished(tmp_path / "run-ours")
        assert found.status.state == "finished"
        assert found.columns["outcome"] == ["DD.."]
        asked["join-s"] = 3.0
        made.run(**config(tmp_path / "run-other", rounds=1), **asked, **{"seal-key": str(tmp_path / "other.key")})
        assert "0 of 2 devices" in finished(tmp_path / "run-other").status.message
        told = (tmp_path / "run-ours" / flower.NOTICES).read_text()
        assert "device 2" not in told
        assert "device 3" not in told
        assert "Failed to initialize the connection" in made.log("node2")
    finally:
        made.stop()
