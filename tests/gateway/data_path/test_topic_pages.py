"""Pages of topics for a client that may not describe some."""

import itertools
from collections.abc import Mapping
from uuid import UUID

import pytest

from gateway.data_path.topic_pages import ask_for_page
from kafka_codecs.describe_topic_partitions import (
    Cursor,
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

PRIVATE = {"b", "c", "e"}
PARTITIONS = {"a": 2, "b": 3, "c": 1, "d": 2, "e": 1}


def page_of(
    topics: Mapping[str, int], request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """A broker's page of these topics and their numbers of partitions, without private ones."""
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    start = (cursor.topic_name, cursor.partition_index)
    every = [(name, number) for name, count in topics.items() for number in range(count)]
    due = [partition for partition in every if partition >= start]
    limit = request.response_partition_limit
    shown = [partition for partition in due[:limit] if partition[0] not in PRIVATE]
    named = tuple(
        DescribedTopic(
            name=topic,
            topic_id=UUID(int=1),
            partitions=tuple(
                DescribedPartition(
                    partition_index=number,
                    leader_id=1,
                    replica_nodes=(),
                    isr_nodes=(),
                    offline_replicas=(),
                )
                for name, number in shown
                if name == topic
            ),
        )
        for topic in dict.fromkeys(name for name, _ in shown)
    )
    following = due[limit] if len(due) > limit else None
    return DescribeTopicPartitionsResponse(
        topics=named,
        next_cursor=following and Cursor(topic_name=following[0], partition_index=following[1]),
    )


@pytest.mark.parametrize("limit", range(1, 10))
async def test_every_public_partition_is_on_one_page(limit: int) -> None:
    """No page is empty, and no cursor names a private topic."""

    async def ask(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        return page_of(PARTITIONS, request)

    pages = []
    cursor: Cursor | None = Cursor(topic_name="", partition_index=0)
    while cursor is not None:
        request = DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=limit, cursor=cursor
        )
        page = await ask_for_page(request, ask, PRIVATE.__contains__)
        pages.append(
            [
                (topic.name, part.partition_index)
                for topic in page.topics
                for part in topic.partitions
            ]
        )
        cursor = page.next_cursor
        assert cursor is None or cursor.topic_name not in PRIVATE
    assert all(0 < len(partitions) <= limit for partitions in pages)
    assert list(itertools.chain.from_iterable(pages)) == [("a", 0), ("a", 1), ("d", 0), ("d", 1)]
