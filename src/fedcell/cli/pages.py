"""`fedcell report` and `fedcell dashboard`: pages for a browser."""

import secrets
import sys
import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from contextlib import suppress

from ..errors import BadInput

PORT = 8765


def report_flags(sub: ArgumentParser) -> None:
    """The flags of `fedcell report`."""
    sub.add_argument("folder", metavar="DIR", help="a run, a comparison, or a folder with many of them")
    sub.add_argument("--out", metavar="FILE", help="the page to write (default: report.html in DIR)")
    sub.add_argument("--title", metavar="TEXT", default="", help="title of the page (default: the name of DIR)")
    sub.set_defaults(command=report)


def dashboard_flags(sub: ArgumentParser) -> None:
    """The flags of `fedcell dashboard`."""
    sub.add_argument("folder", metavar="DIR", nargs="?", default="runs", help="the runs to follow (default: runs)")
    sub.add_argument("--port", metavar="N", type=int, help=f"on this machine (default: {PORT}, or a free one)")
    sub.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    sub.set_defaults(command=dashboard)


def report(args: Namespace) -> int:
    """Write the page and say where."""
    from ..web.report import write

    print(f"report: {write(args.folder, args.out, args.title)}")
    return 0


def dashboard(args: Namespace) -> int:
    """Serve the page until Ctrl-C."""
    try:
        from ..web import server
    except ImportError as error:
        need = "python3 -m pip install 'fedcell[dashboard]'"
        raise BadInput(f"the dashboard needs {error.name}, which is not installed: {need}") from None
    if args.port is not None and not 0 <= args.port <= 65535:
        raise BadInput(f"--port {args.port} is no port: give a number from 0 to 65535")
    listening = server.bind(args.port) if args.port is not None else server.bind_near(PORT)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
    with listening:
        site = server.Site(args.folder, port, token)
        address = f"http://{server.HOST}:{port}/#token={token}"
        print(f"dashboard: {address}\nCtrl-C ends it; runs continue.", flush=True)
        if not args.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with suppress(KeyboardInterrupt):  # it never comes if the parent process ignores Ctrl-C
            site.serve(listening)
        print("fedcell: the dashboard has ended", file=sys.stderr)
    return 0
