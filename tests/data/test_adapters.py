"""Data sets of PyTorch, Hugging Face and LEAF, CIFAR-100 by hand; and what is warned of."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset

import fedcell
from fedcell.cli import main
from fedcell.data import from_arrays, load
from fedcell.errors import BadInput

SMALL = {"rounds": 1, "world.n_devices": 2, "model.name": "logistic", "train.steps": 1}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "cache"))


# ---------------------------------------------------------------- PyTorch


def test_a_torch_data_set_is_the_same_arrays():
    x, y = torch.rand(12, 1, 4, 4), torch.arange(12) % 3
    whole = TensorDataset(x, y)
    data = fedcell.from_torch(
        Subset(whole, range(9)), Subset(whole, range(9, 12)), name="mine", owners=list("aabbccabc")
    )
    assert np.array_equal(data.x_train, x[:9].numpy())
    assert data.y_test.tolist() == y[9:].tolist()
    assert data.owners.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    (record,) = fedcell.run("fedavg", settings=SMALL | {"data.partition": "given"}, dataset=data)
    assert record.status.state == "finished"


class Images(torch.utils.data.Dataset):
    """As torchvision has them: a transform, and labels that are plain numbers."""

    def __len__(self):
        return 4

    def __getitem__(self, place):
        return np.full((6, 5, 3), 51 * place, np.uint8), place % 2


def test_bytes_are_scaled_and_turned_around():
    data = fedcell.from_torch(Images(), Images())
    assert data.x_train.shape == (4, 3, 6, 5)
    assert data.x_train[1].max() == pytest.approx(0.2)


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3), 0


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        (Images(), None, "'torch' has no test split: give a data set to test on"),
        (Stream(), Images(), "the train split of 'torch' is a Stream: give one with a length and items"),
        (TensorDataset(torch.zeros(2, 3)), Images(), r"item 0 of the train split of 'torch' is a tuple: let it be"),
        ([], Images(), "the train split of 'torch' is empty"),
        ([(np.zeros(3), 0), (np.zeros(4), 1)], Images(), "has samples of different shapes"),
    ],
)
def test_what_is_no_data_set_of_torch_is_refused(train, test, words):
    with pytest.raises(BadInput, match=words):
        fedcell.from_torch(train, test)


# ---------------------------------------------------------------- Hugging Face


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "image": [rng.integers(0, 255, (4, 4), np.uint8) for _ in range(n)],
        "label": [int(one) for one in np.arange(n) % 3],
        "kind": [("cat", "dog", "eel")[place % 3] for place in range(n)],
        "writer": [f"w{place % 4}" for place in range(n)],
    }


@pytest.fixture(scope="module")
def datasets():
    """The package of Hugging Face, which is slow to import in every process that collects this file."""
    import datasets

    return datasets


@pytest.fixture
def on_disk(datasets, tmp_path):
    """A small data set as `save_to_disk` writes it."""
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "kind": datasets.Value("string"),
            "writer": datasets.Value("string"),
        }
    )
    halves = {name: datasets.Dataset.from_dict(rows(n), features=features) for name, n in (("train", 12), ("test", 6))}
    datasets.DatasetDict(halves).save_to_disk(tmp_path / "letters")
    return tmp_path / "letters"


def test_a_data_set_on_disk_is_read_with_its_columns(on_disk):
    data = load(f"hf:{on_disk}#label,owner=writer")
    assert data.x_train.shape == (12, 1, 4, 4)
    assert np.allclose(data.x_train[:, 0] * 255, np.stack(rows(12)["image"]))
    assert data.y_train.tolist() == rows(12)["label"]
    assert data.owners.tolist() == [0, 1, 2, 3] * 3
    assert data.test_owners.tolist() == [0, 1, 2, 3, 0, 1]
    assert load(f"hf:{on_disk}").y_train.tolist() == data.y_train.tolist()  # the usual names
    assert load(f"hf:{on_disk}#kind").y_test.tolist() == [0, 1, 2] * 2  # texts are numbered


def test_it_runs_from_the_command_line(on_disk, capsys):
    flags = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    flags += ["--set", f"data.name=hf:{on_disk}#label,owner=writer", "--set", "data.partition=given"]
    assert main(["run", "fedavg", "--quiet", "--out", "o", *flags]) == 0
    assert main(["run", "--resume", "o", "--quiet"]) == 0


def test_a_folder_of_files_and_the_cache_are_read_offline(datasets, tmp_path, monkeypatch):
    numbers = {"x": [[0.1 * place, 1.0] for place in range(6)], "label": [0, 1] * 3}
    for name in ("train", "test"):
        (tmp_path / "plain").mkdir(exist_ok=True)
        datasets.Dataset.from_dict(numbers).to_parquet(tmp_path / "plain" / f"{name}.parquet")
    data = load(f"hf:{tmp_path / 'plain'}#label")
    assert data.x_train.shape == (6, 2)
    with pytest.raises(BadInput, match=r"is neither a folder nor in the cache of datasets .* fetch it once"):
        load("hf:nobody/nothing#label")


class EveryThird:
    """What `flwr_datasets.partitioner` has, as far as it is used."""

    def __init__(self, num_partitions, deal=lambda n: np.arange(n) % 3):
        self.num_partitions, self.deal = num_partitions, deal

    def load_partition(self, partition_id):
        return self.dataset.select(np.flatnonzero(self.deal(len(self.dataset)) == partition_id))


def test_a_partitioner_gives_samples_their_owners(datasets, on_disk):
    found = datasets.load_from_disk(str(on_disk))
    data = fedcell.from_huggingface(found, partitioner=EveryThird(3))
    assert data.owners.tolist() == [0, 1, 2] * 4
    assert fedcell.from_huggingface(str(on_disk), partitioner=EveryThird(3)).owners.tolist() == [0, 1, 2] * 4
    assert found["train"].column_names == ["image", "label", "kind", "writer"]  # as it was
    with pytest.raises(BadInput, match="owner 3 of 'huggingface' has no samples: give the partitioner fewer"):
        fedcell.from_huggingface(found, partitioner=EveryThird(4))
    fewer = fedcell.from_huggingface(found, partitioner=EveryThird(2, deal=lambda n: np.arange(n) // 4))
    assert fewer.owners.tolist() == [0] * 4 + [1] * 4  # the last third is nobody's
    assert fewer.y_train.tolist() == rows(12)["label"][:8]
    twice = EveryThird(2, deal=lambda n: np.zeros(n))
    twice.load_partition = lambda partition_id: twice.dataset
    with pytest.raises(BadInput, match="to owner 1 that others have: each has one owner"):
        fedcell.from_huggingface(found, partitioner=twice)
    with pytest.raises(BadInput, match="owners = 'writer' and a partitioner: drop one"):
        fedcell.from_huggingface(found, owners="writer", partitioner=EveryThird(3))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("#lable", "has no column 'lable': did you mean 'label'?"),
        ("#label,owner=user", "has no column 'user'"),
        ("#label,test=validation", "has no split 'validation' but train, test: name another one"),
        ("#label,label=kind", "has 'label=kind' in it: write hf:NAME#label,owner=COLUMN,input=COLUMN"),
        ("#label,writer", "has 'writer' in it"),
        ("#label,input=writer", "holds <U2 values: give numbers"),
    ],
)
def test_columns_and_splits_that_are_not_there_are_refused(on_disk, columns, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        load(f"hf:{on_disk}{columns}")


def test_a_data_set_without_a_test_split_is_refused(datasets, on_disk):
    halves = datasets.load_from_disk(str(on_disk))
    with pytest.raises(
        BadInput, match="has no split 'test' but train: name another one, or make one with train_test_split"
    ):
        fedcell.from_huggingface(datasets.DatasetDict({"train": halves["train"]}))
    with pytest.raises(BadInput, match=r"is a Dataset: give a datasets\.DatasetDict"):
        fedcell.from_huggingface(halves["train"])


def test_without_the_package_the_fix_is_named(monkeypatch):
    monkeypatch.setattr("fedcell.data.huggingface.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"needs datasets, which is not installed: .*'fedcell\[hf\]'"):
        load("hf:mnist#label")


# ---------------------------------------------------------------- LEAF


def leaf(folder, users, part="train", file="all_data_0.json"):
    path = folder / part / file
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = {
        user: {"x": [[0.5 * n, 1, 2, 3] for n in range(size)], "y": [n % 2 for n in range(size)]}
        for user, size in users.items()
    }
    path.write_text(json.dumps({"users": list(users), "num_samples": list(users.values()), "user_data": samples}))
    return path


def test_users_of_leaf_are_owners(tmp_path):
    leaf(tmp_path, {"ada": 3, "bob": 2})
    leaf(tmp_path, {"eve": 4}, file="all_data_1.json")
    leaf(tmp_path, {"eve": 1, "ada": 2}, "test")
    data = load(f"leaf:{tmp_path}")
    assert data.owners.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert data.test_owners.tolist() == [2, 0, 0]
    assert load(f"leaf:{tmp_path}#1x2x2").x_train.shape == (9, 1, 2, 2)
    changes = SMALL | {"data.name": f"leaf:{tmp_path}", "data.partition": "given", "world.n_devices": 3}
    assert fedcell.run("fedavg", settings=changes)[0].status.state == "finished"


def test_what_is_no_leaf_is_refused(tmp_path):
    with pytest.raises(BadInput, match="is no folder"):
        load("leaf:nowhere")
    path = leaf(tmp_path, {"ada": 3, "bob": 2})
    with pytest.raises(BadInput, match=r"has no test split: put its \.json files into"):
        load(f"leaf:{tmp_path}")
    leaf(tmp_path, {"ada": 2}, "test")
    with pytest.raises(BadInput, match="are no 1x28x28: write the shape as"):
        load(f"leaf:{tmp_path}#1x28x28")
    leaf(tmp_path, {"ada": 3, "bob": 0})
    with pytest.raises(BadInput, match=r"user 'bob' of .* has no samples: leave the user out"):
        load(f"leaf:{tmp_path}")
    leaf(tmp_path, {"ada": 3})
    path.write_text(path.read_text().replace("[3]", "[5]"))
    with pytest.raises(BadInput, match="has 3 x and 3 y for num_samples = 5"):
        load(f"leaf:{tmp_path}")
    path.write_text('{"users": 3}')
    with pytest.raises(BadInput, match="is no file of LEAF"):
        load(f"leaf:{tmp_path}")
    path.write_text(json.dumps({"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": ["text"], "y": [0]}}}))
    with pytest.raises(BadInput, match="such as texts: turn them into numbers first"):
        load(f"leaf:{tmp_path}")


# ---------------------------------------------------------------- CIFAR-100


def test_cifar100_is_read_where_a_user_has_the_files(tmp_path, capsys):
    folder = tmp_path / "cache" / "cifar100"
    with pytest.raises(BadInput, match=r"put train.bin and test.bin of its binary version into .*cifar100"):
        load("cifar100")
    assert main(["data", "get", "cifar100"]) == 2
    assert "cannot be fetched" in capsys.readouterr().err
    folder.mkdir(parents=True)
    for name, n in (("train.bin", 200), ("test.bin", 100)):
        records = np.random.default_rng(0).integers(0, 255, (n, 3074), np.uint8)
        records[:, 0], records[:, 1] = np.arange(n) % 20, np.arange(n) % 100
        records.tofile(folder / name)
    data = load("cifar100")
    assert (data.x_train.shape, data.n_classes) == ((200, 3, 32, 32), 100)
    assert np.allclose(data.x_test[5].reshape(-1) * 255, records[5, 2:])
    assert load("cifar100-coarse").n_classes == 20
    (folder / "test.bin").write_bytes(b"x" * 3075)
    with pytest.raises(BadInput, match="has 3075 bytes, which are no records of 3074"):
        load("cifar100")


# ---------------------------------------------------------------- warnings


def test_labels_that_skip_0_are_warned_of():
    with pytest.warns(UserWarning, match="has labels from 1 to 2 and none is 0.* subtract the smallest label"):
        from_arrays(np.zeros((4, 2)), [1, 2, 1, 2], np.zeros((1, 2)), [1])


def test_numbers_that_look_like_images_with_channels_last_are_warned_of():
    x = np.zeros((4, 8, 8, 3), np.float32)
    with pytest.warns(UserWarning, match="whose channels seem to be last") as said:
        data = from_arrays(x, [0, 1, 0, 1], x, [0, 1, 0, 1])
    assert len(said) == 2  # of both halves
    assert data.x_train.shape == (4, 8, 8, 3)  # as given
    from_arrays(np.zeros((4, 3, 8, 8)), [0, 1, 0, 1], np.zeros((4, 3, 8, 8)), [0, 1, 0, 1])


def test_the_command_line_warns_in_a_sentence(tmp_path, capsys):
    x = np.random.default_rng(0).random((6, 2))
    np.savez(tmp_path / "odd.npz", x_train=x, y_train=[1, 2, 1, 2, 1, 2], x_test=x, y_test=[1, 2, 1, 2, 1, 2])
    flags = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    assert main(["run", "fedavg", "--quiet", "--set", "data.name=odd.npz", *flags]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "none is 0" in line]
    assert len(lines) == 1
    assert lines[0].startswith("fedcell: y_train of 'odd.npz'")
    assert Path("runs").exists()


def test_a_data_set_whose_items_cannot_be_read_is_refused():
    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, place):
            raise OSError("the disk is gone")

    with pytest.raises(BadInput, match=r"item 0 of the train split .* \(OSError: the disk is gone\): correct the data"):
        fedcell.from_torch(Broken(), Broken())
