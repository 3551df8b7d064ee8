"""Metadata for a relay, which leaves the partitions encoded."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_codecs import WireError, decode, encode
from kafka_codecs.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    RelayedMetadataResponse,
)
from tests.support.codecs import sample, values
from tests.support.hypothesis_profile import examples

EVERY_VERSION = pytest.mark.parametrize("version", MetadataResponse.SCHEMA.versions)


@EVERY_VERSION
@settings(max_examples=examples(5))
@given(data=st.data())
def test_a_relay_passes_partitions_on_as_they_came(version: int, data: st.DataObject) -> None:
    """Partitions with tagged fields, which the straight reader leaves to the construct, pass as
    well."""
    wire = encode(data.draw(values(MetadataResponse, version)), version)
    relayed = decode(RelayedMetadataResponse, wire, version)
    assert encode(relayed, version) == wire
    whole = decode(MetadataResponse, wire, version)
    assert relayed.brokers == whole.brokers
    assert [topic.name for topic in relayed.topics] == [topic.name for topic in whole.topics]


@EVERY_VERSION
def test_what_a_relay_refuses_is_what_every_reader_refuses(version: int) -> None:
    """A count or a size inside a partition that is wrong, or a frame that is cut."""
    partition = MetadataResponsePartition(
        partition_index=1, leader_id=2, replica_nodes=(3, 4), isr_nodes=(3,)
    )
    topic = MetadataResponseTopic(name="t", partitions=(partition, partition))
    wire = encode(MetadataResponse(topics=(topic,)), version)
    harmful = [wire[:size] for size in range(len(wire))]
    harmful += [
        wire[:place] + bytes([byte]) + wire[place + 1 :]
        for place, byte in product(range(len(wire)), (0x00, 0x01, 0x7F, 0x80, 0xFF))
    ]
    for frame in harmful:
        assert is_readable(RelayedMetadataResponse, frame, version) == is_readable(
            MetadataResponse, frame, version
        )


def is_readable(message_type: type[MetadataResponse], frame: bytes, version: int) -> bool:
    """Whether a frame is read without an error."""
    try:
        decode(message_type, frame, version)
    except WireError:
        return False
    return True


def test_a_relay_keeps_every_field_of_a_sample() -> None:
    """The latest version has all of them."""
    version = MetadataResponse.SCHEMA.versions[-1]
    wire = encode(sample(MetadataResponse, version), version)
    assert encode(decode(RelayedMetadataResponse, wire, version), version) == wire
