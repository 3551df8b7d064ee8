"""HTML and SVG, built so that text from events can never become markup.

A plain `str` is text, and is escaped wherever it is used. Only `tag`, `join` and `trusted` make
markup. Untrusted clients choose group ids and client ids, so invisible characters are shown as
escapes: they could hide a name or reverse the direction of a line.
"""

import html
from collections.abc import Iterable
from typing import TypeAlias

from gateway.readable import UNSEEN

Value: TypeAlias = str | int | float | None

_VOID = frozenset({"br", "col", "input", "meta"})


class Markup(str):
    """Text that goes into the page unescaped."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: Value) -> Markup:
    """An element. `class_` becomes class and `stroke_width` stroke-width; None omits an
    attribute."""
    inside = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{inside}>")
    return Markup(f"<{name}{inside}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Concatenate; text is escaped, markup is not."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def trusted(text: str) -> Markup:
    """Mark text of groupferry itself as markup."""
    return Markup(text)


def seen(text: str) -> str:
    """The text with an escape in place of each invisible character."""
    return UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def shortened(text: str, length_max: int) -> str:
    """The text, cut to this length in the middle, because ids differ at either end."""
    text = seen(text)
    if len(text) <= length_max:
        return text
    head = (length_max - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - length_max :]}"


def _escaped(text: str) -> str:
    return html.escape(seen(text), quote=False)


def _plain(value: str | float) -> str:
    """Coordinates get as many digits as a screen can show."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else seen(str(value))
