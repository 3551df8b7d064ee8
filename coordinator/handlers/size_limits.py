"""Limits on what a group stores about one member.

The group keeps and logs the description of each member, and reads it whenever another member joins.
In Kafka the limits are the largest record of the log (rule 1.6) and the longest string of a
response.
"""

from itertools import chain

from coordinator.group.topic_names import topics_of_request
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    InstallAssignmentReceived,
    JoinGroupReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.topics import Topics
from kafka_codecs.error_codes import ErrorCode

MEMBER_BYTES_MAX = 1024 * 1024
"""The default size limit of a record (Kafka's message.max.bytes)."""

NAME_BYTES_MAX = 0x7FFF - len("-00000000-0000-0000-0000-000000000000")
"""The limit for a classic client id or instance id. A member id appends a UUID to one of them and
must fit into a string."""

UNKNOWN_TOPICS_MAX = 1_000
"""How many nonexistent topics a member may name. DEV D57: Kafka has no limit; the gateway polls
each of them in case it appears."""


def check_size(event: Event, topics: Topics) -> None:
    """Raises GroupError UNKNOWN_SERVER_ERROR for a protocol list, a subscription or an assignment
    of more than MEMBER_BYTES_MAX bytes, as Kafka's log does, a name of more than NAME_BYTES_MAX,
    or more than UNKNOWN_TOPICS_MAX topics that do not exist."""
    match event:
        case JoinGroupReceived(protocols=protocols):
            _check_name(event.client_id)
            _check_name(event.instance_id or "")
            _check(event, topics, sum(map(len, chain.from_iterable(protocols))))
        case SyncGroupReceived(assignments=assignments):
            for _member_id, assignment in assignments:
                _check_bytes(len(assignment))
            _check_topics(event, topics, sum(len(assignment) for _, assignment in assignments))
        case ConsumerHeartbeatReceived(topic_names=names, client_assignors=assignors):
            _check_name(event.client_id)
            _check_bytes(
                sum(len(assignor.name) + len(assignor.metadata) for assignor in assignors or ())
            )
            if names:
                _check(event, topics, sum(map(len, names)))
        case InstallAssignmentReceived(metadata=metadata):
            for assigned in metadata.values():
                _check_bytes(len(assigned.metadata))
        case _:
            pass


def _check(event: Request, topics: Topics, size: int) -> None:
    _check_bytes(size)
    _check_topics(event, topics, size)


def _check_bytes(size: int) -> None:
    if size > MEMBER_BYTES_MAX:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the description of one member exceeds {MEMBER_BYTES_MAX} bytes",
        )


def _check_topics(event: Request, topics: Topics, size: int) -> None:
    if size <= UNKNOWN_TOPICS_MAX:  # each name takes at least one byte
        return
    names = topics_of_request(event)
    if len(names) > UNKNOWN_TOPICS_MAX < sum(name not in topics.by_name for name in names):
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"more than {UNKNOWN_TOPICS_MAX} of the topics do not exist",
        )


def _check_name(name: str) -> None:
    if len(name.encode()) > NAME_BYTES_MAX:
        raise GroupError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the client id or instance id exceeds {NAME_BYTES_MAX} bytes",
        )
