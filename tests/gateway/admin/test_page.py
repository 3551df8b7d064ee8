"""The page is served from the package, and fits its own guard."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from tests.support.admin import admin_stage

PAGE = files("gateway.admin").joinpath("page")
FILES = ("index.html", "board.js", "board.css", "icon.svg")


class Ids(HTMLParser):
    """The ids, and the files that the page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.loaded: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = dict(attrs)
        name = given.get("id")
        self.ids += [name] if name else []
        path = given.get("src") or (given.get("href") if tag == "link" else None)
        self.loaded += [path] if path else []
        self.inline += [name for name in given if name == "style" or name.startswith("on")]


def parse_page() -> Ids:
    """The page."""
    page = Ids()
    page.feed(PAGE.joinpath("index.html").read_text())
    return page


def test_the_script_uses_elements_that_are_there() -> None:
    """Each id once."""
    page = parse_page()
    used = set(re.findall(r'\$\("([\w-]+)"\)', PAGE.joinpath("board.js").read_text()))
    assert used <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_the_page_has_nothing_that_its_policy_forbids() -> None:
    """No inline script or style, no markup made of text, and nothing from elsewhere."""
    assert parse_page().inline == []
    assert "<script>" not in PAGE.joinpath("index.html").read_text()
    for name in FILES:
        text = PAGE.joinpath(name).read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|innerHTML|insertAdjacentHTML|eval\(", text), name


@pytest.mark.parametrize("name", FILES)
async def test_the_page_is_served_with_its_types(name: str) -> None:
    """The policy of the page lets it load only itself."""
    async with admin_stage() as stage:
        answer = await stage.ask("/" if name == "index.html" else f"/{name}")
        loaded = [await stage.ask(f"/{path}") for path in parse_page().loaded]
    assert answer.body == PAGE.joinpath(name).read_bytes()
    assert answer.headers["content-type"].split(";")[0] in {
        *("text/html", "text/javascript", "text/css", "image/svg+xml")
    }
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert [answer.status for answer in loaded] == [200] * len(loaded)
