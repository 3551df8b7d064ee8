"""`decode` and `encode`; `test_every_message` covers all messages."""

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.offset_commit import OffsetCommitRequest


def test_an_error_names_message_version_field_and_reason() -> None:
    """An operator can act on this line, which does not mention construct."""
    with pytest.raises(WireError) as caught:
        decode(HeartbeatRequest, b"\x06gro", 4)
    assert str(caught.value) == "HeartbeatRequest v4, group_id: 5 bytes wanted, 3 left"
    assert caught.value.__cause__ is None


def test_a_number_out_of_range_is_a_wire_error() -> None:
    """struct.error does not leave the package."""
    request = HeartbeatRequest(group_id="g", generation_id=2**31, member_id="m")
    with pytest.raises(WireError, match="HeartbeatRequest v0, generation_id"):
        encode(request, 0)


def test_text_that_is_not_utf8_is_a_wire_error() -> None:
    """UnicodeDecodeError does not leave the package."""
    with pytest.raises(WireError, match="group_id: 'utf-8' codec"):
        decode(HeartbeatRequest, b"\x00\x02\xc3\x28", 0)


def test_a_dropped_version_is_refused() -> None:
    """Kafka 4 has no OffsetCommit before v2."""
    with pytest.raises(WireError, match="OffsetCommitRequest has no version 1"):
        decode(OffsetCommitRequest, b"", 1)
