"""The evidence behind the verdict: rows of the pipeline's tables, unchanged."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.pipeline.report.markup import Markup, join, shortened, tag
from gateway.pipeline.report.model import Cell, Evidence
from gateway.pipeline.report.wording import beginning, counted, duration, number
from gateway.readable import moment

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "overlaps": "Partitions owned twice",
        "unsure": "Partitions perhaps owned twice",
        "non_monotonic": "Committed offsets that went back",
        "lost_commits": "Commits that were lost",
        "skips": "Starts that may have skipped records",
        "differences": "Members that claimed partitions not granted to them",
        "missing_events": "Missing events",
        "contradictions": "Events with two versions",
        "moves_back": "Seeks and resets",
        "migrations": "Migrations",
        "rebalances": "Rebalances",
        "readiness": "Readiness",
        "rejected_lines": "Lines that could not be read",
    }
)
"""Titles by key, in the order of the page."""

_ABOUT_SAFETY = (
    *("overlaps", "unsure", "non_monotonic", "lost_commits", "skips", "differences"),
    *("missing_events", "contradictions"),
)
_MOMENTS = frozenset({"at_ms", "from_ms", "to_ms", "seen_ms", "stored_ms"})
_BEGINNING = "from_ms"
"""A null here means that the fact was true before the first event."""
_TEXT_LENGTH_MAX = 200
_UNBROKEN_LENGTH_MAX = 44
"""Longer text is wrapped."""


def section(key: str, evidence: Evidence) -> Markup:
    """One table, folded up unless it is about safety and has rows."""
    return tag(
        "details",
        tag(
            "summary", TITLES[key], " ", tag("span", f"({number(evidence.count)})", class_="count")
        ),
        _table(evidence) if evidence.rows else tag("p", "None.", class_="note"),
        left_out(evidence.left_out, "row", evidence.table),
        id=f"evidence-{key}",
        open="" if evidence.rows and key in _ABOUT_SAFETY else None,
    )


def left_out(count: int, what: str, folder: str) -> Markup:
    """How many rows a limit has kept off the page; empty if none."""
    if not count:
        return join(())
    return tag(
        "p",
        f"{counted(count, what)} more: as Parquet in the folder ",
        tag("code", folder),
        ".",
        class_="note",
    )


def _table(evidence: Evidence) -> Markup:
    """A scrollable table, without columns that are empty in every row."""
    columns = [
        column
        for column in evidence.columns
        if any(row.get(column.name) not in (None, "") for row in evidence.rows)
        or column.name == _BEGINNING
    ]
    head = tag("tr", *(tag("th", _heading(each.name), title=each.meaning) for each in columns))
    body = (
        tag("tr", *(_cell(each.name, row.get(each.name)) for each in columns))
        for row in evidence.rows
    )
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", *body)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=evidence.table,
    )


def _heading(column: str) -> str:
    """The column's name without the unit, which the cells show."""
    name, _, unit = column.rpartition("_")
    words = name if unit == "ms" else column
    return words.replace("_", " ")


def _cell(column: str, value: Cell) -> Markup:
    if value is None and column == _BEGINNING:
        return tag("td", beginning(None), class_="moment")
    if value is None or value == "":
        return tag("td")
    if isinstance(value, bool):
        return tag("td", "yes" if value else "no")
    if isinstance(value, str):
        text = shortened(value, _TEXT_LENGTH_MAX)
        class_ = "short" if len(text) <= _UNBROKEN_LENGTH_MAX else "long"
        return tag("td", tag("bdi", text), class_=class_, title=value if text != value else None)
    if column in _MOMENTS:
        return tag("td", moment(int(value)), class_="moment")
    if column.endswith("_ms"):
        return tag("td", duration(value), class_="number")
    return tag("td", number(value), class_="number")
