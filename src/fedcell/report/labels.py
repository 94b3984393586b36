"""What groups of runs are called: by what tells them apart, in numeric order, or as the user likes.

The full name of a group is the method's text, then what differs in the world, then the method's own settings if
needed. Its label leaves out the settings that all texts share, and the folders of method files.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..options import written
from ..record import Record

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
Varied = Mapping[str, Any]


def full_names(firsts: Sequence[Record], varied: Sequence[Varied]) -> list[str]:
    """The method's text, then what differs in the world, then the method's settings if needed."""
    shown = _shown(varied)
    labels = [
        " ".join([one.label, *(f"{key}={written(values[key])}" for key in shown)])
        for one, values in zip(firsts, varied, strict=True)
    ]
    twins = [[other for other, label in zip(firsts, labels, strict=True) if label == mine] for mine in labels]
    told = [
        label + (_own_settings(one, alike) if len(alike) > 1 else "")
        for label, one, alike in zip(labels, firsts, twins, strict=True)
    ]
    return [label if told.count(label) == 1 else f"{label} #{index + 1}" for index, label in enumerate(told)]


def short_labels(names: Sequence[str], texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels that name only what differs, and the settings that all groups share, which no label repeats.

    Args:
        names: full names of the groups, each of which begins with its method's text.
        texts: the methods' texts.

    >>> short_labels(["./a/mine.py:b=1,lr=2 rounds=3", "fedavg:lr=2"], ["./a/mine.py:b=1,lr=2", "fedavg:lr=2"])
    (['mine.py:b=1 rounds=3', 'fedavg'], ['lr=2'])
    """
    split = [split_text(text) for text in texts]
    shared = [pair for pair in split[0][1] if all(pair in pairs for _, pairs in split)] if len(texts) > 1 else []
    labels = []
    for name, text, (method, pairs) in zip(names, texts, split, strict=True):
        kept = [pair for pair in pairs if pair not in shared]
        begin = "+".join(Path(part).name if part.endswith(".py") else part for part in method.split("+"))
        labels.append(begin + (f":{','.join(kept)}" if kept else "") + name.removeprefix(text))
    return (labels, shared) if len(set(labels)) == len(names) else (list(names), [])


def split_text(text: str) -> tuple[str, list[str]]:
    """The method of a text and its settings; a label of a user's own is taken as it is.

    >>> split_text("central:lr_cuts=10,20,lr=0.1"), split_text("mine: a"), split_text("fedavg")
    (('central', ['lr_cuts=10,20', 'lr=0.1']), ('mine: a', []), ('fedavg', []))
    """
    method, _, rest = text.partition(":")
    pairs = re.split(r",(?=[^,=]+=)", rest)
    return (method, pairs) if all("=" in pair for pair in pairs) else (text, [])


def in_order(texts: Sequence[str], varied: Sequence[Varied]) -> list[int]:
    """The order in which groups are shown: by the numbers of the world, then of the settings; else as they came.

    >>> in_order(["a:x=10", "b", "a:x=9", "a:x=1e1"], [{}, {}, {}, {}])
    [2, 0, 3, 1]
    """
    seen: dict[Any, Any] = {}
    ranks = count()

    def rank(value: Any) -> Any:
        if value not in seen:
            seen[value] = next(ranks)
        return seen[value]

    def key(index: int) -> list[Any]:
        method, pairs = split_text(texts[index])
        names = [pair.partition("=")[0] for pair in pairs]
        world = [_place(str(written(value)), rank) for value in varied[index].values()]
        return [world, rank((method, *names)), [_place(pair.partition("=")[2], rank) for pair in pairs]]

    return sorted(range(len(texts)), key=key)


def _place(text: str, rank: Any) -> tuple[int, float]:
    """Numbers, and ranges by their low end, before words; words as they came."""
    number = NUMBER.match(text)
    return (0, float(number.group())) if number else (1, float(rank(text)))


def renamed(labels: Sequence[str], names: Sequence[str], wanted: Mapping[str, str] | Sequence[str]) -> list[str]:
    """Replace labels by those that the user wants.

    Args:
        labels: as they are.
        names: the full names of the same groups, which `wanted` may use as well.
        wanted: new labels by old ones, or texts `OLD=NEW`. An old one that is only a method's name, or its text with
            settings, renames that part of all its labels; the text wins over the name.

    >>> renamed(["fedavg", "fedprox:mu=0.1"], ["fedavg", "fedprox:mu=0.1"], ["fedprox=FedProx", "fedavg=FedAvg"])
    ['FedAvg', 'FedProx:mu=0.1']
    >>> renamed(["fedavg rounds=2", "fedavg:lr=1 rounds=2"], ["a", "b"], ["fedavg:lr=1=fast", "fedavg=FedAvg"])
    ['FedAvg rounds=2', 'fast rounds=2']
    """
    known = [
        *labels,
        *names,
        *(part for label in labels for part in (label.split(" ")[0], re.split(r"[: ]", label)[0])),
    ]
    pairs = wanted.items() if isinstance(wanted, Mapping) else [_pair(text, known) for text in wanted]
    found = list(labels)
    for old, new in pairs:
        if old not in known:
            raise BadInput(f"there is no group {old!r} to label {new!r} (groups: {'; '.join(labels)})")
        for index, (label, name) in enumerate(zip(labels, names, strict=True)):
            if old in (label, name):
                found[index] = new
            elif label.split(" ")[0] == old or (re.split(r"[: ]", label)[0] == old and found[index] == label):
                found[index] = new + label.removeprefix(old)
    twice = next((label for label in found if found.count(label) > 1), None)
    if twice is not None:
        raise BadInput(f"two groups would have the label {twice!r}: give each one of its own")
    return found


def _pair(text: str, known: Sequence[str]) -> tuple[str, str]:
    """`OLD=NEW`, split where OLD is a group, since both may hold an equals sign."""
    places = [at for at, letter in enumerate(text) if letter == "="]
    if not places:
        raise BadInput(f"--label {text!r} has no new label: write OLD=NEW")
    at = max((at for at in places if text[:at] in known), default=places[0])
    return text[:at], text[at + 1 :]


def _shown(varied: Sequence[Varied]) -> list[str]:
    """The settings that a label needs: a scenario's name stands for all that follows from it."""
    keys = list(varied[0]) if varied else []
    if "scenario" not in keys:
        return keys
    return ["scenario", *(key for key in keys if key != "scenario" and not _follows(key, varied))]


def _follows(key: str, varied: Sequence[Varied]) -> bool:
    pairs = {(values["scenario"], json.dumps(values[key])) for values in varied}
    return len(pairs) == len({values["scenario"] for values in varied})


def _own_settings(one: Record, alike: Sequence[Record]) -> str:
    differ = [key for key in one.settings if len({json.dumps(other.settings.get(key)) for other in alike}) > 1]
    if differ:
        return f" ({', '.join(f'{key}={written(one.settings[key])}' for key in differ)})"
    return f" ({one.sha256[:8] or one.method})"
