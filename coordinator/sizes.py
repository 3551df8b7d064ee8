"""How much a client may make a group remember of one member.

A request is read whole, but what it says of a member stays, is logged, and is looked at whenever
another member joins. In Kafka a record that is too large for the log sets the limit (rule 1.6), or
a string that is too long for an answer.
"""

from collections.abc import Iterable

from coordinator.errors import ErrorCode, GroupError
from coordinator.events import (
    ConsumerHeartbeatReceived,
    Event,
    JoinGroupReceived,
    SyncGroupReceived,
)

MEMBER_BYTES_MAX = 1024 * 1024
"""As large as a record may be by default (Kafka's message.max.bytes)."""

NAME_BYTES_MAX = 0x7FFF - len("-00000000-0000-0000-0000-000000000000")
"""Of a classic client's id or instance id: a member id is one of them and a UUID, and a string."""


def check_size(event: Event) -> None:
    """Raises GroupError UNKNOWN_SERVER_ERROR for a protocol list, a subscription or an assignment
    of more than MEMBER_BYTES_MAX bytes, as Kafka's log does, or a name of more than
    NAME_BYTES_MAX."""
    match event:
        case JoinGroupReceived(protocols=protocols):
            _check_name(event.client_id)
            _check_name(event.instance_id or "")
            _check(part for protocol in protocols for part in protocol)
        case SyncGroupReceived(assignments=assignments):
            for _member_id, assignment in assignments:
                _check([assignment])
        case ConsumerHeartbeatReceived(topic_names=names) if names:
            _check(names)
        case _:
            pass


def _check(parts: Iterable[bytes | str]) -> None:
    if sum(map(len, parts)) > MEMBER_BYTES_MAX:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"more than {MEMBER_BYTES_MAX} bytes are no description of one member",
        )


def _check_name(name: str) -> None:
    if len(name.encode()) > NAME_BYTES_MAX:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"no member id can be made of a name of more than {NAME_BYTES_MAX} bytes",
        )
