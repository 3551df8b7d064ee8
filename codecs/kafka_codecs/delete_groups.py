"""DeleteGroups (key 42), versions 0 to 3.

- v1 lets a broker answer before it throttles; v2 is flexible.
- v3 adds an error message per group (KIP-1331, Kafka 4.4).

Errors, per group: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.DELETE_GROUPS, versions=range(4))
class DeleteGroupsRequest(Struct):
    """Delete empty groups with their offsets. (The field name is Kafka's.)"""

    groups_names: tuple[str, ...]


@structure
class DeletableGroupResult(Struct):
    """The answer for a group."""

    group_id: str
    error_code: Int16 = 0
    error_message: str | None = wire(since=3, default=None, ignorable=True)


@message(ApiKey.DELETE_GROUPS, versions=range(4))
class DeleteGroupsResponse(Struct):
    """The answer for each group."""

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()
