"""The answer to a Fetch while its broker is down."""

from uuid import UUID

import pytest

from gateway.data_path.api_table import API_TABLE
from gateway.data_path.fetch_away import FETCH_SESSION_ID_NOT_FOUND, answer_without_records
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchTopic

OFFERED = API_TABLE[ApiKey.FETCH]
BY_ID_SINCE = 13
SESSIONS_SINCE = 7


def fetch(version: int, *, session_id: int = 0, session_epoch: int = -1) -> FetchRequest:
    """A Fetch of one partition of one topic and two of another, named as in this version."""
    wanted = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
        for number in range(2)
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=tuple(
            FetchTopic(topic_id=UUID(int=number), partitions=tuple(wanted[:number]))
            if version >= BY_ID_SINCE
            else FetchTopic(topic=f"t{number}", partitions=tuple(wanted[:number]))
            for number in (1, 2)
        ),
        session_id=session_id,
        session_epoch=session_epoch,
    )


@pytest.mark.parametrize("version", range(OFFERED.max_version + 1))
def test_every_requested_partition_has_no_leader(version: int) -> None:
    """Each partition is empty, under its topic's name or id, in every offered version."""
    request = fetch(version)
    answer = answer_without_records(request)
    assert encode(answer, version)
    assert (answer.error_code, answer.session_id) == (0, 0)
    topics = [(response.topic, response.topic_id) for response in answer.responses]
    assert topics == [(topic.topic, topic.topic_id) for topic in request.topics]
    numbers = [
        [partition.partition_index for partition in topic.partitions] for topic in answer.responses
    ]
    assert numbers == [[0], [0, 1]]
    for topic in answer.responses:
        for partition in topic.partitions:
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert not partition.records


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_session_that_begins_or_ends_lists_all_its_partitions(epoch: int) -> None:
    """These are Kafka's INITIAL_EPOCH and FINAL_EPOCH (KIP-227)."""
    answer = answer_without_records(fetch(SESSIONS_SINCE, session_id=9, session_epoch=epoch))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(answer.responses) == 2


@pytest.mark.parametrize("version", range(SESSIONS_SINCE, OFFERED.max_version + 1))
def test_a_continued_session_is_not_found(version: int) -> None:
    """Only the broker knows its partitions, so the client must list them again."""
    answer = answer_without_records(fetch(version, session_id=9, session_epoch=3))
    assert encode(answer, version)
    assert (answer.error_code, answer.session_id) == (FETCH_SESSION_ID_NOT_FOUND, 0)
    assert answer.responses == ()
