"""Which task arrays are for, targets that fit it, and splits that need labels."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes

from fedcell import options, scenarios
from fedcell.data import from_arrays, load
from fedcell.data.characters import LETTERS, WORDS, CharactersConfig, draw_corpus, write
from fedcell.data.datasets import retasked
from fedcell.data.targets import resolve_task
from fedcell.errors import BadInput

X, FEW = np.zeros((6, 3)), np.zeros((2, 3))
TOKENS = np.arange(24).reshape(6, 4) % 5
BITS = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]])


@pytest.mark.parametrize(
    ("x", "y", "task"),
    [
        (X, np.array([0, 1, 2, 0, 1, 2]), "classification"),
        (X, np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]), "classification"),
        (X, np.array([0.5, 1.0, 2.0, 0.0, 1.0, 2.0]), "regression"),
        (X, np.linspace(0, 1, 12).reshape(6, 2), "regression"),
        (X, torch.linspace(-1, 1, 6), "regression"),
        (X, BITS, "multi-label"),
        (X, BITS.astype(bool), "multi-label"),
        (X, BITS.astype(float), "multi-label"),
        (TOKENS, TOKENS, "next-token"),
    ],
)
def test_the_task_is_what_the_targets_look_like(x, y, task):
    data = from_arrays(x, y, x[:2], y[:2])
    assert data.task == task == resolve_task("auto", x, y, y)
    assert data.y_train.dtype == (np.float32 if task in ("regression", "multi-label") else np.int64)
    assert len(data.y_train) == len(data.x_train) == 6


def test_an_explicit_task_wins():
    y = np.array([0, 1, 2, 0, 1, 2])
    data = from_arrays(X, y, FEW, y[:2], task="regression")
    assert (data.task, data.n_classes, data.y_train.shape) == ("regression", 1, (6, 1))
    back = retasked(data, "classification")
    assert back.y_train.tolist() == y.tolist()
    config = options.override(scenarios.get("cell").config, {"data.task": "regression", "data.partition": "iid"})
    assert scenarios.build_problem(config).learner.task.name == "regression"  # of digits: their number


@pytest.mark.parametrize(
    ("task", "x", "y", "words"),
    [
        ("auto", X, np.eye(6), "argmax"),
        ("multi-label", X, BITS * 2, "holds 2: a label of the task 'multi-label' is 0 or 1"),
        ("next-token", TOKENS, TOKENS[:, :2], "has shape .* tokens\\[:, :-1\\]"),
        ("next-token", TOKENS, TOKENS - 1.5, "holds no tokens"),
        ("next-token", TOKENS * -1, TOKENS, "holds no tokens"),
        ("regression", X, np.array([1, 2, np.nan, 1, 2, 3]), "nan"),
        ("regression", X, np.array(list("abcdef")), "give numbers"),
        ("regression", X, np.zeros((6, 2, 2)), r"y_train .* has shape \(6, 2, 2\): give a row of targets per sample"),
        ("multi-label", X, np.zeros((6, 2, 2)), r"has shape \(6, 2, 2\)"),
        ("regresion", X, np.zeros(6), "did you mean 'regression'"),
    ],
)
def test_targets_that_do_not_fit_are_refused(task, x, y, words):
    with pytest.raises(BadInput, match=words):
        from_arrays(x, y, x[:2], y[:2], task=task)


def test_targets_of_other_width_are_refused():
    with pytest.raises(BadInput, match="y_test of 'arrays' has 2 columns and y_train 3"):
        from_arrays(X, BITS, FEW, BITS[:2, :2], task="multi-label")


def test_byte_tokens_are_not_scaled():
    data = from_arrays(TOKENS.astype(np.uint8), TOKENS.astype(np.uint8), TOKENS[:1], TOKENS[:1])
    np.testing.assert_array_equal(data.x_train, TOKENS)
    assert (data.task, data.n_classes) == ("next-token", 5)


def test_an_npz_file_holds_any_task(tmp_path):
    path = tmp_path / "numbers.npz"
    np.savez(path, x_train=X, y_train=np.linspace(0, 1, 6), x_test=FEW, y_test=np.array([0.5, 0.25]))
    assert load(str(path)).task == "regression"


def test_diabetes_is_that_of_scikit_learn():
    data, theirs = load("diabetes"), load_diabetes(scaled=False)
    assert (data.task, len(data.x_train), len(data.x_test)) == ("regression", 354, 88)
    rows = {tuple(row) for row in np.column_stack([theirs.data, theirs.target]).astype(np.float32)}
    ours = np.concatenate([np.column_stack([data.x_train, data.y_train]), np.column_stack([data.x_test, data.y_test])])
    assert {tuple(row) for row in ours} == rows


def test_tags_have_labels():
    data = load("tags")
    assert (data.task, data.n_classes, len(data.x_train), len(data.x_test)) == ("multi-label", 8, 1600, 400)
    assert 0.05 < data.y_train.mean() < 0.6


# ---------------------------------------------------------------- rules that look at labels


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"data.partition": "dirichlet"},
            "data.partition = 'dirichlet' needs class labels, which the task 'regression'",
        ),
        ({"data.partition": "shards"}, "'shards' needs class labels"),
        ({"data.partition": "classes"}, "'classes' needs class labels"),
        ({"stream.kind": "markov", "data.partition": "dirichlet"}, "stream.kind = 'markov' needs class labels"),
        ({"stream.kind": "binomial", "stream.cache": "drsr"}, "stream.cache = 'drsr' needs class labels"),
    ],
)
def test_rules_that_need_labels_are_refused(changes, words):
    config = options.override(scenarios.get("diabetes").config, changes)
    with pytest.raises(BadInput, match=words):
        scenarios.build_problem(config)


def test_a_stream_without_labels_arrives():
    config = options.override(scenarios.get("diabetes").config, {"stream.kind": "binomial", "stream.cache": "fifo"})
    assert scenarios.build_problem(config).learner.task.name == "regression"


def test_tokens_are_not_scaled():
    config = options.override(scenarios.get("cell").config, {"data.scaling": "standard", "data.partition": "iid"})
    with pytest.raises(BadInput, match="would change the tokens"):
        scenarios.build_problem(config, from_arrays(TOKENS, TOKENS, TOKENS, TOKENS))


# ---------------------------------------------------------------- texts


def test_texts_continue_where_samples_end():
    found = draw_corpus(CharactersConfig(length=8, samples=5, test_samples=2), 3, 1)
    assert found.x_train.shape == found.y_train.shape == (15, 8)
    assert found.x_test.shape == (6, 8)
    np.testing.assert_array_equal(found.x_train[:, 1:], found.y_train[:, :-1])
    text = write(0.5, 7 * 8 + 1, 1, 2)
    assert "".join(LETTERS[one] for one in found.x_train[10:15].ravel()) == text[:40]
    assert "".join(LETTERS[one] for one in found.y_test[4:6].ravel()) == text[41:57]
    assert found.store.items[2].tolist() == [10, 11, 12, 13, 14]


def test_authors_share_words_and_differ_in_their_use():
    texts = [write(0.5, 20_000, 1, author) for author in range(3)]
    known = {word for words in WORDS.values() for word in words}
    assert all(set(text[: text.rfind(" ")].replace(",", "").replace(".", "").split()) <= known for text in texts)
    shares = np.array([[text.count(f" {noun}") for noun in WORDS["noun"]] for text in texts], float)
    shares /= shares.sum(axis=1, keepdims=True)
    assert np.abs(shares[0] - shares[1]).sum() > 0.3
    other = write(0.5, 20_000, 2, 0)
    assert other != texts[0]
