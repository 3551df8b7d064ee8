"""Which partitions a group freed before their member took them, by the gateway's log."""

from typing import Any

from tests.support.freed_partitions import freed_before_taken

Line = dict[str, Any]
JOINED: Line = {"event": "member_joined", "member_id": "m", "client_id": "east-1"}


def line(kind: str, *numbers: int) -> Line:
    """A line about the member's partitions."""
    return {"event": kind, "member_id": "m", "partitions": {"t": list(numbers)}}


def test_what_a_member_disowns_before_it_has_stated_it_was_freed_before_it_was_taken() -> None:
    """Act like a librdkafka consumer between its first assignment and the callback."""
    log = [
        JOINED,
        line("partitions_stated"),
        line("partitions_assigned", 0, 1),
        line("partitions_stated"),
        line("grant_ended", 1),
    ]
    assert freed_before_taken([*log, line("partitions_stated", 0, 1)]) == {("east-1", 1)}


def test_what_a_member_has_stated_was_its_own() -> None:
    log = [
        JOINED,
        line("partitions_assigned", 0, 1),
        line("partitions_stated", 0, 1),
        line("partitions_stated", 0),
    ]
    assert not freed_before_taken([*log, line("grant_ended", 1)])


def test_what_a_removed_member_had_was_its_own() -> None:
    """The member has stated nothing since it got the partitions."""
    log = [
        JOINED,
        line("partitions_stated"),
        line("partitions_assigned", 0, 1),
        line("grant_ended", 0, 1),
    ]
    assert not freed_before_taken(log)
