"""JoinGroup (key 11), versions 0 to 9.

- v1 adds the rebalance timeout (a v0 request uses its session timeout instead).
- v2 adds the throttle time; v3 lets a broker answer before it throttles.
- v4: a member without an id receives one with MEMBER_ID_REQUIRED and joins again.
- v5 adds the group instance id; v6 is flexible.
- v7 adds the protocol type to the response, whose protocol name may be null from here on
  (KIP-559): brokers send an empty name as null, and a null one as empty up to v6.
- v8 adds the reason (KIP-800); v9 adds skip_assignment to the response.

Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT,
REBALANCE_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED, MEMBER_ID_REQUIRED (v4+),
GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID (v5+), UNSUPPORTED_VERSION.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, PassedOn


@structure
class JoinGroupProtocol(Struct):
    """An assignor the member can use, with its subscription (see `consumer_protocol`)."""

    name: str
    metadata: bytes


@message(ApiKey.JOIN_GROUP, versions=range(10))
class JoinGroupRequest(Struct):
    """Join a group, or join it again."""

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = wire(since=1, default=-1, ignorable=True)
    member_id: str
    group_instance_id: str | None = wire(since=5, default=None)
    protocol_type: str
    protocols: tuple[JoinGroupProtocol, ...]
    reason: PassedOn | None = wire(since=8, default=None, ignorable=True)


@structure
class JoinGroupMember(Struct):
    """A member's subscription, as sent to the leader."""

    member_id: str
    group_instance_id: str | None = wire(since=5, default=None, ignorable=True)
    metadata: bytes


@message(ApiKey.JOIN_GROUP, versions=range(10))
class JoinGroupResponse(Struct):
    """The new generation; only the leader receives `members`."""

    throttle_time_ms: Int32 = wire(since=2, default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = wire(since=7, default=None, ignorable=True)
    protocol_name: str | None = wire(nullable_since=7, default="")
    leader: str = ""
    skip_assignment: bool = wire(since=9, default=False)
    member_id: str = ""
    members: tuple[JoinGroupMember, ...] = ()
