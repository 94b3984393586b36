"""Allow `--insecure` on this machine only: check the flags of Flower's commands before running them."""

from collections.abc import Sequence
from ipaddress import ip_address

from ..errors import BadInput

INSECURE = "--insecure"
# Flags that say where a process listens or connects to; the last one is an older name of the one before it.
ADDRESSES = ("--superlink", "--host", "--runtime-api-address", "--appio-api-address")


def refuse_open(arguments: Sequence[str]) -> None:
    """Raise BadInput if a process would talk in the clear to, or listen for, anything but this machine.

    Flags count in every abbreviation that Flower may take for them.

    >>> refuse_open(["--insecure", "--superlink", "127.0.0.1:8000"])
    >>> refuse_open(["--superlink", "fl.example.org:8000", "--root-certificates", "ca.crt"])
    """
    if not any(stands_for(one, INSECURE) for one in arguments):
        return
    for flag, value in flag_values(arguments):
        if any(stands_for(flag, one) for one in ADDRESSES) and not is_here(value):
            raise BadInput(
                f"{flag} {value} with --insecure: without TLS only 127.0.0.1 is allowed, so give certificates "
                "(docs/deploy.md, TLS and known nodes) or an address of this machine"
            )


def stands_for(flag: str, whole: str) -> bool:
    """Whether a flag is another one, or may be short for it.

    >>> [stands_for(one, "--superlink") for one in ("--superlink", "--superl", "--s", "--", "--superlinks", "-s")]
    [True, True, True, False, False, False]
    """
    return len(flag) > len("--") and whole.startswith(flag)


def flag_values(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Flags with the values behind them, as `--flag value` or `--flag=value`."""
    after = [*arguments[1:], ""]
    return [(one.partition("=")[0], one.partition("=")[2] or then) for one, then in zip(arguments, after, strict=True)]


def is_here(address: str) -> bool:
    """Whether `HOST` or `HOST:PORT` is this machine by its loopback address.

    >>> [is_here(one) for one in ("localhost:1", "127.0.0.1", "[::1]:80", "::1", "0.0.0.0:80", "10.0.0.7:80", "")]
    [True, True, True, True, False, False, False]
    """
    host = address[1:].partition("]")[0] if address.startswith("[") else address
    if host.count(":") == 1:
        host = host.partition(":")[0]
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
