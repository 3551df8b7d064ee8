"""The results of the client matrix in `tests/matrix.json`, and their table in the documentation.

`pytest -m matrix` writes the results; `python -m tests.matrix.matrix_table` writes the table.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from tests.support.matrix import ROLLS, Result, Roll

RecordResult = Callable[[Roll, Result], None]
"""Receives the result of a roll."""

RESULTS = Path(__file__).parent.parent / "matrix.json"
PAGE = Path(__file__).parent.parent.parent / "gateway" / "docs" / "clients.md"
BEGIN = "<!-- client matrix: written by python -m tests.matrix.matrix_table -->\n"
END = "<!-- end of the client matrix -->\n"
HEADER = """\
| rolled client | to its native | partner | records | twice |
|---|---|---|--:|--:|
"""


def read_results() -> Mapping[str, Result]:
    """The results of the last full run, by roll."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {roll: Result(**result) for roll, result in results.items()}


def write_result(roll: Roll, result: Result) -> None:
    """Store a result in place of the old one."""
    results = {**read_results(), str(roll): result}
    in_order = {
        str(rolled): asdict(results[str(rolled)]) for rolled in ROLLS if str(rolled) in results
    }
    RESULTS.write_text(json.dumps(in_order, indent=2) + "\n")


def table(results: Iterable[Result]) -> str:
    return HEADER + "".join(_row(result) for result in results)


def _row(result: Result) -> str:
    clients = f"| {result.classic} | {result.native} | {result.partner} |"
    if result.fails:
        return f"{clients} no: {result.fails} | |\n"
    return f"{clients} {result.produced} | {result.delivered_twice} |\n"


def in_page(text: str) -> str:
    """The table in a page. Raises ValueError if there is none."""
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def with_table(text: str, new: str) -> str:
    """A page with this table in place of the old one."""
    return text.replace(BEGIN + in_page(text), BEGIN + new)


def main() -> None:
    """Write the table of the last full run into the page."""
    PAGE.write_text(with_table(PAGE.read_text(), table(read_results().values())))


if __name__ == "__main__":
    main()
