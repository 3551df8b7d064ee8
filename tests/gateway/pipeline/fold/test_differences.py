"""Members' statements are compared with the last grants. In normal operation they agree."""

from collections.abc import Mapping, Sequence

import pytest

from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupAdopted,
    GroupCreated,
    GroupDeleted,
    GroupForwarded,
    HostingStarted,
    ReleaseStarted,
)
from gateway.events.member_events import (
    GrantEnded,
    PartitionsAssigned,
    PartitionsStated,
)
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.ownership import DifferenceRow
from tests.support.event_writer import START_MS, EventWriter, lines_of, seconds
from tests.support.folded_lines import folded

CREATED = GroupCreated(kind="consumer")


def says(member_id: str, *numbers: int) -> GatewayEvent:
    return PartitionsStated(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def gets(member_id: str, *numbers: int) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def gives(member_id: str, *numbers: int) -> GatewayEvent:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=1, partitions={"t": numbers}
    )


def as_it_should_be(writer: EventWriter) -> None:
    """A member learns late that it has lost a partition, and a new owner states it at once."""
    writer.tell(1, CREATED, gets("a", 0))
    writer.beside(2, says("a", 0))
    writer.tell(3, gives("a", 0))
    writer.beside(4, says("a", 0))
    writer.tell(5, gets("b", 0))
    writer.beside(5, says("b", 0))


def anothers(writer: EventWriter) -> None:
    """The partition was granted to another member since."""
    writer.tell(1, CREATED, gets("a", 0), gives("a", 0), gets("b", 0))
    writer.beside(2, says("a", 0))


def at_once(writer: EventWriter) -> None:
    """It was granted, revoked and granted to another within one moment. The remaining owner was the
    last."""
    writer.tell(1, CREATED, gets("z", 0), gives("z", 0), gets("b", 0))
    writer.tell(1, gets("a", 1), gives("a", 1), gets("b", 1))
    writer.beside(2, says("b", 0, 1))


def nobodys(writer: EventWriter) -> None:
    """It was never granted, and the history is complete since the group's creation."""
    writer.tell(1, CREATED, gets("a", 0))
    writer.beside(2, says("a", 0, 1))


def unknown(writer: EventWriter) -> None:
    """It may have been granted before the first line."""
    writer.lose(3)
    writer.tell(1, gets("a", 0))
    writer.beside(2, says("a", 0, 1))


def commits(at_s: float, member_id: str) -> GatewayEvent:
    at_ms = START_MS + round(at_s * 1000)
    stored = CommittedOffsets(partition=0, commits=1, first=7, lowest=7, last=7)
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms,
        to_ms=at_ms,
        offsets={"t": (stored,)},
    )


def a_stray_commit(writer: EventWriter) -> None:
    """A former owner and a member that never had the partition commit for it."""
    writer.tell(1, CREATED, gets("a", 0), gives("a", 0), gets("b", 0))
    writer.beside(3, commits(3, "a"), commits(3, "c"))


def a_commit_on_its_way(writer: EventWriter) -> None:
    """The owner had sent it before it gave the partition up."""
    writer.tell(1, CREATED, gets("a", 0))
    writer.tell(2, gives("a", 0), gets("b", 0))
    writer.beside(2.9, commits(2.9, "a"))


def a_visit(writer: EventWriter) -> None:
    """The cluster grants before the group is adopted, and after it is released. In between the
    engine does, and a stray commit is found."""
    writer.tell(0, GroupForwarded(reason="its members"))
    writer.beside(1, commits(1, "a"))
    writer.tell(2, GroupAdopted(held_ms=5), CREATED, gets("a", 0))
    writer.beside(3, commits(3, "z"))
    writer.tell(4, ReleaseStarted(members=1), gives("a", 0))
    writer.beside(5, commits(5, "b"))
    writer.tell(6, GroupForwarded(reason="released"))
    writer.beside(7, commits(7, "b"))


def adopted_again(writer: EventWriter) -> None:
    """The engine granted the partition before the cluster had the group. Since then it has granted
    only another one."""
    writer.tell(1, CREATED, gets("a", 0, 1))
    writer.tell(2, ReleaseStarted(members=1), gives("a", 0, 1), GroupDeleted())
    writer.beside(2, GroupForwarded(reason="released"))
    writer.forget(4)
    writer.tell(4, CREATED)
    writer.beside(4, HostingStarted(reason="it was adopted"), GroupAdopted(held_ms=5))
    writer.beside(5, commits(5, "b"))
    writer.tell(6, gets("c", 1))
    writer.beside(7, says("b", 0, 1))


EXPECTED: Mapping[object, Sequence[tuple[int, str, str | None, str, float]]] = {
    as_it_should_be: [],
    anothers: [(0, "a", "b", "statement", 2)],
    at_once: [],
    nobodys: [(1, "a", None, "statement", 2)],
    unknown: [],
    a_stray_commit: [(0, "a", "b", "commit", 3), (0, "c", "b", "commit", 3)],
    a_commit_on_its_way: [],
    a_visit: [(0, "z", "a", "commit", 3)],
    adopted_again: [(1, "b", "c", "statement", 7)],
}
TELLERS = (
    *(as_it_should_be, anothers, at_once, nobodys, unknown),
    *(a_stray_commit, a_commit_on_its_way, a_visit, adopted_again),
)


@pytest.fixture(scope="module")
def rows() -> Sequence[DifferenceRow]:
    """The differences of all histories."""
    return folded(*lines_of({tell.__name__: tell for tell in TELLERS})).differences


@pytest.mark.parametrize("tell", TELLERS)
def test_hand_written_histories_have_the_expected_differences(
    tell: object, rows: Sequence[DifferenceRow]
) -> None:
    """Each history is explained where it is defined."""
    found = [
        (row.partition, row.member_id, row.granted_to, row.said_by, seconds(row.at_ms))
        for row in rows
        if row.group_id == getattr(tell, "__name__", None)
    ]
    assert found == EXPECTED[tell]
