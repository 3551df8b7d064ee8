"""Records survive encoding, today and after an upgrade."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    CurrentAssignment,
    DurableRecord,
    MemberMetadata,
    ReleaseRecord,
    ReleaseState,
)
from gateway.state_log.last_events import FORGOTTEN, LastEvents
from gateway.state_log.record_format import Entry, decode_record, encode_record
from kafka_codecs import WireError, state_records
from kafka_codecs.state_records import RecordType
from tests.support.durable_records import ANY_RECORD, GROUP, RECORDS, TOMBSTONES
from tests.support.group_records import given_classic_group_member

FIRST_VERSIONS = Path(__file__).parents[2] / "golden" / "state_records_v1"

EVERY_RECORD = pytest.mark.parametrize(
    "record",
    [*RECORDS.values(), *TOMBSTONES.values()],
    ids=[*RECORDS, *(f"no {n}" for n in TOMBSTONES)],
)


def stored_entry(name: str) -> Entry:
    """A record as the first version of the format wrote it."""
    lines = (FIRST_VERSIONS / f"{name}.hex").read_text().splitlines()
    key, value = (bytes.fromhex(line.split()[1]) for line in lines)
    return Entry(key, value)


def as_read(record: DurableRecord) -> DurableRecord:
    """The log does not store the cause of a member's tombstone."""
    if isinstance(record, MemberMetadata) and record.value is None:
        return replace(record, cause=None)
    return record


@EVERY_RECORD
def test_every_kind_of_record_survives(record: DurableRecord) -> None:
    """Its group and all of its fields are preserved."""
    assert decode_record(encode_record(GROUP, record)) == (GROUP, as_read(record))


@given(group_id=st.text(max_size=20), record=ANY_RECORD)
def test_any_record_survives(group_id: str, record: DurableRecord) -> None:
    """Equal records have equal bytes."""
    entry = encode_record(group_id, record)
    assert decode_record(entry) == (group_id, as_read(record))
    assert encode_record(*decode_record(entry)) == entry


@given(first=ANY_RECORD, second=ANY_RECORD)
def test_only_equal_keys_have_equal_bytes(first: DurableRecord, second: DurableRecord) -> None:
    """Compaction by bytes then equals compaction by records."""
    bytes_are_equal = encode_record(GROUP, first).key == encode_record(GROUP, second).key
    assert bytes_are_equal is (first.key == second.key)


@pytest.mark.parametrize("name", RECORDS)
def test_the_first_version_of_the_format_stays_readable(name: str) -> None:
    """An upgrade must not lose a group. These files never change."""
    assert decode_record(stored_entry(name)) == (GROUP, RECORDS[name])


@pytest.mark.parametrize("name", RECORDS)
def test_the_first_version_is_written(name: str) -> None:
    """A second version will need its own files."""
    assert encode_record(GROUP, RECORDS[name]) == stored_entry(name)


def test_the_first_version_of_the_last_events_stays_readable() -> None:
    """The file has its second format then, but this record its first."""
    last = LastEvents(sequence=1 << 40, lines=('{"event": "member_left"}', "ü"))
    assert decode_record(encode_record(GROUP, last)) == (GROUP, last)
    assert encode_record(GROUP, last) == stored_entry("last_events")
    timed = replace(last, began_ms=1 << 41, at_ms=(1 << 41) + 1)
    assert decode_record(encode_record(GROUP, timed)) == (GROUP, timed)


def test_a_line_of_the_last_events_may_exceed_a_kafka_string() -> None:
    """An event may list thousands of partitions of a member."""
    last = LastEvents(sequence=1, lines=("x" * (1 << 20), "ü" * (1 << 15)))
    assert decode_record(encode_record(GROUP, last)) == (GROUP, last)


def test_last_events_that_are_not_text_are_refused() -> None:
    """Such events are refused like any unreadable record."""
    entry = encode_record(GROUP, LastEvents(sequence=1, lines=("xy",)))
    assert entry.value is not None
    with pytest.raises(WireError, match="LAST_EVENTS"):
        decode_record(Entry(entry.key, entry.value.replace(b"xy", b"\xff\xff")))


def test_the_last_events_have_a_tombstone() -> None:
    """A deleted group leaves nothing."""
    entry = encode_record(GROUP, FORGOTTEN)
    assert entry == Entry(encode_record(GROUP, LastEvents(sequence=1, lines=())).key, None)
    assert decode_record(entry) == (GROUP, FORGOTTEN)


def test_a_subscription_is_stored_once() -> None:
    """A classic group is one record, and subscriptions are most of it."""
    record = RECORDS["classic_group"]
    assert isinstance(record, ClassicGroupMetadata)
    value = encode_record(GROUP, record).value
    assert value is not None
    assert record.value is not None
    ((_, subscription), _) = record.value.members[0].protocols
    assert value.count(subscription) == 1


def test_the_record_of_a_release_keeps_the_epochs_of_members_that_lag() -> None:
    """A process that continues with it checks their commits by them."""
    value = ClassicGroupValue(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=None,
        members=(given_classic_group_member("n-1"), given_classic_group_member("n-2")),
        older_epochs={"n-1": 2},
    )
    record = ReleaseRecord(value=ReleaseState(group=value))
    assert decode_record(encode_record(GROUP, record)) == (GROUP, record)


def test_a_log_of_a_later_version_is_refused() -> None:
    """The log has an unknown type, version or cause."""
    entry = encode_record(GROUP, RECORDS["group_epoch"])
    assert entry.value is not None
    with pytest.raises(WireError, match="record type 9 is not known"):
        decode_record(Entry(b"\x00\x09" + entry.key[2:], entry.value))
    with pytest.raises(WireError, match="has no version 1"):
        decode_record(Entry(entry.key, b"\x00\x01" + entry.value[2:]))
    with pytest.raises(WireError, match="CONSUMER_GROUP_METADATA: 'member_joyned'"):
        decode_record(Entry(entry.key, entry.value.replace(b"joined", b"joyned")))


def test_partitions_without_their_epochs_are_refused() -> None:
    """Without the epochs, stale commits could not be recognised."""
    entry = encode_record(GROUP, RECORDS["current_assignment"])
    assert entry.value is not None
    record_type = RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
    value = state_records.decode_value(record_type, entry.value)
    assert isinstance(value, state_records.ConsumerGroupCurrentMemberAssignmentValue)
    cut = replace(value.assigned_partitions[0], assignment_epochs=(1,))
    shorter = state_records.encode_value(replace(value, assigned_partitions=(cut,)))
    with pytest.raises(WireError, match="CURRENT_MEMBER_ASSIGNMENT"):
        decode_record(Entry(entry.key, shorter))


def test_additions_of_a_later_version_are_skipped() -> None:
    """Additions are tagged fields, so an older groupferry can read the log after a downgrade."""
    record = RECORDS["current_assignment"]
    assert isinstance(record, CurrentAssignment)
    entry = encode_record(GROUP, record)
    assert entry.value is not None
    assert entry.value.endswith(b"\x00")
    later = Entry(entry.key, entry.value[:-1] + bytes.fromhex("01 a09c01 02 beef"))
    assert decode_record(later) == (GROUP, record)


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
def test_wrong_bytes_raise_wire_error_or_give_another_record(
    name: str, data: st.DataObject
) -> None:
    """A log may be damaged anywhere."""
    entry = stored_entry(name)
    assert entry.value is not None
    place = data.draw(st.integers(0, len(entry.value) - 1))
    byte = data.draw(st.integers(0, 255))
    damaged = entry.value[:place] + bytes([byte]) + entry.value[place + 1 :]
    with contextlib.suppress(WireError):
        decode_record(Entry(entry.key, damaged))
