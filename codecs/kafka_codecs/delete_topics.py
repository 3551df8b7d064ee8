"""DeleteTopics (key 20), versions 0 to 6; Kafka 4 has dropped version 0.

- v1 adds the throttle time.
- v2 lets a broker answer before it throttles; v3 may answer TOPIC_DELETION_DISABLED.
- v4 is flexible; v5 adds the error message, and may exceed a quota (KIP-599).
- v6 takes topics by name or by id (KIP-516).

Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (v6), TOPIC_AUTHORIZATION_FAILED,
TOPIC_DELETION_DISABLED (v3+), NOT_CONTROLLER, REQUEST_TIMED_OUT, INVALID_REQUEST,
THROTTLING_QUOTA_EXCEEDED (v5+).
"""

from uuid import UUID

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.primitives import Int16, Int32


@structure
class DeleteTopicState(Struct):
    """A topic by its name or by its id. (The class name is Kafka's.)"""

    name: str | None = wire(default=None, entity=Entity.TOPIC)
    topic_id: UUID = wire(default=NO_TOPIC_ID, entity=Entity.TOPIC_ID)


@message(ApiKey.DELETE_TOPICS, versions=range(7))
class DeleteTopicsRequest(Struct):
    """Delete topics: `topic_names` up to v5, `topics` from v6 on."""

    topics: tuple[DeleteTopicState, ...] = wire(since=6, default=())
    topic_names: tuple[str, ...] = wire(until=5, default=(), entity=Entity.TOPIC)
    timeout_ms: Int32


@structure
class DeletableTopicResult(Struct):
    """The answer for one topic; its name is null if the request had an unknown id."""

    name: str | None = wire(nullable_since=6, entity=Entity.TOPIC)
    topic_id: UUID = wire(since=6, default=NO_TOPIC_ID, ignorable=True, entity=Entity.TOPIC_ID)
    error_code: Int16 = 0
    error_message: str | None = wire(since=5, default=None, ignorable=True)


@message(ApiKey.DELETE_TOPICS, versions=range(7))
class DeleteTopicsResponse(Struct):
    """The answer for each topic."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    responses: tuple[DeletableTopicResult, ...] = ()
