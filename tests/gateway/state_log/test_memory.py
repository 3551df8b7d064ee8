"""The log in memory: compacted as it is written, and good enough to come back from."""

import pytest

from coordinator.engine import GroupEngine
from coordinator.records import (
    Assignment,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMetadata,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    is_tombstone,
)
from coordinator.simulation.replay import durable_state
from gateway.state_log.memory import MemoryLog
from tests.support.group_script import GroupScript

MEMBER = Member(
    member_id="m",
    client_id="c",
    client_host="/",
    rebalance_timeout_ms=1,
    classic=ClassicMetadata(session_timeout_ms=1, protocols=()),
)
VALUES: list[DurableRecord] = [
    GroupEpoch(epoch=0, cause=EpochCause.MEMBER_JOINED),
    TargetAssignmentMetadata(epoch=0),
    TargetAssignmentMember(member_id="m", partitions=frozenset()),
    MemberMetadata(member_id="m", value=MEMBER),
    CurrentAssignment(member_id="m", value=Assignment(member_epoch=1, previous_epoch=0)),
    ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)
    ),
]
TOMBSTONES: list[DurableRecord] = [
    GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    TargetAssignmentMetadata(epoch=None),
    TargetAssignmentMember(member_id="m", partitions=None),
    MemberMetadata(member_id="m", value=None, cause=RemovalCause.LEFT),
    CurrentAssignment(member_id="m", value=None),
    ClassicGroupMetadata(value=None),
]


@pytest.mark.parametrize(
    ("record", "deletes"),
    [*((record, False) for record in VALUES), *((record, True) for record in TOMBSTONES)],
    ids=lambda value: str(value) if isinstance(value, bool) else type(value).__name__,
)
def test_a_tombstone_is_known_by_its_value(record: DurableRecord, *, deletes: bool) -> None:
    """An epoch 0 and an empty target are values like others."""
    assert is_tombstone(record) is deletes


@pytest.mark.parametrize(
    ("value", "tombstone"),
    list(zip(VALUES, TOMBSTONES, strict=True)),
    ids=[type(value).__name__ for value in VALUES],
)
async def test_a_tombstone_deletes_its_key(value: DurableRecord, tombstone: DurableRecord) -> None:
    """And what is deleted takes no room."""
    log = MemoryLog()
    await log.append("g", [value])
    assert await log.read("g") == (value,)
    await log.append("g", [tombstone])
    assert await log.read("g") == ()
    assert await log.group_ids() == ()


async def test_the_newest_of_a_key_comes_last() -> None:
    """As in a compacted log: what a record refers to was written before it."""
    log = MemoryLog()
    first, second = (TargetAssignmentMetadata(epoch=epoch) for epoch in (1, 2))
    member = MemberMetadata(member_id="m", value=MEMBER)
    await log.append("g", [first, member])
    await log.append("g", [second])
    assert await log.read("g") == (member, second)


async def test_within_a_batch_the_last_word_counts() -> None:
    """A member replaced under its own id is deleted and written in one batch."""
    log = MemoryLog()
    value = MemberMetadata(member_id="m", value=MEMBER)
    gone = MemberMetadata(member_id="m", value=None, cause=RemovalCause.REPLACED)
    await log.append("g", [value, gone, value])
    assert await log.read("g") == (value,)
    await log.append("g", [value, gone])
    assert await log.read("g") == ()


async def test_groups_are_apart() -> None:
    """Their keys are the same."""
    log = MemoryLog()
    first, second = (TargetAssignmentMetadata(epoch=epoch) for epoch in (1, 2))
    await log.append("g", [first])
    await log.append("h", [second])
    assert await log.read("g") == (first,)
    assert await log.read("h") == (second,)
    assert await log.read("never") == ()
    assert set(await log.group_ids()) == {"g", "h"}


async def test_an_empty_batch_leaves_no_trace() -> None:
    """Most steps of a group have nothing durable."""
    log = MemoryLog()
    await log.append("g", [])
    assert await log.read("g") == ()
    assert await log.group_ids() == ()


async def test_a_group_that_went_through_everything_comes_back_the_same() -> None:
    """Classic, mixed, consumer, with members gone: what is read is what was."""
    script, log = GroupScript(), MemoryLog()
    written = 0

    async def check() -> None:
        nonlocal written
        await log.append("orders", script.log[written:])
        written = len(script.log)
        engine = GroupEngine("orders", script.config)
        engine.load(await log.read("orders"), now_ms=script.now_ms)
        expected = durable_state(script.engine.state)
        assert durable_state(engine.state) == expected, script.story()

    ids = script.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    await check()
    epoch = script.native("n").member_epoch
    await check()
    script.beat(ids["a"], 1)
    script.join(ids["a"], topics=["foo"])
    await check()
    script.native("n", epoch, owned={})
    await check()
    script.leave(ids["a"])
    await check()
    script.native("n", -1)
    script.wait(5_000)
    await check()
