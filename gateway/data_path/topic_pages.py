"""Pages of topics (DescribeTopicPartitions) without private ones: no cursor names one, and no page
is empty because its topics are private."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from kafka_codecs.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

_BEHIND = "!"
"""Sorts before every character of a topic's name: no other topic lies before a name with it."""


async def ask_for_page(
    request: DescribeTopicPartitionsRequest,
    ask: Callable[[DescribeTopicPartitionsRequest], Awaitable[DescribeTopicPartitionsResponse]],
    is_private: Callable[[str], bool],
) -> DescribeTopicPartitionsResponse:
    """The page that a client gets who may not describe the private topics. `ask` returns a broker's
    page without them."""
    page = await ask(request)
    while cursor := page.next_cursor:
        if is_private(cursor.topic_name):
            cursor = Cursor(topic_name=cursor.topic_name + _BEHIND, partition_index=0)
        elif page.topics:
            break
        partitions = sum(len(topic.partitions) for topic in page.topics)
        left = request.response_partition_limit - partitions
        rest = replace(request, cursor=cursor, response_partition_limit=max(left, 1))
        more = await ask(rest)
        if left > 0 or not more.topics:
            page = replace(more, topics=page.topics + more.topics)
        else:
            name = more.topics[0].name or ""
            page = replace(page, next_cursor=Cursor(topic_name=name, partition_index=0))
    return page
