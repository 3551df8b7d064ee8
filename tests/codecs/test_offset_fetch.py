"""OffsetFetch from a table, in both directions."""

from uuid import UUID

import pytest

from kafka_codecs import WireError, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.support.codecs import check_both_ways

TOPIC = OffsetFetchRequestTopic(name="t", partition_indexes=(3,))


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (
            OffsetFetchRequest(group_id="g", topics=(TOPIC,)),
            1,
            "0001 'g' 00000001 0001 't' 00000001 00000003",
        ),
        (OffsetFetchRequest(group_id="g", topics=None), 2, "0001 'g' ffffffff"),
        (
            OffsetFetchRequest(group_id="g", topics=(TOPIC,), require_stable=True),
            7,
            "02 'g' 02 02 't' 02 00000003 00 01 00",
        ),
        (
            OffsetFetchRequest(
                groups=(
                    OffsetFetchRequestGroup(
                        group_id="g",
                        topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(3,)),),
                    ),
                    OffsetFetchRequestGroup(group_id="h", topics=None),
                ),
            ),
            8,
            "03 02 'g' 02 02 't' 02 00000003 00 00 02 'h' 00 00 00 00",
        ),
        (
            OffsetFetchRequest(
                groups=(
                    OffsetFetchRequestGroup(
                        group_id="g",
                        member_id="m",
                        member_epoch=4,
                        topics=(
                            OffsetFetchRequestTopic(topic_id=UUID(int=1), partition_indexes=()),
                        ),
                    ),
                ),
                require_stable=True,
            ),
            10,
            """
            02 02 'g' 02 'm' 00000004
            02 00000000000000000000000000000001 01 00
            00
            01 00
            """,
        ),
        (
            OffsetFetchResponse(
                topics=(
                    OffsetFetchResponseTopic(
                        name="t",
                        partitions=(
                            OffsetFetchResponsePartition(
                                partition_index=3, committed_offset=9, metadata=""
                            ),
                        ),
                    ),
                )
            ),
            1,
            "00000001 0001 't' 00000001 00000003 0000000000000009 0000 0000",
        ),
        (
            OffsetFetchResponse(
                throttle_time_ms=1,
                topics=(
                    OffsetFetchResponseTopic(
                        name="t",
                        partitions=(
                            OffsetFetchResponsePartition(
                                partition_index=3,
                                committed_offset=-1,
                                metadata=None,
                                error_code=88,
                            ),
                        ),
                    ),
                ),
                error_code=15,
            ),
            5,
            """
            00000001
            00000001 0001 't' 00000001 00000003 ffffffffffffffff ffffffff ffff 0058
            000f
            """,
        ),
        (
            OffsetFetchResponse(
                groups=(
                    OffsetFetchResponseGroup(
                        group_id="g",
                        topics=(
                            OffsetFetchResponseTopic(
                                topic_id=UUID(int=1),
                                partitions=(
                                    OffsetFetchResponsePartition(
                                        partition_index=3,
                                        committed_offset=9,
                                        committed_leader_epoch=2,
                                        metadata="x",
                                    ),
                                ),
                            ),
                        ),
                    ),
                    OffsetFetchResponseGroup(group_id="h", error_code=113),
                )
            ),
            10,
            """
            00000000
            03
            02 'g' 02 00000000000000000000000000000001
            02 00000003 0000000000000009 00000002 02 'x' 0000 00
            00 0000 00
            02 'h' 01 0071 00
            00
            """,
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Up to v7 there is one group, from v8 on many. Topics have ids in v10."""
    check_both_ways(message, version, wire)


def test_v1_cannot_request_all_topics() -> None:
    """v2 adds null topics."""
    with pytest.raises(WireError, match="topics: null where a value is required"):
        encode(OffsetFetchRequest(group_id="g", topics=None), 1)


def test_require_stable_is_never_dropped() -> None:
    """The caller must refuse a request that the broker's version cannot carry."""
    with pytest.raises(WireError, match="require_stable: this version has no such field"):
        encode(OffsetFetchRequest(group_id="g", require_stable=True), 6)
