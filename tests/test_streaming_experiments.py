"""Verdicts of the experiments on streaming caches, on made-up runs, and the label laws that need no training."""

import gzip
import re
import zipfile
from importlib import import_module as module

import numpy as np
import pytest
from judged import check_without_runs, opened

from fedcell.data import cache_dir, load
from fedcell.errors import BadInput
from fedcell.experiment import judge, run_case
from fedcell.scenarios.streaming_traffic import TRAFFIC

SEEDS = (1, 2, 3, 4)
ROUNDS = list(range(4, 301, 4))
_opened = opened("streaming")


def a_run(case, seed, level, wobble=0.0, start=0.3):
    at = np.array(ROUNDS)
    curve = level - (level - start) * np.exp(-at / 40) + wobble * (-1.0) ** (at / 4) + 0.0005 * (seed % 3)
    columns = [value if n in ROUNDS else None for n, value in zip(range(1, 301), np.repeat(curve, 4), strict=True)]
    return {"case": case, "seed": seed, "rounds": ROUNDS, "accuracy": curve.tolist(), "balanced_accuracy": columns}


def verdicts(name, rows):
    return {finding.claim: finding.verdict for finding in judge(module(name).EXPERIMENT, rows)}


@pytest.mark.parametrize("name", ["fig3", "fig4", "fig5", "fig6", "fig7", "learning_rate"])
def test_without_runs(name):
    check_without_runs(name)


def test_rules_in_the_published_order():
    figure = module("fig3")
    level = {"full": 0.80, "drsr": 0.79, "srsr": 0.785, "fifo": 0.76, "lazy": 0.65}
    less = {"traffic": 1.0, "fashion": 0.4}  # the gain over LAZY is smaller there

    def runs(of):
        return [
            a_run(f"{data}/{figure.setting.name(rule)}", seed, 0.65 + share * (value - 0.65), start=value - 0.2)
            for data, share in less.items()
            for rule, value in of.items()
            for seed in SEEDS
        ]

    assert set(verdicts("fig3", runs(level)).values()) == {"reproduced"}
    figure.EXPERIMENT.plot(runs(level))
    judged = verdicts("fig3", runs(dict(zip(level, (0.7, 0.6, 0.6, 0.72, 0.75), strict=True))))
    assert set(judged.values()) == {"not reproduced"}
    one = [row for row in runs(level) if row["case"].startswith("fashion")]
    assert verdicts("fig3", one)["beat_lazy"] == "partly", "half of it is on the traffic data"


def test_sizes_of_caches():
    figure = module("fig6")

    def runs(small, large, start=0.3):
        return [
            a_run(f"{data}/{figure.setting.name(rule, size, size // 10)}", seed, level, start=start)
            for data in ("traffic", "fashion")
            for rule in figure.RULES
            for size, level in ((100, small), (300, large))
            for seed in SEEDS
        ]

    judged = verdicts("fig6", runs(0.72, 0.83))
    assert judged == {"better": "reproduced", "at_200": "reproduced", "faster": "reproduced"}
    judged = verdicts("fig6", runs(0.9, 0.6))
    assert set(judged.values()) == {"not reproduced"}


def test_theta_by_accuracy_and_by_labels():
    figure = module("fig7")
    labels = [run_case(case, seed) for case in figure.cases(False) if case.measure for seed in case.seeds[:4]]
    assert {row["case"].partition("/")[0] for row in labels} == {"labels"}
    judged = verdicts("fig7", labels)
    assert judged["labels_large"] == judged["labels_small"] == "reproduced"
    assert judged["large_batch"] == "not run"
    rows = []
    for data in ("traffic", "fashion"):
        for place, theta in enumerate(figure.THETAS):
            for seed in SEEDS:
                large, small = figure._case(data, 150, theta), figure._case(data, 30, theta)
                rows.append(a_run(large, seed, 0.8 - 0.02 * place, wobble=0.001 * (1 + place) * (1 + seed / 100)))
                rows.append(a_run(small, seed, 0.8, start=0.1 if place == 0 else 0.4))
        rows += [a_run(f"{data}/{figure.setting.name('drsr', 300, b)}", seed, 0.8) for b in (30, 150) for seed in SEEDS]
    judged = verdicts("fig7", rows)
    assert [judged[key] for key in ("large_batch", "variation", "small_batch", "drsr")] == ["reproduced"] * 4


def test_label_runs_are_the_label_law():
    """psi_t of a run without training is that of the theory's own trace."""
    setting = module("streaming_setting")
    case = setting.label_cases(setting.grid(("drsr",)))[0]
    rows = [run_case(case, seed) for seed in (1, 2)]
    psi = setting.discrepancy(rows, setting.name("drsr"))
    assert psi.shape == (2, 300)
    assert psi[:, 200:].mean() < psi[:, :100].mean()


def test_variance_between_runs():
    figure = module("fig5")
    rows = []
    for case in figure.cases(False):
        for seed in SEEDS:
            row = a_run(case.key, seed, 0.8)
            spread = np.linspace(0.05, 0.001 if "drsr" in case.key else 0.05, len(ROUNDS)) * (seed - 2.5)
            values = iter(np.array(row["accuracy"]) + spread)
            row["balanced_accuracy"] = [None if value is None else next(values) for value in row["balanced_accuracy"]]
            rows.append(row)
    assert verdicts("fig5", rows)["variance"] == "reproduced"
    other = {"drsr": "srsr(2/3)", "srsr": "drsr"}
    turned = [row | {"case": re.sub(r"(drsr|srsr)\S*", lambda found: other[found[1]], row["case"])} for row in rows]
    assert verdicts("fig5", turned)["variance"] == "not reproduced"


# ---------------------------------------------------------------- the traffic file


def idx(values):
    """Bytes of an idx file."""
    return bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape) + values.tobytes()


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A small archive of the same shape, and its checksums."""
    traffic = module("traffic_file")
    rng = np.random.default_rng(1)
    arrays = {}
    for half, n in (("train", 30), ("test", 12)):
        arrays[f"x_{half}"] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"y_{half}"] = rng.integers(0, 12, n, dtype=np.uint8)
    sums = {half: traffic.checksum(arrays[f"x_{half}"], arrays[f"y_{half}"]) for half in ("train", "test")}
    monkeypatch.setattr(traffic, "SHA256", sums)

    def write(changed=None, packed=False, folder="12class/SessionAllLayers"):
        path = tmp_path / "12class.zip"
        with zipfile.ZipFile(path, "w") as file:
            for name, wanted in traffic.FILES.items():
                raw = idx({**arrays, **(changed or {})}[name])
                file.writestr(f"{folder}/{wanted}{'.gz' * packed}", gzip.compress(raw) if packed else raw)
            file.writestr(f"12class/SessionL7/{traffic.FILES['x_train']}", b"another layer")
        return path

    return write, arrays


@pytest.mark.parametrize("packed", [False, True])
def test_the_traffic_file_is_built_and_loads(archive, tmp_path, packed):
    write, arrays = archive
    out = tmp_path / "new" / "traffic.npz"
    module("traffic_file").main([str(write(packed=packed)), "--out", str(out)])
    with np.load(out) as found:
        assert all((found[name] == values).all() for name, values in arrays.items())
        assert found["classes"][[0, 11]].tolist() == ["Chat", "VPN_VoIP"]
    data = load(str(out))
    assert (len(data.x_train), len(data.x_test)) == (30, 12)


def test_another_archive_is_refused_in_a_sentence(archive, tmp_path, capsys):
    traffic, (write, arrays) = module("traffic_file"), archive
    changed = arrays["x_test"].copy()
    changed[3, 2, 1] ^= 1
    (tmp_path / "text.zip").write_text("no archive")
    for make, words in (
        (lambda: write({"x_test": changed}), "not the published sessions"),
        (lambda: write(folder="other"), "is it 12class.zip?"),
        (lambda: write({name: arrays[name][:-1] for name in ("x_train", "y_train")}), "not the published sessions"),
        (lambda: tmp_path / "text.zip", "download it again"),
        (lambda: tmp_path / "nowhere.zip", "download it again"),
    ):
        with pytest.raises(SystemExit) as caught:
            traffic.main([str(make()), "--out", str(tmp_path / "x.npz")])
        assert caught.value.code == 2
        assert words in capsys.readouterr().out
    assert not (tmp_path / "x.npz").exists()
    with pytest.raises(BadInput, match="cut short"):
        traffic.parse(idx(arrays["x_test"])[:-5], "x")


def test_order_does_not_matter_and_bits_do(archive):
    traffic, (_, arrays) = module("traffic_file"), archive
    x, y = arrays["x_train"], arrays["y_train"]
    order = np.random.default_rng(2).permutation(len(x))
    assert traffic.checksum(x[order], y[order]) == traffic.checksum(x, y)
    assert traffic.checksum(x[order], y) != traffic.checksum(x, y)


@pytest.mark.skipif(not (cache_dir() / TRAFFIC).is_file(), reason="the traffic file is not in the data folder")
def test_the_published_samples_have_the_checksums():
    traffic = module("traffic_file")
    with np.load(cache_dir() / TRAFFIC) as found:
        for half, wanted in traffic.SHA256.items():
            assert traffic.checksum(found[f"x_{half}"], found[f"y_{half}"]) == wanted
