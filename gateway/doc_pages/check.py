"""Writes the tables of what the check tries into the documentation.

    python -m gateway.doc_pages.check

writes the page. A test fails while the page differs from the tables.
"""

from collections.abc import Iterator
from pathlib import Path

from gateway.check.apis import NEEDS
from gateway.check.limits import RULES

PAGE = Path(__file__).parent.parent / "docs" / "check.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.check -->\n"


def page() -> str:
    """The page as it should be: its own text, followed by the tables."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("", "## Apis", "", "| for | at least | Kafka | without them |", "|---|---|---|---|")
    for need in NEEDS:
        versions = ", ".join(f"{key.name} v{version}" for key, version in need.versions.items())
        yield f"| {need.ability} | {versions} | {need.since} | {need.effect} |"
    yield from ("", "## Configs of the brokers", "", "| config | what it can cost | fits |")
    yield "|---|---|---|"
    for rule in RULES:
        yield f"| `{rule.config}` | {rule.effect} | {rule.remedy} |"


if __name__ == "__main__":
    PAGE.write_text(page())
