"""Writes the table of totals into the documentation.

    python -m gateway.doc_pages.limits

writes the page. A test fails while the page differs from the table.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from gateway.data_path.config import Limits
from gateway.limits import TOTALS, Share, Total
from gateway.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.limits -->\n"


def page() -> str:
    """The page as it should be: its own text, followed by the tables."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + "\n".join(_lines()) + "\n"


def limit_of(total: Total) -> str:
    """The limit, or the setting that has it."""
    if total.name in Settings.model_fields:
        return f"`{total.name}`"
    owner = Limits() if total.name in Limits.__slots__ else import_module(total.module)
    return f"{getattr(owner, total.name):,}"


def _lines() -> Iterator[str]:
    for share in Share:
        totals = [total for total in TOTALS if total.share is share]
        yield from ("", f"## Share of one owner: {share.value}", "")
        yield "| what is counted | at most | beyond that | in the code |"
        yield "|---|---|---|---|"
        for total in totals:
            place = f"`{total.module.removeprefix('gateway.')}.{total.name}`"
            yield f"| {total.counts} | {limit_of(total)} | {total.beyond} | {place} |"


if __name__ == "__main__":
    PAGE.write_text(page())
