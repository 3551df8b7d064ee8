"""Documents the tables' columns from the models of their rows.

    python -m gateway.doc_pages.report

updates the page. A test fails while the page differs from the models.
"""

import inspect
from pathlib import Path

from pydantic import TypeAdapter

from gateway.doc_pages.fields import field_table
from gateway.pipeline.fold.rows import ALL_ROWS

PAGE = Path(__file__).parent.parent / "docs" / "report.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.report -->\n"


def tables() -> str:
    """All tables with their columns, in Markdown."""
    lines: list[str] = []
    for name, row in ALL_ROWS.items():
        lines += ["", f"### `{name}`", "", inspect.getdoc(row) or "", ""]
        lines += field_table(TypeAdapter(row).json_schema())
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page as it should be: its own text, followed by the tables."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + tables()


if __name__ == "__main__":
    PAGE.write_text(page())
