"""Moves from one protocol to the other: there, back, given up, and with nobody in the group."""

from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import Row, SparkSession

from coordinator.records import RemovalCause
from gateway.events.event import GatewayEvent
from gateway.events.group_events import Direction, GroupConverted, GroupCreated
from gateway.events.member_events import (
    MemberJoined,
    MemberLeft,
    PartitionsAssigned,
    PartitionsReleased,
    Protocol,
)
from gateway.pipeline.tables.changes import changes
from gateway.pipeline.tables.migrations import migrations
from gateway.pipeline.tables.ownership import ownership
from gateway.pipeline.tables.rebalances import rebalances
from tests.support.scribe import Scribe, lines_of, seconds, stories

UP: Direction = "generic->consumer"
DOWN: Direction = "consumer->generic"


def joins(member_id: str, protocol: Protocol) -> GatewayEvent:
    return MemberJoined(
        member_id=member_id, client_id="c", client_host="/h", instance_id=None, protocol=protocol
    )


def leaves(member_id: str) -> GatewayEvent:
    return MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)


def up() -> GatewayEvent:
    return GroupConverted(direction=UP, is_live=True, group_epoch=1, members=1, cause="n joined")


def down() -> GatewayEvent:
    return GroupConverted(direction=DOWN, is_live=True, generation=2, members=1, cause="n left")


def gets(member_id: str) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": (0, 1)})


def gives(member_id: str) -> GatewayEvent:
    return PartitionsReleased(member_id=member_id, member_epoch=1, partitions={"t": (0, 1)})


def there(scribe: Scribe) -> None:
    """Two members one after the other; for three seconds two partitions had no owner."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"), joins("b", "classic"))
    scribe.tell(1, gets("a"))
    scribe.tell(10, gives("a"), leaves("a"))
    scribe.tell(12, up(), joins("n", "consumer"))
    scribe.tell(13, gets("n"))
    scribe.tell(14, gives("n"))
    scribe.tell(17, gets("n"))
    scribe.tell(20, leaves("b"), joins("m", "consumer"))


def and_back(scribe: Scribe) -> None:
    """Both ways are migrations of their own."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"), joins("b", "classic"))
    scribe.tell(2, up(), joins("n", "consumer"))
    scribe.tell(3, leaves("a"))
    scribe.tell(4, leaves("b"))
    scribe.tell(8, joins("c", "classic"))
    scribe.tell(9, leaves("n"), down())


def given_up(scribe: Scribe) -> None:
    """The only native member leaves again."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"))
    scribe.tell(2, up(), joins("n", "consumer"))
    scribe.tell(5, leaves("n"), down())


def not_yet(scribe: Scribe) -> None:
    """It is still mixed."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"))
    scribe.tell(2, up(), joins("n", "consumer"))


def while_empty(scribe: Scribe) -> None:
    """The last classic member leaves before the first native one comes."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"))
    scribe.tell(3, leaves("a"))
    scribe.tell(7, up(), joins("n", "consumer"))


def none(scribe: Scribe) -> None:
    """Members come and go, and the protocol stays."""
    scribe.tell(1, GroupCreated(kind="generic"), joins("a", "classic"))
    scribe.tell(3, leaves("a"))
    scribe.tell(7, joins("b", "classic"))


Found = tuple[str, float | None, float | None, bool, int, int, float]
"""Direction, from, to, whether it is complete, conversions, steps, unowned partition-seconds."""

CASES: Mapping[object, Sequence[Found]] = {
    there: [(UP, 12, 20, True, 1, 2, 6)],
    and_back: [(UP, 2, 4, True, 1, 1, 0), (DOWN, 8, 9, True, 1, 1, 0)],
    given_up: [(UP, 2, 5, False, 2, 1, 0)],
    not_yet: [(UP, 2, None, False, 1, 1, 0)],
    while_empty: [(UP, 3, 7, True, 1, 1, 0)],
    none: [],
}
TELLERS = (there, and_back, given_up, not_yet, while_empty, none)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Sequence[Row]:
    """Of all stories in one run."""
    told = stories(spark, *lines_of({tell.__name__: tell for tell in TELLERS}))
    changed = changes(told).persist()
    return migrations(changed, ownership(told), rebalances(changed)).collect()


@pytest.mark.parametrize("tell", TELLERS)
def test_migrations(tell: object, rows: Sequence[Row]) -> None:
    """As worked out by hand; what each shows is said where it is told."""
    found = [
        (
            row.direction,
            seconds(row.from_ms),
            seconds(row.to_ms),
            row.is_complete,
            row.conversions,
            row.steps,
            row.unowned_partition_s,
        )
        for row in rows
        if row.group_id == getattr(tell, "__name__", None)
    ]
    assert sorted(found, key=str) == sorted(CASES[tell], key=str)
