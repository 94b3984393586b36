"""Texts by rule: every author speaks the same small language with habits of its own, one author per device.

A text is a chain of sentences, `the old miller counts a red coin, and sleeps.`, whose words an author draws from word
lists that all share, by preferences drawn for the author from a symmetric Dirichlet law with concentration `alpha`.
Spelling and grammar are common to all, so that a model learns from everybody; which word comes next differs. A sample
is `length` characters and the characters that follow each of them. Every author's last texts are its test samples.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..options import check, option
from ..rng import SETUP, stream
from ..types import Ints, Store

WORDS = {
    "article": ("the", "a", "one", "every", "no", "some"),
    "adjective": ("old", "red", "quiet", "small", "bright", "slow", "cold", "brave", "plain", "odd"),
    "noun": (
        "miller",
        "river",
        "coin",
        "lamp",
        "sailor",
        "garden",
        "horse",
        "letter",
        "winter",
        "bridge",
        "stone",
        "bird",
    ),
    "verb": ("counts", "sees", "carries", "follows", "paints", "forgets", "keeps", "breaks", "finds", "hears"),
    "ending": ("sleeps", "waits", "sings", "leaves", "returns", "smiles"),
    "link": ("and", "but", "then", "while"),
}
SENTENCE = ("article", "adjective", "noun", "verb", "article", "noun")
LETTERS = " .," + "".join(sorted({letter for words in WORDS.values() for word in words for letter in word}))


@dataclass(frozen=True)
class CharactersConfig:
    """Texts of authors, one per device."""

    length: int = option(32, "characters of a sample", least=2, most=4096)
    samples: int = option(60, "samples of every author to train on", least=1)
    test_samples: int = option(10, "samples of every author to test on", least=1)
    alpha: float = option(0.5, "concentration of the words that an author prefers: small is more skewed", above=0)


class Corpus(NamedTuple):
    """Characters as positions in `LETTERS`, and the samples of each author."""

    x_train: Ints  # [n_train, length]
    y_train: Ints  # [n_train, length], what follows each
    x_test: Ints  # [n_test, length]
    y_test: Ints  # [n_test, length]
    store: Store  # the samples of every author to train on


def draw_corpus(settings: CharactersConfig, n_authors: int, seed: int) -> Corpus:
    """The texts of all authors, cut into samples."""
    check(settings, "characters.")
    each, length = settings.samples + settings.test_samples, settings.length
    code = {letter: number for number, letter in enumerate(LETTERS)}
    x, y = (np.empty((n_authors, each, length), dtype=np.int64) for _ in range(2))
    for author in range(n_authors):
        text = write(settings.alpha, each * length + 1, seed, author)
        numbers = np.array([code[letter] for letter in text], dtype=np.int64)
        x[author], y[author] = (part.reshape(each, length) for part in (numbers[:-1], numbers[1:]))
    train, test = slice(None, settings.samples), slice(settings.samples, None)
    parts = [part[:, which].reshape(-1, length) for which in (train, test) for part in (x, y)]
    items = np.arange(n_authors * settings.samples).reshape(n_authors, -1)
    return Corpus(parts[0], parts[1], parts[2], parts[3], Store(items, np.full(n_authors, settings.samples)))


def write(alpha: float, n_letters: int, seed: int, author: int) -> str:
    """Write `n_letters` characters of one author.

    >>> write(0.5, 20, 1, 0) == write(0.5, 20, 1, 0), set(write(0.5, 500, 1, 3)) <= set(LETTERS)
    (True, True)
    """
    draw = stream(seed, SETUP, f"author {author}")
    taste = {kind: draw.dirichlet(np.full(len(words), alpha)) for kind, words in WORDS.items()}

    def word(kind: str) -> str:
        return WORDS[kind][int(draw.choice(len(WORDS[kind]), p=taste[kind]))]

    text = ""
    while len(text) < n_letters:
        said = " ".join(map(word, SENTENCE))
        text += f"{said}, {word('link')} {word('ending')}. "
    return text[:n_letters]
