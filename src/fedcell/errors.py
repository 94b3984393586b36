"""What can go wrong, each with the exit code the command line ends with.

Every message is one sentence that names what is wrong, the offending value and the fix.
"""


class FedcellError(Exception):
    """Base of every error that fedcell explains to its user; the run record stays whole."""

    exit_code = 1


class BadInput(FedcellError):
    """A setting, a data set, a model or a method that cannot be used; nothing was written."""

    exit_code = 2


class ContractError(FedcellError):
    """A method broke the contract of one of its seams, such as a bandwidth or energy budget."""

    exit_code = 2


class Diverged(FedcellError):
    """Training left the finite numbers; the rounds before it are on record."""

    exit_code = 3


class OutOfMemory(FedcellError):
    """No memory is left for what a round needs; the rounds before it are on record, and the run resumes."""


class Notice(UserWarning):
    """A warning about something that is allowed but probably not meant; the command line prints it as a sentence."""


def in_short(error: Exception) -> str:
    """Sum up an exception of another library: its type and the first line of its message, if it has one.

    >>> in_short(ValueError("no width\\nat all")), in_short(RuntimeError())
    ('ValueError: no width', 'RuntimeError')
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def did_you_mean(word: str, known: list[str]) -> str:
    """Return `": did you mean 'x'?"` for the nearest known word, or an empty string.

    >>> did_you_mean("fedavgg", ["fedavg", "fedprox"])
    ": did you mean 'fedavg'?"
    >>> did_you_mean("gpu", ["cpu", "cuda"]), did_you_mean("mpl", ["mlp"])  # another letter of three, another word
    ('', ": did you mean 'mlp'?")
    """
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1, cutoff=0.65)
    if not near or (len(word) == len(near[0]) <= 3 and sorted(word) != sorted(near[0])):
        return ""
    return f": did you mean {near[0]!r}?"


def choose_one(word: str, known: list[str]) -> str:
    """Return a hint with the nearest known word, if there is one, and all known words.

    >>> choose_one("fedavgg", ["fedavg", "fedprox"]), choose_one("x", ["fedavg", "fedprox"])
    (": did you mean 'fedavg'? (one of fedavg, fedprox)", ': choose one of fedavg, fedprox')
    """
    near, every = did_you_mean(word, known), ", ".join(known)
    return f"{near} (one of {every})" if near else f": choose one of {every}"
