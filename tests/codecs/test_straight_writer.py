"""Straight writers agree with the constructs that they are made from, or give up."""

from dataclasses import fields, replace
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_codecs import WireError, encode
from kafka_codecs.assembly import message_codec
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_codecs.primitives import STRING_SIZE_MAX
from kafka_codecs.straight import GAVE_UP
from kafka_codecs.straight_writer import StraightWriter, straight_writer
from tests.support.codecs import every_layout, sample, values
from tests.support.hypothesis_profile import examples

EVERY_LAYOUT = every_layout()


@cache
def writer(message_type: Any, version: int) -> StraightWriter:
    return straight_writer(message_codec(message_type, version))


def written_by_construct(message: Struct, version: int) -> bytes:
    """The bytes that the construct writes."""
    kind: Any = type(message)
    stream = BytesIO()
    message_codec(kind, version).write(message, stream)
    return stream.getvalue()


@EVERY_LAYOUT
@settings(max_examples=examples(3))
@given(data=st.data())
def test_what_is_written_straight_is_what_the_construct_writes(
    message_type: type[Struct], version: int, data: st.DataObject
) -> None:
    """The straight writer writes every value that the version can carry."""
    kind: Any = message_type
    value = data.draw(values(message_type, version))
    assert writer(kind, version)(value) == written_by_construct(value, version)


@EVERY_LAYOUT
def test_a_field_that_the_version_lacks_is_left_to_the_construct(
    message_type: type[Struct], version: int
) -> None:
    """The construct refuses any value but the default, or ignores the field."""
    kind: Any = message_type
    for other in message_type.SCHEMA.versions:
        full = sample(message_type, other)
        for field in fields(message_type):
            value = replace(
                sample(message_type, version), **{field.name: getattr(full, field.name)}
            )
            try:
                straight = writer(kind, version)(value)
            except GAVE_UP:
                with pytest.raises(WireError):
                    encode(value, version)
            else:
                assert straight == written_by_construct(value, version)


def test_long_values_are_written_straight() -> None:
    """Their compact lengths take several bytes."""
    protocol = JoinGroupProtocol(name="p" * 200, metadata=b"m" * 70_000)
    join = JoinGroupRequest(
        group_id="g" * STRING_SIZE_MAX,
        session_timeout_ms=1,
        member_id="m",
        protocol_type="consumer",
        protocols=(protocol,) * 200,
    )
    assert writer(JoinGroupRequest, 9)(join) == written_by_construct(join, 9)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (HeartbeatRequest(group_id="g", generation_id=2**31, member_id="m"), "generation_id"),
        (HeartbeatRequest(group_id="g" * 40_000, generation_id=1, member_id="m"), "group_id"),
        (HeartbeatRequest(group_id="\ud800", generation_id=1, member_id="m"), "group_id"),
        (HeartbeatResponse(unknown_tags=((2, b""), (1, b""))), "tagged fields"),
    ],
)
def test_the_construct_says_what_is_wrong(message: Struct, field: str) -> None:
    """The writer only gives up."""
    kind: Any = type(message)
    with pytest.raises(GAVE_UP):
        writer(kind, 4)(message)
    with pytest.raises(WireError, match=field):
        encode(message, 4)
