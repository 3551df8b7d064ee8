"""The number of a group's members of each protocol, from change to change."""

from gateway.pipeline.report.figures import member_counts
from tests.support.report_tables import Row, member, table


def counts_of(*rows: Row) -> list[tuple[int, int | None, int, int]]:
    """The changes of one group."""
    found = member_counts(table("timeline", rows))
    return [(row.from_ms, row.to_ms, row.classic_members, row.consumer_members) for row in found]


def test_members_are_counted_from_change_to_change() -> None:
    """One member switches, and one leaves. A change between states of the same protocol has no
    effect."""
    assert counts_of(
        member(None, None, 0, None),
        member("a", "classic", 10, 20),
        member("a", "classic", 20, 30),
        member("a", "consumer", 30, None),
        member("b", "classic", 10, 40),
    ) == [(0, 10, 0, 0), (10, 30, 2, 0), (30, 40, 1, 1), (40, None, 0, 1)]


def test_a_group_whose_members_all_left_stays_empty() -> None:
    """It is empty up to the last known time."""
    assert counts_of(member("a", "classic", 10, 20)) == [(10, 20, 1, 0), (20, None, 0, 0)]


def test_a_member_with_an_unknown_protocol_is_not_counted() -> None:
    """The report does not guess."""
    assert counts_of(member("a", None, 10, 20)) == [(10, None, 0, 0)]
