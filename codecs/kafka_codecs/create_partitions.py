"""CreatePartitions (key 37), the response only, versions 0 to 3: requests are relayed, not read.

v1 lets a broker answer before it throttles; v2 is flexible; v3 may exceed a quota (KIP-599).

Errors, per topic: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION, REASSIGNMENT_IN_PROGRESS, NOT_CONTROLLER, TOPIC_AUTHORIZATION_FAILED,
REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED (v3+).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32


@structure
class CreatePartitionsTopicResult(Struct):
    """The answer for a topic."""

    name: str
    error_code: Int16 = 0
    error_message: str | None = None


@message(ApiKey.CREATE_PARTITIONS, versions=range(4))
class CreatePartitionsResponse(Struct):
    """The answer for each topic."""

    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()
