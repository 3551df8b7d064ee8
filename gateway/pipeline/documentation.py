"""The tables' columns as documentation, made from the models of their rows.

    python -m gateway.pipeline.documentation

writes them anew; a test fails as long as they are not what the models say.
"""

import inspect
from pathlib import Path

from gateway.field_docs import field_table
from gateway.pipeline.tables.catalog import ALL_ROWS

PAGE = Path(__file__).parent.parent / "docs" / "report.md"
MARK = "<!-- From here on generated: python -m gateway.pipeline.documentation -->\n"


def tables() -> str:
    """Every table with its columns, in Markdown."""
    lines: list[str] = []
    for name, row in ALL_ROWS.items():
        module = inspect.getmodule(row)
        lines += ["", f"### `{name}`", "", inspect.getdoc(module) or "", ""]
        lines += field_table(row.model_json_schema())
    return "\n".join(lines) + "\n"


def page() -> str:
    """The documentation as it should be: its own words, and the tables behind them."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + tables()


if __name__ == "__main__":
    PAGE.write_text(page())
