"""Straight readers agree with the constructs that they are made from, or give up."""

from functools import cache
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_codecs import WireError, decode, encode
from kafka_codecs.assembly import message_codec
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.primitives import STRING_SIZE_MAX
from kafka_codecs.straight import GAVE_UP, StraightReader, Unusual, straight_reader
from tests.support.codecs import every_layout, values
from tests.support.commits import commit_of
from tests.support.group_values import topic_id
from tests.support.hypothesis_profile import examples

EVERY_LAYOUT = every_layout()
HARMFUL = (0x00, 0x01, 0x7F, 0x80, 0xFF)


@cache
def reader(message_type: Any, version: int) -> StraightReader:
    return straight_reader(message_codec(message_type, version))


def check_agreement(message_type: Any, version: int, wire: bytes) -> bool:
    """Check what is read straight, if anything is."""
    try:
        decoded, end = reader(message_type, version)(wire)
    except GAVE_UP:
        return False
    if end > len(wire):
        return False
    stream = BytesIO(wire)
    assert message_codec(message_type, version).read(stream) == decoded
    assert stream.tell() == end
    return True


@EVERY_LAYOUT
@settings(max_examples=examples(2))
@given(data=st.data())
def test_what_is_read_straight_is_what_the_construct_reads(
    message_type: type[Struct], version: int, data: st.DataObject
) -> None:
    """Both readers also agree if one byte is wrong, or the last ones are missing."""
    wire = encode(data.draw(values(message_type, version)), version)
    check_agreement(message_type, version, wire)
    position = data.draw(st.integers(0, len(wire)))
    check_agreement(message_type, version, wire[:position])
    for byte in HARMFUL:
        wrong = wire[:position] + bytes([byte]) + wire[position + 1 :]
        check_agreement(message_type, version, wrong)


@pytest.mark.parametrize(
    "message",
    [
        HeartbeatRequest(group_id="payments", generation_id=3, member_id="m"),
        HeartbeatRequest(group_id="g" * 300, generation_id=3, member_id="m"),
        ConsumerGroupHeartbeatRequest(group_id="payments", member_id="m", member_epoch=3),
        ConsumerGroupHeartbeatRequest(
            group_id="payments",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1,
            subscribed_topic_names=("numbers",),
            topic_partitions=(TopicPartitions(topic_id=topic_id("numbers"), partitions=(0, 1, 2)),),
        ),
        commit_of({"numbers": {0: 1, 1: 2}}, group_id="payments", member_id="m", epoch=3),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_members_send_most_is_read_straight(message: Struct) -> None:
    """A type that is not read straight would be read twice in every heartbeat."""
    kind: Any = type(message)
    for version in kind.SCHEMA.versions[:-1]:  # the last version of a commit has topic ids
        assert check_agreement(kind, version, encode(message, version))


def test_tagged_fields_are_read_straight() -> None:
    """Most records of the state log have tagged fields."""
    tagged = HeartbeatRequest(
        group_id="g", generation_id=3, member_id="m", unknown_tags=((9, b"x"),)
    )
    assert check_agreement(HeartbeatRequest, 4, encode(tagged, 4))


@pytest.mark.parametrize("version", [0, 4])
def test_a_string_that_is_too_long_is_left_to_the_construct(version: int) -> None:
    """The construct raises the error."""
    size = STRING_SIZE_MAX + 1
    head = b"\x80\x00" if version == 0 else b"\x81\x80\x02"
    wire = head + bytes(size) + bytes(20)
    with pytest.raises(GAVE_UP):
        reader(HeartbeatRequest, version)(wire)
    with pytest.raises(WireError, match="group_id"):
        decode(HeartbeatRequest, wire, version)


def test_a_count_beyond_the_bytes_allocates_nothing() -> None:
    """The reader gives up before its loop."""
    head = encode(OffsetCommitRequest(group_id="g", topics=()), 2)[:-4]
    with pytest.raises(Unusual):
        reader(OffsetCommitRequest, 2)(head + b"\x7f\xff\xff\xff")
