"""`fedcell check`: whether recorded runs are whole."""

from argparse import ArgumentParser, Namespace


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    sub.add_argument("folder", metavar="DIR", help="of a run, a comparison, a sweep, or above them")
    sub.add_argument("--repair", action="store_true", help="put damaged files aside, so that resuming makes them anew")
    sub.set_defaults(command=run)


def run(args: Namespace) -> int:
    """Print what is damaged; 0 if nothing is, or if all of it was repaired."""
    from ..record.check import check, examine, repair

    found = check(args.folder)
    left = 0
    for one in found:
        for damage in one.damage:
            print(f"{damage.what}" + f"; --repair: {damage.fix}" * bool(damage.fix and not args.repair))
        if not one.damage:
            continue
        if args.repair:
            for line in repair(one):
                print(f"repaired {line}")
            one = examine(one.folder)
            if not one.damage:
                print(f"resume with `{one.again}`")
        left += bool(one.damage)
    print(f"{len(found)} runs checked, {left} damaged")
    return 1 if left else 0
