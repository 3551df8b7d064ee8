"""SyncGroup (key 14), versions 0 to 5.

- v1 adds the throttle time; v2 lets a broker answer before it throttles.
- v3 adds the group instance id; v4 is flexible.
- v5 adds protocol type and name to both messages (KIP-559). The wire format allows null, but a
  broker answers such a request with INCONSISTENT_GROUP_PROTOCOL.

Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (v5+), INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID (v3+), UNSUPPORTED_VERSION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@structure
class SyncGroupAssignment(Struct):
    """The assignment that the leader gives to a member (see `consumer_protocol`)."""

    member_id: str
    assignment: bytes


@message(ApiKey.SYNC_GROUP, versions=range(6))
class SyncGroupRequest(Struct):
    """Request the member's assignment; the leader sends the assignments of all members."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = wire(since=3, default=None)
    protocol_type: str | None = wire(since=5, default=None, ignorable=True)
    protocol_name: str | None = wire(since=5, default=None, ignorable=True)
    assignments: tuple[SyncGroupAssignment, ...]


@message(ApiKey.SYNC_GROUP, versions=range(6))
class SyncGroupResponse(Struct):
    """The member's assignment."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: str | None = wire(since=5, default=None, ignorable=True)
    protocol_name: str | None = wire(since=5, default=None, ignorable=True)
    assignment: bytes = b""
