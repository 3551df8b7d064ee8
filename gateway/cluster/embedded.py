"""Special treatment of librdkafka's mock cluster, which the demo embeds as its upstream.

Every broker of the mock cluster accepts every group, and it stores no transactional offsets.
"""

from gateway.cluster.broker_connection import Versions
from kafka_codecs.apis import ApiKey


def is_embedded(versions: Versions) -> bool:
    """Whether the broker belongs to the mock cluster: every Kafka since 0.9 has DescribeGroups."""
    return ApiKey.DESCRIBE_GROUPS not in versions
