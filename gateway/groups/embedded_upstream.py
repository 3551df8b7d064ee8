"""What groups on librdkafka's mock cluster need of us; the demo's upstream is one.

There every broker accepts every group, and no offset is ever part of a transaction.
"""

from gateway.cluster.broker_connection import Versions
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from kafka_codecs.offset_fetch import OffsetFetchRequestTopic

METADATA_VERSION = 1


def is_embedded(versions: Versions) -> bool:
    """Whether a broker of the mock cluster speaks so: every Kafka since 0.9 can describe groups."""
    return ApiKey.DESCRIBE_GROUPS not in versions


async def every_partition(upstream: Upstream) -> tuple[OffsetFetchRequestTopic, ...]:
    """All there are: asked for the offsets of all topics, the mock cluster answers null.

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
