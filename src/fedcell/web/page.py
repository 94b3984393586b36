"""HTML pages from the shipped assets: no text of a run ever becomes markup or script."""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

CHARTS = "echarts.min.js"
SHARED = ("common.js", "curves.js", "bars.js", "schedule.js", "cellmap.js", "tables.js")
STYLE = "style.css"


def asset(name: str) -> str:
    """The text of a shipped file."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element: no character that HTML or JavaScript could take for its own.

    >>> embedded("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def standalone(title: str, data: Any, scripts: Sequence[str]) -> str:
    """One file with everything in it, which runs only the shipped scripts and makes no network requests."""
    style, codes = asset(STYLE), [asset(name) for name in (CHARTS, *SHARED, *scripts)]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, codes))}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<style>{style}</style>",
    ]
    body = [f'<script type="application/json" id="data">{embedded(data)}</script>']
    body += [f"<script>{code}</script>" for code in codes]
    return _html(title, head, body)


def served(title: str, scripts: Sequence[str]) -> str:
    """A page that loads its scripts and its style from the server that it came from."""
    head = [f'<link rel="stylesheet" href="/assets/{STYLE}">', '<link rel="icon" href="data:,">']
    body = [f'<script src="/assets/{name}"></script>' for name in (CHARTS, *SHARED, *scripts)]
    return _html(title, head, body)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _html(title: str, head: Sequence[str], body: Sequence[str]) -> str:
    start = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        *head,
        "</head>",
        "<body>",
        "<noscript>This page draws its figures with JavaScript, which is switched off here.</noscript>",
        '<div id="page"></div>',
    ]
    return "\n".join([*start, *body, "</body>", "</html>"]) + "\n"
