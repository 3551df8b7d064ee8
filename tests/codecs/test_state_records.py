"""Keys and values of the state log's records.

`test_record_format.py` compares their bytes with `tests/golden/state_records_v1`, and
`test_state_records_with_kafka.py` with Kafka's.
"""

import pytest

from kafka_codecs import WireError
from kafka_codecs.state_records import (
    LAYOUTS,
    RecordType,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.support.codecs import octets, sample

EVERY_TYPE = pytest.mark.parametrize(
    "record_type", RecordType, ids=lambda record_type: record_type.name
)


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
