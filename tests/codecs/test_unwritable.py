"""Texts that replacements make too long to be written."""

from dataclasses import fields, replace
from typing import Any

import pytest

from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.primitives import STRING_SIZE_MAX, UnwritableText
from kafka_codecs.unwritable import UNWRITABLE_FROM_BYTES, has_unwritable_text
from tests.support.codecs import sample
from tests.support.commits import commit_of

MESSAGES = [
    message
    for api in APIS.values()
    for message in (api.request, api.response)
    if message is not None
]
TEXT = "naïve"
"""The value of every text of a sample."""
GROWN = UnwritableText(b"\xff" * UNWRITABLE_FROM_BYTES)


def grown(value: Any) -> Any:
    """The value, with unwritable texts."""
    if value == TEXT:
        return GROWN
    if isinstance(value, tuple):
        return tuple(map(grown, value))
    if isinstance(value, Struct):
        names = (field.name for field in fields(value))
        return replace(value, **{name: grown(getattr(value, name)) for name in names})
    return value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_message_writes_the_texts_that_it_has_read(message: Any) -> None:
    """None fails because replacements have made a text too long."""
    for version in message.SCHEMA.versions:
        original = sample(message, version)
        wire = encode(grown(original), version)
        decoded = decode(message, wire, version)
        assert encode(decoded, version) == wire
        assert has_unwritable_text(decoded) == has_unwritable_text(grown(original))
        assert not has_unwritable_text(original)


def test_a_text_is_found_wherever_it_is() -> None:
    assert has_unwritable_text(HeartbeatRequest(group_id="g", generation_id=1, member_id=GROWN))
    assert has_unwritable_text(
        LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=GROWN),))
    )


def test_texts_that_are_only_passed_on_do_not_count() -> None:
    """One example is the reason of a leave."""
    identity = MemberIdentity(member_id="m", reason="r" * UNWRITABLE_FROM_BYTES)
    leave = LeaveGroupRequest(group_id="g", members=(identity,))
    wire = encode(leave, 5).replace(b"r" * UNWRITABLE_FROM_BYTES, GROWN.octets)
    assert not has_unwritable_text(decode(LeaveGroupRequest, wire, 5))


def test_one_byte_less_can_be_written() -> None:
    """Requests of this length or less need no check."""
    wire = encode(HeartbeatRequest(group_id="g" * 10_922, generation_id=1, member_id="m"), 0)
    decoded = decode(HeartbeatRequest, wire.replace(b"g", b"\xff"), 0)
    assert not has_unwritable_text(decoded)
    assert encode(decoded, 0).count("\ufffd".encode()) == 10_922 == UNWRITABLE_FROM_BYTES - 1


@pytest.mark.parametrize("version", [7, 8])
def test_metadata_of_a_commit_is_passed_on_in_its_own_bytes(version: int) -> None:
    """Metadata that becomes too long to be written is passed on; Kafka then refuses one partition
    and stores the others."""
    text = "m" * (STRING_SIZE_MAX // 3 + 1)
    wire = encode(commit_of({"t": {0: 1}}, metadata=text), version)
    wire = wire.replace(text.encode(), b"\xff" * len(text))
    decoded = decode(OffsetCommitRequest, wire, version)
    assert encode(decoded, version) == wire
    (topic,) = decoded.topics
    assert topic.partitions[0].committed_metadata == "\ufffd" * len(text)
