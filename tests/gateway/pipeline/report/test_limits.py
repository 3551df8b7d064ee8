"""Every collection has a limit."""

from gateway.pipeline.fold.ownership import DifferenceRow
from gateway.pipeline.report.digest import KINDS, ROWS_MAX, Gravest, evidence
from gateway.pipeline.report.model import NAME_MAX, of_each, short
from tests.support.report_tables import table


def test_the_first_rows_and_the_number_of_the_others() -> None:
    """Rows are in the requested order, wherever they come from."""
    kind, found = KINDS["differences"], Gravest[DifferenceRow]()
    times = [*range(3 * ROWS_MAX, ROWS_MAX, -1)]
    for at_ms in times:
        found.add(kind, table("differences", [{"at_ms": at_ms}]))
    other = Gravest[DifferenceRow]()
    other.add(kind, table("differences", [{"at_ms": at_ms} for at_ms in range(ROWS_MAX, 0, -1)]))
    found.merge(kind, other)
    told = evidence(kind, found)
    assert [row["at_ms"] for row in told.rows] == list(range(1, ROWS_MAX + 1))
    assert told.left_out == 2 * ROWS_MAX


def test_each_of_many_groups_shows_less() -> None:
    """A page with a thousand groups must still open."""
    assert of_each(600, 1) == of_each(600, 50) == 600
    assert of_each(600, 1_000) == 30
    assert of_each(60, 1_000) == 10


def test_long_names_stay_different() -> None:
    """A short one is shown in full."""
    assert short("x" * NAME_MAX) == "x" * NAME_MAX
    long = [short("x" * NAME_MAX + end + "x" * NAME_MAX) for end in "ab"]
    assert max(map(len, long)) <= NAME_MAX
    assert long[0] != long[1]
