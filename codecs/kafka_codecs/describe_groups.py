"""DescribeGroups (key 15), versions 0 to 6.

- v1 adds the throttle time; v2 lets a broker answer before it throttles.
- v3 adds the authorized operations, v4 the group instance id; v5 is flexible.
- v6 adds the error message, and answers GROUP_ID_NOT_FOUND for a group that does not exist
  (KIP-1043); earlier versions report such a group as Dead, without an error.

Errors, per group: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (v6+).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.DESCRIBE_GROUPS, versions=range(7))
class DescribeGroupsRequest(Struct):
    """Describe groups in the terms of the classic protocol."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = wire(since=3, default=False)


@structure
class DescribedGroupMember(Struct):
    """A member; metadata and assignment are empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None = wire(since=4, default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@structure
class DescribedGroup(Struct):
    """A group; after an error only its id is filled in."""

    error_code: Int16 = 0
    error_message: str | None = wire(since=6, default=None)
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Int32 = wire(since=3, default=AUTHORIZED_OPERATIONS_OMITTED)


@message(ApiKey.DESCRIBE_GROUPS, versions=range(7))
class DescribeGroupsResponse(Struct):
    """One entry per requested group."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...] = ()
