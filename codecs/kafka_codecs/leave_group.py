"""LeaveGroup (key 13), versions 0 to 5.

- v1 adds the throttle time; v2 lets a broker answer before it throttles.
- v3 accepts many members, by member id and group instance id, and answers for each; up to v2 the
  top-level error is that of the single member.
- v4 is flexible; v5 adds the reason (KIP-800).

Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID,
UNKNOWN_MEMBER_ID, GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID (v3+).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, PassedOn

FIRST_LEAVE_VERSION_WITH_MEMBERS = 3
"""Earlier versions name one member, and its error is the top-level one."""


@structure
class MemberIdentity(Struct):
    """A member to remove; the member id is empty if an admin removes a static member."""

    member_id: str
    group_instance_id: str | None = None
    reason: PassedOn | None = wire(since=5, default=None, ignorable=True)


@message(ApiKey.LEAVE_GROUP, versions=range(6))
class LeaveGroupRequest(Struct):
    """Leave: `member_id` up to v2, `members` from v3 on."""

    group_id: str
    member_id: str = wire(until=2, default="")
    members: tuple[MemberIdentity, ...] = wire(since=FIRST_LEAVE_VERSION_WITH_MEMBERS, default=())


@structure
class MemberResponse(Struct):
    """The answer for one member."""

    member_id: str
    group_instance_id: str | None
    error_code: Int16 = 0


@message(ApiKey.LEAVE_GROUP, versions=range(6))
class LeaveGroupResponse(Struct):
    """The answer; from v3 on, the errors of members are in `members`."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: tuple[MemberResponse, ...] = wire(since=FIRST_LEAVE_VERSION_WITH_MEMBERS, default=())
