"""DeleteGroups (key 42), versions 0 to 2.

- v1 lets a broker answer before it throttles; v2 is flexible.

Errors, per group: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure
from kafka_codecs.primitives import Int16, Int32


@message(ApiKey.DELETE_GROUPS, versions=range(3))
class DeleteGroupsRequest(Struct):
    """Delete empty groups with their offsets. (The plural of the plural is Kafka's.)"""

    groups_names: tuple[str, ...]


@structure
class DeletableGroupResult(Struct):
    """The answer for a group."""

    group_id: str
    error_code: Int16 = 0


@message(ApiKey.DELETE_GROUPS, versions=range(3))
class DeleteGroupsResponse(Struct):
    """The answer for each group."""

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()
