"""Special treatment of librdkafka's mock cluster, which the demo embeds as its upstream.

Every broker of the mock cluster accepts every group, and it stores no transactional offsets.
"""

from gateway.cluster.broker_connection import Versions
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from kafka_codecs.offset_fetch import OffsetFetchRequestTopic

METADATA_VERSION = 1


def is_embedded(versions: Versions) -> bool:
    """Whether the broker belongs to the mock cluster: every Kafka since 0.9 has DescribeGroups."""
    return ApiKey.DESCRIBE_GROUPS not in versions


async def every_partition(upstream: Upstream) -> tuple[OffsetFetchRequestTopic, ...]:
    """All partitions of the cluster. The mock cluster cannot answer for "all topics" (null).

    Raises UpstreamLost.
    """
    answer: MetadataResponse = await upstream.ask(MetadataRequest(topics=None), METADATA_VERSION)
    return tuple(
        OffsetFetchRequestTopic(
            name=topic.name or "",
            partition_indexes=tuple(partition.partition_index for partition in topic.partitions),
        )
        for topic in answer.topics
    )
