"""FindCoordinator (key 10), versions 0 to 6.

- v1 adds the key type to the request, throttle time and error message to the response.
- v2 lets a broker answer before it throttles; v3 is flexible.
- v4 requests many keys at once: coordinator_keys and coordinators replace the single fields
  (KIP-699).
- v5 may answer TRANSACTION_ABORTABLE (KIP-890); v6 knows share groups (KIP-932), whose key is
  "groupId:topicId:partition".

Errors: COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST, TRANSACTION_ABORTABLE (v5+).
"""

from enum import IntEnum

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16, Int32


class CoordinatorType(IntEnum):
    """The kind of key that a coordinator is responsible for (`key_type`)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@message(ApiKey.FIND_COORDINATOR, versions=range(7))
class FindCoordinatorRequest(Struct):
    """Find the coordinator of `key` (up to v3) or of each of `coordinator_keys` (v4+)."""

    key: str = wire(until=3, default="")
    key_type: Int8 = wire(since=1, default=0)
    coordinator_keys: tuple[str, ...] = wire(since=4, default=())


@structure
class Coordinator(Struct):
    """The coordinator of one key; an error comes with node id -1 and an empty host."""

    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16 = 0
    error_message: str | None = ""


@message(ApiKey.FIND_COORDINATOR, versions=range(7))
class FindCoordinatorResponse(Struct):
    """One coordinator in the top-level fields (up to v3), many in `coordinators` (v4+)."""

    throttle_time_ms: Int32 = wire(since=1, default=0, ignorable=True)
    error_code: Int16 = wire(until=3, default=0)
    error_message: str | None = wire(since=1, until=3, default="", ignorable=True)
    node_id: Int32 = wire(until=3, default=0)
    host: str = wire(until=3, default="")
    port: Int32 = wire(until=3, default=0)
    coordinators: tuple[Coordinator, ...] = wire(since=4, default=())
