"""OffsetCommit and OffsetFetch v0, whose offsets live in ZooKeeper."""

from gateway.requests.zookeeper_offsets import FIRST_VERSION_IN_KAFKA
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import OffsetCommitResponse
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.commits import commit_of
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage, offset_stage

PARTITIONS = (0, 1)
LAST_VERSION_IN_ZOOKEEPER = FIRST_VERSION_IN_KAFKA - 1


async def commit_codes(stage: OffsetStage, group: str) -> set[int]:
    """The codes of a commit of v0."""
    request = commit_of({"numbers": dict.fromkeys(PARTITIONS, 5)}, group_id=group)
    answer: OffsetCommitResponse = await stage.client.connection.ask(
        request, LAST_VERSION_IN_ZOOKEEPER
    )
    (topic,) = answer.topics
    assert tuple(partition.partition_index for partition in topic.partitions) == PARTITIONS
    return {partition.error_code for partition in topic.partitions}


async def fetch_offsets(stage: OffsetStage, group: str) -> set[tuple[int, int]]:
    """The codes and offsets of a fetch of v0."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=PARTITIONS)
    answer: OffsetFetchResponse = await stage.client.connection.ask(
        OffsetFetchRequest(group_id=group, topics=(topic,)), LAST_VERSION_IN_ZOOKEEPER
    )
    return {
        (partition.error_code, partition.committed_offset)
        for partition in answer.topics[0].partitions
    }


def sent_to(broker: OffsetBroker) -> list[tuple[int, int]]:
    """The commits and fetches that reached the broker, with their versions."""
    keys = (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
    return [
        (request.api_key, request.api_version) for request in broker.seen if request.api_key in keys
    ]


async def test_a_hosted_group_has_no_offsets_in_zookeeper() -> None:
    """Nothing is stored where its members do not look."""
    async with offset_stage() as stage:
        await stage.client.enter()
        assert await commit_codes(stage, "g") == {ErrorCode.UNSUPPORTED_VERSION}
        assert await fetch_offsets(stage, "g") == {(ErrorCode.UNSUPPORTED_VERSION, -1)}
        assert sent_to(stage.broker) == []


async def test_other_groups_keep_theirs() -> None:
    """The cluster answers as it can, in the client's version."""
    async with offset_stage() as stage:
        assert await commit_codes(stage, "other") == {0}
        assert await fetch_offsets(stage, "other") == {(0, 5)}
        assert sent_to(stage.broker) == [(ApiKey.OFFSET_COMMIT, 0), (ApiKey.OFFSET_FETCH, 0)]


async def test_a_group_that_the_cluster_serves_keeps_theirs() -> None:
    """The gateway forwards it."""
    async with offset_stage(forward_patterns=("g",)) as stage:
        assert await commit_codes(stage, "g") == {0}
        assert await fetch_offsets(stage, "g") == {(0, 5)}
