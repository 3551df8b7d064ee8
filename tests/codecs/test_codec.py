"""`decode` and `encode`; `test_every_message` covers all messages."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.assembly import is_alike
from kafka_codecs.codec import encode_up_to, encoded_from
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.support.codecs import sample


def test_an_error_names_message_version_field_and_reason() -> None:
    """An operator can act on this line, which does not mention construct."""
    with pytest.raises(WireError) as caught:
        decode(HeartbeatRequest, b"\x06gro", 4)
    assert str(caught.value) == "HeartbeatRequest v4, group_id: 5 bytes wanted, 3 left"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("version", OffsetCommitRequest.SCHEMA.versions)
def test_malformed_text_keeps_its_bytes_behind_a_replaced_field(version: int) -> None:
    """Whatever a client commits reaches the broker as it was sent."""
    wire = encode(sample(OffsetCommitRequest, version), version)
    wire = wire.replace("naïve".encode(), b"na\x80\xffve")
    request = decode(OffsetCommitRequest, wire, version)
    offsets = encoded_from(OffsetCommitRequest, version, wire, "topics")
    assert wire.endswith(offsets)
    assert b"na\x80\xffve" in offsets
    rebuilt = encode_up_to(request, version, "topics") + offsets
    assert decode(OffsetCommitRequest, rebuilt, version) == request


@pytest.mark.parametrize("version", OffsetCommitRequest.SCHEMA.versions)
def test_the_fields_before_another_are_replaced(version: int) -> None:
    """Only the fields before the named one are written; the others keep their bytes."""
    message = sample(OffsetCommitRequest, version)
    changed = replace(message, member_id="another", generation_id_or_member_epoch=7)
    encoded = encoded_from(OffsetCommitRequest, version, encode(message, version), "topics")
    assert encode_up_to(changed, version, "topics") + encoded == encode(changed, version)


def test_bytes_that_end_before_the_kept_fields_are_a_wire_error() -> None:
    """Encoding fails with the same error as decoding."""
    message = sample(OffsetCommitRequest, 9)
    with pytest.raises(WireError, match="OffsetCommitRequest v9"):
        encoded_from(OffsetCommitRequest, 9, encode(message, 9)[:3], "topics")


@pytest.mark.parametrize("message_type", [OffsetCommitRequest, OffsetCommitResponse])
def test_versions_are_alike_if_their_bytes_are(message_type: Any) -> None:
    """`is_alike` goes by the declaration, not by the bytes."""
    versions = message_type.SCHEMA.versions
    for one in versions:
        for other in versions:
            if is_alike(message_type, one, other):
                message = sample(message_type, min(one, other))
                assert encode(message, one) == encode(message, other)
    assert is_alike(message_type, 8, 9)
    assert not is_alike(message_type, 7, 8)
    assert not is_alike(message_type, 9, 10)
