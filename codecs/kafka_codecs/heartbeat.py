"""Heartbeat (key 12), versions 0 to 4.

- v1 adds the throttle time; v2 lets a broker answer before it throttles.
- v3 adds the group instance id; v4 is flexible.

Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION, INVALID_GROUP_ID,
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID (v3+). A
coordinator that is still loading answers NONE.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, wire
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.HEARTBEAT, versions=range(5))
class HeartbeatRequest(Struct):
    """A classic member's sign of life."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = wire(since=3, default=None)


@message(ApiKey.HEARTBEAT, versions=range(5))
class HeartbeatResponse(Struct):
    """Whether the member may continue, or must rejoin."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
