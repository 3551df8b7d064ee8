"""The elements of an HTML page, read by the parser of the standard library."""

from dataclasses import dataclass
from html.parser import HTMLParser

VOID = {"br", "col", "input", "meta"}


@dataclass(slots=True)
class Element:
    """An element and the text directly inside it."""

    name: str
    attributes: dict[str, str | None]
    text: str = ""


class Page(HTMLParser):
    """All elements in order, the whole text, and the nesting errors."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.text = ""
        self.wrong: list[str] = []
        self._open: list[Element] = []
        self.feed(source)
        self.close()
        self.wrong += [f"<{element.name}> is not closed" for element in self._open]

    def elements_named(self, name: str, class_: str | None = None) -> list[Element]:
        """The elements with this name, and with this class if one is given."""
        return [
            element
            for element in self.elements
            if element.name == name
            and (class_ is None or class_ in (element.attributes.get("class") or "").split())
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1].name == tag:
            self._open.pop()
        else:
            self.wrong.append(f"</{tag}> in the wrong place")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open:
            self._open[-1].text += data
