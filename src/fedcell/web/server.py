"""The dashboard's server: only for this machine, with host names checked and a token for what changes anything."""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import FedcellError
from . import page
from .board import Board

HOST = "127.0.0.1"
TICK_S = 0.5
SCRIPTS = ("dashboard.js",)
SERVED = dict.fromkeys((page.CHARTS, *page.SHARED, *SCRIPTS), "text/javascript") | {page.STYLE: "text/css"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def bind(port: int) -> socket.socket:
    """Open a socket that only this machine can reach; port 0 takes a free one."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from now on a browser waits for the answer
    except OSError as error:
        listening.close()
        raise FedcellError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
    return listening


def bind_near(port: int) -> socket.socket:
    """Open a socket on the usual port, or on a free one if that is taken."""
    try:
        return bind(port)
    except FedcellError:
        return bind(0)


class Site:
    """Serve the dashboard of the runs below a folder, and the data that it asks for."""

    def __init__(self, root: str | Path, port: int, token: str) -> None:
        self.board, self.token = Board(root), token
        routes = [
            Route("/", self.page),
            Route("/assets/{name}", self.asset),
            Route("/api/runs", self.runs),
            Route("/api/run", self.run),
            Route("/api/events", self.events),
            Route("/api/stop", self.stop, methods=["POST"]),
        ]
        app = Guard(Starlette(routes=routes), {f"{HOST}:{port}", f"localhost:{port}"})
        config = uvicorn.Config(
            app, log_level="error", access_log=False, timeout_graceful_shutdown=3, lifespan="off", ws="none"
        )
        self.server = uvicorn.Server(config)

    def serve(self, listening: socket.socket) -> None:
        """Answer until the process is interrupted."""
        self.server.run(sockets=[listening])

    async def page(self, request: Request) -> Response:
        """The dashboard."""
        return HTMLResponse(page.served("fedcell dashboard", SCRIPTS))

    async def asset(self, request: Request) -> Response:
        """A script or the style."""
        name = request.path_params["name"]
        if name not in SERVED:
            return PlainTextResponse("no such file", status_code=404)
        return Response(page.asset(name), media_type=SERVED[name])

    async def runs(self, request: Request) -> Response:
        """The facts of every run."""
        return JSONResponse(await run_sync(self.board.listing))

    async def run(self, request: Request) -> Response:
        """Everything about one run."""
        found = await run_sync(self.board.detail, request.query_params.get("run", ""))
        return JSONResponse(found) if found else JSONResponse({"error": "no such run"}, status_code=404)

    async def stop(self, request: Request) -> Response:
        """Ask a run to stop, if the request has the token."""
        given = request.headers.get("x-fedcell-token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return JSONResponse({"error": "open the address that fedcell dashboard printed"}, status_code=403)
        try:
            asked = await request.json()
            again = await run_sync(self.board.stop, str(asked["run"]))
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": "name the run: {'run': ...}"}, status_code=400)
        except FedcellError as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        return JSONResponse({"again": again})

    async def events(self, request: Request) -> Response:
        """What is new, for as long as the page is open."""
        given = zip(request.query_params.getlist("run"), request.query_params.getlist("at"), strict=False)
        places = {run: place for run, at in given if (place := _place(at))}
        return StreamingResponse(self._news(places), media_type="text/event-stream")

    async def _news(self, places: dict[str, tuple[int, int]]) -> AsyncIterator[str]:
        """Events: `list` with runs that are new or changed, `rows` with new rounds of the runs that are looked at."""
        seen = -1
        while not self.server.should_exit:
            listed, fresh = await run_sync(self.board.news, seen, places)
            if listed["version"] != seen:
                seen = listed["version"]
                yield _event("list", listed)
            for rows in fresh:
                places[rows["id"]] = (rows["epoch"], rows["done"])
                yield _event("rows", rows)
            if not fresh:
                yield ": still here\n\n"
            await asyncio.sleep(TICK_S)


class Guard:
    """Refuse requests to host names other than this machine's (a foreign page may point its name here); add headers."""

    def __init__(self, app: ASGIApp, hosts: set[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        request = Request(scope)
        origin = request.headers.get("origin")
        known = request.headers.get("host", "") in self.hosts
        if known and (origin is None or origin.removeprefix("http://") in self.hosts):
            await self.app(scope, receive, guarded)
        else:
            refused = PlainTextResponse("open the address that fedcell dashboard printed", status_code=403)
            await refused(scope, receive, guarded)


def _place(text: str) -> tuple[int, int] | None:
    """Read (epoch, rounds), what a page has already; None if the text is neither."""
    epoch, _, done = text.partition(".")
    return (int(epoch), int(done)) if epoch.isdecimal() and done.isdecimal() else None


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False, separators=(',', ':'))}\n\n"
