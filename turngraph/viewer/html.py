"""HTML that is safe by construction: escaped templates, a policy that allows our own style and script only, plain JSON.

Transcripts are hostile input. Source: spec/seeing.md 3.10.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Characters that act instead of being read: controls but tab and line feed, and those that turn the reading order.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class _Flat(PackageLoader):
    """Templates without the indentation of their lines, which would be a tenth of a long report."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool] | None]:
        source, name, fresh = super().get_source(environment, template)
        return "\n".join(line.lstrip() for line in source.split("\n")), name, fresh


@cache
def templates() -> Environment:
    """Return the templates of the viewer; everything they print is escaped."""
    found = Environment(
        loader=_Flat("turngraph.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"n": number, "readable": readable, "usd": usd, "short": short, "slug": slug, "size": size}
    return found


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return files("turngraph.viewer").joinpath("templates", name).read_text(encoding="utf-8")


def render(
    template: str, *, style: tuple[str, ...], script: tuple[str, ...], server: bool = False, **values: Any
) -> str:
    """Render a page that carries its style, its script and a policy that allows nothing else.

    Args:
        template: file name.
        style, script: assets, put together in order.
        server: whether our own server sends the page.
        values: for the template.
    """
    return (
        templates()
        .get_template(template)
        .render(
            **values,
            css=Markup(_joined(style)),
            js=Markup(_joined(script)),
            policy=page_policy(style, script, server=server),
        )
    )


@cache
def page_policy(style: tuple[str, ...], script: tuple[str, ...], *, server: bool = False) -> str:
    """Return the content security policy of a page: its own style and script by their hash, nothing else.

    A page of our server may also ask that server for events and send it a search.
    """
    own = "'self'" if server else "'none'"
    scripts = f"'{_hash(_joined(script))}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src '{_hash(_joined(style))}'; script-src {scripts}; img-src data:; "
        f"connect-src {own}; form-action {own}; base-uri 'none'"
    )


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(asset(name) for name in names)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def json_script(data: Any) -> Markup:
    """Write ``data`` as the text of a JSON script element: nothing in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(
        re.sub("[\u2028-\u202e\u2066-\u2069\ud800-\udfff\x7f-\x9f\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", text)
    )


def readable(text: Any) -> str:
    """Show characters that would act on the page or on the reading order by their name.

    >>> readable("a\\x00b")
    'a␀b'
    """
    return _ACTING.sub(_named, str(text).replace("\r\n", "\n"))


def _named(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def number(value: Any) -> str:
    """Write a number with separators; nothing for ``None``."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, float) else f"{value:,}"


def size(value: float) -> str:
    """Write milliseconds.

    >>> size(0.31), size(1250.0)
    ('0.31 ms', '1.25 s')
    """
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.3g} ms"


def usd(value: float | None) -> str:
    """Write money; four digits after the point below a dollar."""
    if value is None:
        return "no price known"
    return f"${value:,.2f}" if abs(value) >= 1 else f"${value:,.4f}"


def short(value: Any, chars: int = 12) -> str:
    """Return the beginning of a digest or an id."""
    return str(value or "–")[:chars]


def slug(value: str) -> str:
    """Return a name as class names have it.

    >>> slug("bootstrap file"), slug("prompt:model")
    ('bootstrap-file', 'prompt-model')
    """
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")
