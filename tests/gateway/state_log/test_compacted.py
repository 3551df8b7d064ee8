"""The content of a log: the newest record of each key, by group."""

import pytest

from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    Assignment,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMetadata,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    is_tombstone,
)
from gateway.state_log import compacted
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.last_events import FORGOTTEN, LastEvents, LogRecord
from gateway.state_log.log import StateLogUnreadable
from gateway.state_log.record_format import StoredEntry, encode_record

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
def test_a_tombstone_is_recognised_by_its_value(record: DurableRecord, *, deletes: bool) -> None:
    """Epoch 0 and an empty target are ordinary values."""
    assert is_tombstone(record) is deletes


@pytest.mark.parametrize(
    ("value", "tombstone"),
    list(zip(VALUES, TOMBSTONES, strict=True)),
    ids=[type(value).__name__ for value in VALUES],
)
def test_a_tombstone_deletes_its_key(value: DurableRecord, tombstone: DurableRecord) -> None:
    """A deleted record occupies no memory."""
    log = CompactedLog()
    log.put("g", [value])
    assert log.read("g") == (value,)
    log.put("g", [tombstone])
    assert log.read("g") == ()
    assert log.group_ids() == ()


def test_the_newest_of_a_key_comes_last() -> None:
    """The records that it refers to precede it, as in a compacted log."""
    log = CompactedLog()
    first, second = (TargetAssignmentMetadata(epoch=epoch) for epoch in (1, 2))
    member = MemberMetadata(member_id="m", value=MEMBER)
    log.put("g", [first, member])
    log.put("g", [second])
    assert log.read("g") == (member, second)


def test_the_last_record_of_a_batch_wins() -> None:
    """A member replaced under its own id is deleted and written in one batch."""
    log = CompactedLog()
    value = MemberMetadata(member_id="m", value=MEMBER)
    gone = MemberMetadata(member_id="m", value=None, cause=RemovalCause.REPLACED)
    log.put("g", [value, gone, value])
    assert log.read("g") == (value,)
    log.put("g", [value, gone])
    assert log.read("g") == ()


def test_groups_are_separate() -> None:
    """Their keys are the same."""
    log = CompactedLog()
    first, second = (TargetAssignmentMetadata(epoch=epoch) for epoch in (1, 2))
    log.put("g", [first])
    log.put("h", [second])
    assert log.read("g") == (first,)
    assert log.read("h") == (second,)
    assert log.read("never") == ()
    assert set(log.group_ids()) == {"g", "h"}


def test_an_empty_batch_leaves_no_trace() -> None:
    """Most steps of a group write no durable records."""
    log = CompactedLog()
    log.put("g", [])
    assert log.read("g") == ()
    assert log.group_ids() == ()


def test_the_last_events_of_a_deleted_group_stay_until_forgotten() -> None:
    """Their lines may have to be written again. They do not count as a group."""
    log = CompactedLog()
    log.put("g", [VALUES[0], LastEvents(sequence=1, lines=("one",))])
    log.put("g", [TOMBSTONES[0], LastEvents(sequence=2, lines=("two",))])
    assert log.group_ids() == ()
    assert log.told_group_ids() == ("g",)
    assert log.last_events("g") == LastEvents(sequence=2, lines=("two",))
    assert log.last_events("h") is None
    log.put("g", [FORGOTTEN])
    log.put("h", [FORGOTTEN])
    assert log.told_group_ids() == ()
    assert log.last_events("g") is None


def in_storage(group_id: str, *records: LogRecord) -> CompactedLog:
    """A log that was found in storage."""
    log = CompactedLog("record {}".format)
    for offset, record in enumerate(records, start=1):
        log.put_stored(group_id, StoredEntry(offset, *encode_record(group_id, record)))
    return log


def test_a_group_in_storage_is_listed_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gateway with thousands of groups serves immediately."""
    events = LastEvents(sequence=1, lines=("one",))
    log = in_storage("g", VALUES[0], VALUES[3], events)
    with monkeypatch.context() as patch:
        patch.delattr(compacted, "decode_record")
        assert (log.group_ids(), log.told_group_ids()) == (("g",), ("g",))
        assert log.read("h") == ()
    assert log.read("g") == (VALUES[0], VALUES[3])
    assert log.last_events("g") == events


def test_a_batch_follows_what_storage_has() -> None:
    """The group need not have been read before."""
    log = in_storage("g", VALUES[0], VALUES[1])
    log.put("g", [TOMBSTONES[0], VALUES[3]])
    assert log.read("g") == (VALUES[1], VALUES[3])


def test_last_events_in_storage_make_no_group() -> None:
    """The group was deleted."""
    log = in_storage("g", LastEvents(sequence=1, lines=()))
    assert (log.group_ids(), log.told_group_ids()) == ((), ("g",))
    assert log.read("g") == ()
    assert (log.group_ids(), log.told_group_ids()) == ((), ("g",))


@pytest.mark.parametrize("others", [(), (VALUES[0],)], ids=["alone", "with a group"])
def test_configs_in_storage_may_have_a_group(others: tuple[LogRecord, ...]) -> None:
    """In any order."""
    configs = GroupConfigs(overrides={"consumer.session.timeout.ms": 1})
    for records in ((configs, *others), (*others, configs)):
        log = in_storage("g", *records)
        for _ in range(2):  # before and after it is decoded
            assert log.configs_alone == (set() if others else {"g"})
            log.read("g")


def test_an_adoption_is_known_before_its_group_is_decoded() -> None:
    """The group's requests are held from the first one on."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    adoption = AdoptionRecord(value=AdoptionState(group=group))
    log = in_storage("g", adoption)
    assert log.moving == {"g"}
    log.put("g", [adoption])
    log.put("h", [adoption])
    assert log.moving == {"g", "h"}
    log.put("g", [AdoptionRecord(value=None)])
    log.put("h", [adoption, AdoptionRecord(value=None)])
    assert log.moving == set()


def test_a_record_in_storage_is_found_unreadable_with_its_group() -> None:
    """Others are not affected, and the events of the group continue."""
    events = LastEvents(sequence=1, lines=())
    log = in_storage("g", VALUES[0], events)
    log.put_stored("g", StoredEntry(7, encode_record("g", VALUES[1]).key, b"garbage"))
    assert log.unreadable == {}
    with pytest.raises(StateLogUnreadable, match="record 7 cannot be read"):
        log.read("g")
    assert list(log.unreadable) == ["g"]
    assert log.group_ids() == ()
    assert log.last_events("g") == events


def test_a_group_with_an_unreadable_record_is_refused() -> None:
    """Without one of its records it would be another group."""
    log = CompactedLog()
    log.put("g", [VALUES[0]])
    log.put("h", [VALUES[0]])
    log.unreadable["g"] = "record 7 cannot be read"
    with pytest.raises(StateLogUnreadable, match="record 7 cannot be read"):
        log.read("g")
    assert log.group_ids() == ("h",)
    assert log.read("h") == (VALUES[0],)


def test_configs_without_a_group_are_counted() -> None:
    """These expire. A group that is created later keeps its configs."""
    log = CompactedLog()
    configs = GroupConfigs(overrides={"consumer.session.timeout.ms": 60_000})
    log.put("g", [configs])
    assert log.configs_alone == {"g"}
    log.put("g", [VALUES[0]])
    assert log.configs_alone == set()
    log.put("g", [TOMBSTONES[0]])
    assert log.configs_alone == {"g"}
    log.put("g", [GroupConfigs(overrides={})])
    assert log.configs_alone == set()
    assert log.group_ids() == ()


def test_the_configs_of_a_group_are_known_without_its_other_records() -> None:
    """From storage, too; a group without any has none."""
    log = in_storage("g", VALUES[0], GroupConfigs(overrides={"a": 1}))
    assert log.config_overrides("g") == {"a": 1}
    assert log.config_overrides("h") == {}
    log.put("g", [GroupConfigs(overrides={})])
    assert log.config_overrides("g") == {}
