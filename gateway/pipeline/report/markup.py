"""HTML and SVG, put together so that text from events can never become markup.

A plain `str` is text and is escaped wherever it goes; only `tag`, `join` and `trusted` make markup.
Group ids and client ids are chosen by strangers, so what no person can see in a text is made
visible as well: it could hide a name, or turn the direction of the whole line.
"""

import html
from collections.abc import Iterable
from typing import TypeAlias

from gateway.readable import UNSEEN

Value: TypeAlias = str | int | float | None

_VOID = frozenset({"br", "col", "meta"})


class Markup(str):
    """What goes into the page as it is."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: Value) -> Markup:
    """An element. `class_` is class and `stroke_width` is stroke-width; None leaves one out."""
    inside = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{inside}>")
    return Markup(f"<{name}{inside}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """One after the other; text is escaped, markup is not."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def trusted(text: str) -> Markup:
    """For text that is part of groupferry."""
    return Markup(text)


def seen(text: str) -> str:
    """With an escape in place of each character that nobody can see."""
    return UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def shortened(text: str, length_max: int) -> str:
    """Not longer than that; the middle is left out, because ids differ at either end."""
    text = seen(text)
    if len(text) <= length_max:
        return text
    head = (length_max - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - length_max :]}"


def _escaped(text: str) -> str:
    return html.escape(seen(text), quote=False)


def _plain(value: str | float) -> str:
    """Of coordinates, as many digits as a screen can show."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else seen(str(value))
