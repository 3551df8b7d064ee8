"""What the bytes of the log say."""

import pytest

from coordinator.records import TargetAssignmentMetadata
from gateway.state_log.kafka.content import content_of, id_entry, owner_entry
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.record_format import Entry, encode_record
from kafka_codecs.state_records import LogOwnerValue


def test_the_newest_of_each_key() -> None:
    """Whatever compaction has left of the others, and tombstones leave nothing."""
    entries = [
        encode_record("a", TargetAssignmentMetadata(epoch=1)),
        encode_record("b", TargetAssignmentMetadata(epoch=2)),
        encode_record("a", TargetAssignmentMetadata(epoch=3)),
        encode_record("b", TargetAssignmentMetadata(epoch=None)),
    ]
    groups = content_of(entries).groups
    assert groups.read("a") == (TargetAssignmentMetadata(epoch=3),)
    assert groups.group_ids() == ("a",)


def test_whose_log_it_is() -> None:
    """The last claim counts; the id is that of the log, whoever has it."""
    first, second = (
        LogOwnerValue(owner_id=name, host="h", process_id=1, since=2) for name in ("one", "two")
    )
    content = content_of([owner_entry(first), id_entry("log"), owner_entry(second)])
    assert (content.log_id, content.owner) == ("log", second)
    assert (content_of([]).log_id, content_of([]).owner) == (None, None)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(b"", b""),
        Entry(b"\x7f\xff\x00", b"\x00\x00"),
        Entry(encode_record("a", TargetAssignmentMetadata(epoch=1)).key, b"\x00\x63"),
    ],
    ids=["no key", "a type of later", "a version of later"],
)
def test_what_cannot_be_read_is_not_passed_over(entry: Entry) -> None:
    """A group of which some record is missing would be another group."""
    with pytest.raises(StateLogUnusable, match="newer groupferry"):
        content_of([entry])
