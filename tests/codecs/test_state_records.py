"""The bytes of the state log's records."""

import pytest

from kafka_codecs import WireError
from kafka_codecs.state_records import (
    LAYOUTS,
    ConsumerGroupMetadataValue,
    GroupKey,
    GroupMember,
    GroupMetadataValue,
    MemberKey,
    OfferedProtocol,
    RecordType,
    RegularExpressionKey,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.support.codecs import octets, sample

EVERY_TYPE = pytest.mark.parametrize("record_type", RecordType, ids=lambda each: each.name)

OFFERS_TWICE = GroupMember(
    member_id="m",
    group_instance_id=None,
    client_id="",
    client_host="/",
    rebalance_timeout=2,
    session_timeout=1,
    subscription=b"s",
    assignment=b"",
    protocols=(
        OfferedProtocol(name="r", metadata=None),
        OfferedProtocol(name="c", metadata=b"t"),
    ),
)


@pytest.mark.parametrize(
    ("record_type", "key", "wire"),
    [
        (RecordType.GROUP_METADATA, GroupKey(group_id="g"), "0002 0001 'g'"),
        (RecordType.CONSUMER_GROUP_METADATA, GroupKey(group_id="g"), "0003 0001 'g'"),
        (
            RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            MemberKey(group_id="g", member_id="me"),
            "0008 0001 'g' 0002 'me'",
        ),
        (
            RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
            RegularExpressionKey(group_id="g", regular_expression=".*"),
            "0010 0001 'g' 0002 '.*'",
        ),
        (RecordType.GROUP_CONFIGS, GroupKey(group_id="g"), "4e20 0001 'g'"),
    ],
    ids=lambda value: value.name if isinstance(value, RecordType) else "",
)
def test_a_key_has_its_type_and_fields(
    record_type: RecordType, key: GroupKey | MemberKey | RegularExpressionKey, wire: str
) -> None:
    """Keys are never flexible, because Kafka's keys must not have two forms."""
    assert encode_key(record_type, key) == octets(wire)
    assert decode_key(octets(wire)) == (record_type, key)


@pytest.mark.parametrize(
    ("record_type", "value", "wire"),
    [
        (
            RecordType.CONSUMER_GROUP_METADATA,
            ConsumerGroupMetadataValue(epoch=5, metadata_hash=6, cause="why"),
            """
            0000                         # version
            00000005                     # epoch
            02                           # two tagged fields
            00 08 0000000000000006       # metadata hash
            904e 04 04 'why'             # tag 10000, groupferry's
            """,
        ),
        (
            RecordType.GROUP_METADATA,
            GroupMetadataValue(
                protocol_type="consumer",
                generation=3,
                protocol="r",
                leader=None,
                members=(OFFERS_TWICE,),
            ),
            """
            0004                         # version
            09 'consumer' 00000003 02 'r' 00
            ffffffffffffffff             # no timestamp
            02                           # one member
              02 'm' 00 01 02 '/'
              00000002 00000001          # rebalance timeout, session timeout
              02 's' 01                  # subscription, assignment
              01 904e 0a                 # tag 10000, groupferry's: all protocols
                03                       # two protocols
                02 'r' 00 00             # the subscription above
                02 'c' 02 't' 00
            00
            """,
        ),
    ],
    ids=["flexible", "classic group"],
)
def test_a_value_has_its_version_and_fields(
    record_type: RecordType, value: Value, wire: str
) -> None:
    """Values are flexible, so that this version can skip the fields of later ones."""
    assert encode_value(value) == octets(wire)
    assert decode_value(record_type, octets(wire)) == value


@EVERY_TYPE
def test_every_type_has_a_key_and_a_value(record_type: RecordType) -> None:
    """All fields are set, and there are unknown tagged fields."""
    key_type, value_type = LAYOUTS[record_type]
    key = sample(key_type, 0)
    value = sample(value_type, value_type.SCHEMA.versions[-1])
    assert decode_key(encode_key(record_type, key)) == (record_type, key)
    assert decode_value(record_type, encode_value(value)) == value
    assert value.unknown_tags


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_truncated_records_are_refused(data: bytes) -> None:
    """Even the type or version is incomplete."""
    with pytest.raises(WireError, match="no record key in"):
        decode_key(data)
    with pytest.raises(WireError, match="no record value in"):
        decode_value(RecordType.GROUP_CONFIGS, data)


@pytest.mark.parametrize("number", ["0000", "0001", "0004", "0009", "7fff", "ffff"])
def test_a_foreign_record_type_is_refused(number: str) -> None:
    """Kafka uses these types for offsets, share groups and streams groups, or a later version
    may."""
    with pytest.raises(WireError, match="is not known"):
        decode_key(octets(f"{number} 0001 'g'"))


def test_an_unknown_version_is_refused() -> None:
    """A change that could be skipped would be a tagged field instead."""
    with pytest.raises(WireError, match="GroupConfigsValue has no version 1"):
        decode_value(RecordType.GROUP_CONFIGS, octets("0001 01 00"))
    with pytest.raises(WireError, match="GroupMetadataValue has no version 3"):
        decode_value(RecordType.GROUP_METADATA, octets("0003"))
