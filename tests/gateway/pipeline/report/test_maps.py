"""The partitions and intervals that a group's map shows."""

import pytest

from gateway.pipeline.report import group_story as maps
from tests.support.report_tables import gap, owner, table

ALL = (0, 100)


def test_the_worst_partitions_are_drawn_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Partitions with two owners come first, then those with the longest gaps. Of a partition's
    intervals, overlaps precede gaps and long ones. Partitions are drawn in their own order."""
    monkeypatch.setattr(maps, "PARTITIONS_MAX", 2)
    rows = [
        owner("a", 0, None, partition=0),
        owner("a", 0, 10, partition=1),
        gap(10, 90, partition=1),
        owner("b", 90, 95, partition=1),
        owner("b", 95, 100, partition=1),
        owner("a", 0, 50, partition=2),
        owner("b", 49, None, partition=2),
        {
            "kind": "overlap",
            "basis": "stated",
            "member_id": "b",
            "other_member_id": "a",
            "from_ms": 49,
            "to_ms": 49,
            "partition": 2,
        },
    ]
    found = maps.ownership_map(table("ownership", rows), ALL, ALL, 5)
    assert found is not None
    drawn = [
        (line.partition, [(each.kind, each.from_ms, each.to_ms) for each in line.intervals])
        for line in found.partitions
    ]
    assert drawn == [
        (1, [("owner", 0, 10), ("gap", 10, 90)]),
        (2, [("owner", 0, 50), ("overlap", 49, 49), ("owner", 49, 100)]),
    ]
    assert (found.partitions_left_out, found.intervals_left_out) == (1, 3)


def test_intervals_are_cut_off_at_the_time_shown() -> None:
    """Members' claims are not drawn, unless two overlap."""
    rows = [
        owner("a", None, 20),
        owner("b", 20, 40),
        owner("c", 40, None),
        owner("d", 80, None, partition=1),
        owner("e", 25, 35, basis="stated"),
    ]
    found = maps.ownership_map(table("ownership", rows), (20, 60), ALL, 600)
    assert found is not None
    (line,) = found.partitions
    assert [(each.member_id, each.from_ms, each.to_ms) for each in line.intervals] == [
        ("b", 20, 40),
        ("c", 40, 60),
    ]
    assert not found.is_all


def test_a_group_whose_partitions_had_no_owner_has_no_map() -> None:
    """There is nothing to draw."""
    assert maps.ownership_map([], ALL, ALL, 600) is None
