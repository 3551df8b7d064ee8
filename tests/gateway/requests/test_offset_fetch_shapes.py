"""OffsetFetch for one group and for many, with the same content."""

import pytest

from gateway.requests.offset_fetch_shapes import (
    answer_about,
    fail_group,
    groups_of,
    request_about,
    response_of,
)
from kafka_codecs import decode, encode
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

TOPIC = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0, 2))
PARTITION = OffsetFetchResponsePartition(
    partition_index=2,
    committed_offset=9,
    committed_leader_epoch=4,
    metadata="m",
    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
ANSWER = OffsetFetchResponseGroup(
    group_id="g",
    topics=(OffsetFetchResponseTopic(name="numbers", partitions=(PARTITION,)),),
    error_code=ErrorCode.NOT_COORDINATOR,
)


@pytest.mark.parametrize("topics", [None, (), (TOPIC,)])
def test_a_request_for_one_group_converts_to_one_for_many(
    topics: tuple[OffsetFetchRequestTopic, ...] | None,
) -> None:
    """Null topics request all offsets in both shapes."""
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)

    sent = decode(OffsetFetchRequest, encode(request_about(group, require_stable=False), 5), 5)

    assert groups_of(sent, 5) == (group,)
    assert groups_of(OffsetFetchRequest(groups=(group,)), 8) == (group,)


def test_the_flag_for_stable_offsets_is_kept() -> None:
    """The flag is a field of the request, not of the group."""
    group = OffsetFetchRequestGroup(group_id="g", topics=())

    assert request_about(group, require_stable=True).require_stable


@pytest.mark.parametrize("version", [5, 7, 8, 9])
def test_an_answer_keeps_all_fields_of_the_clients_shape(version: int) -> None:
    """Offsets, leader epochs (v5), metadata and errors of partition and group."""
    sent = decode(OffsetFetchResponse, encode(response_of((ANSWER,), version), version), version)

    read = sent.groups[0] if version >= 8 else answer_about("g", sent)
    assert read == ANSWER


@pytest.mark.parametrize("version", [1, 2, 8])
def test_a_groups_error_is_in_the_field_of_its_version(version: int) -> None:
    """v1 has no group error, so each partition has it, without an offset."""
    group = OffsetFetchRequestGroup(group_id="g", topics=(TOPIC,))

    answer = fail_group(group, 25, version)

    if version == 1:
        codes = [
            (p.partition_index, p.committed_offset, p.error_code)
            for p in answer.topics[0].partitions
        ]
        assert codes == [(0, -1, 25), (2, -1, 25)]
        assert answer.error_code == 0
    else:
        assert (answer.error_code, answer.topics) == (25, ())
