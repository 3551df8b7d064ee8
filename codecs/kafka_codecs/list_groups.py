"""ListGroups (key 16), versions 0 to 5.

- v1 adds the throttle time; v2 lets a broker answer before it throttles; v3 is flexible.
- v4 adds a filter by state and the state itself (KIP-518).
- v5 adds a filter by type and the type itself (KIP-848).

Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, CLUSTER_AUTHORIZATION_FAILED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.LIST_GROUPS, versions=range(6))
class ListGroupsRequest(Struct):
    """List groups; an empty filter matches everything."""

    states_filter: tuple[str, ...] = wire(since=4, default=())
    types_filter: tuple[str, ...] = wire(since=5, default=())


@structure
class ListedGroup(Struct):
    """A group."""

    group_id: str
    protocol_type: str
    group_state: str = wire(since=4, default="", ignorable=True)
    group_type: str = wire(since=5, default="", ignorable=True)


@message(ApiKey.LIST_GROUPS, versions=range(6))
class ListGroupsResponse(Struct):
    """The groups a broker coordinates."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
