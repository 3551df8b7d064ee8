"""Rows of tables as evidence."""

import pytest

from gateway.pipeline.report.model import Cell
from gateway.pipeline.report.sections import evidence_section, left_out
from tests.support.html_pages import Page
from tests.support.reports import START_MS, evidence


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("at_ms", START_MS, "2027-01-15 08:00:00.000Z"),
        ("cost_from_ms", START_MS, "2027-01-15 08:00:00.000Z"),
        ("stalled_ms", 61_000, "1 min 1 s"),
        ("members", 12_345, "12,345"),
        ("unowned_partition_s", 0.25, "0.25"),
        ("is_live", False, "no"),
        ("cause", "left", "left"),
        ("from_ms", None, "before the first event"),
    ],
)
def test_cells_have_units(column: str, value: Cell, text: str) -> None:
    """Times are shown as such, and durations with their unit."""
    page = Page(evidence_section("rebalances", evidence("rebalances", {column: value})))
    assert [each.text for each in page.named("td") + page.named("bdi") if each.text] == [text]


def test_headings_explain_their_columns() -> None:
    """Columns without values are omitted."""
    page = Page(evidence_section("rebalances", evidence("rebalances", {"at_ms": 1, "gone": None})))
    (heading,) = page.named("th")
    assert (heading.text, heading.attributes["title"]) == ("at", "What at_ms is.")


def test_long_text_is_shortened_and_complete_in_the_title() -> None:
    """A line of garbage may have any length."""
    page = Page(evidence_section("rejected_lines", evidence("rejected_lines", {"text": "x" * 500})))
    (cell,) = page.named("td")
    assert len(page.named("bdi")[0].text) == 200
    assert cell.attributes["title"] == "x" * 500


def test_evidence_about_safety_is_expanded() -> None:
    """Other evidence is collapsed. The heading counts all rows."""
    row: dict[str, Cell] = {"group_id": "g"}
    (overlaps,) = Page(evidence_section("overlaps", evidence("ownership", row))).named("details")
    (empty,) = Page(evidence_section("overlaps", evidence("ownership"))).named("details")
    page = Page(evidence_section("rebalances", evidence("rebalances", row, left_out=9)))
    assert "open" in overlaps.attributes
    assert "open" not in empty.attributes
    assert "open" not in page.named("details")[0].attributes
    assert page.named("span", "count")[0].text == "(10)"


def test_omitted_rows_are_counted_with_their_location() -> None:
    """Without omitted rows there is no note."""
    assert Page(left_out(3, "row", "rebalances")).text == (
        "3 rows more: as Parquet in the folder rebalances."
    )
    assert left_out(0, "row", "rebalances") == ""
