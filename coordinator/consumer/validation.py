"""Validates a ConsumerGroupHeartbeat independently of its group (rule 3.2)."""

from coordinator.group.client_assignors import CLASSIC_VERSION
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
)
from coordinator.interface.records import ClientAssignor
from kafka_codecs.error_codes import ErrorCode

CLIENT_ASSIGNORS_MAX = 16
"""How many client-side assignors a member may list."""

# From ConsumerGroupHeartbeat v1 on, clients generate their member id (KIP-1082).
FIRST_VERSION_WITH_CLIENT_MADE_ID = 1


def check_heartbeat(event: ConsumerHeartbeatReceived, config: GroupConfig) -> None:
    """Raises GroupError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    for name, value in (("instance id", event.instance_id), ("rack id", event.rack_id)):
        _require(value is None or bool(value.strip()), f"the {name} is blank")
    needs_id = (
        event.version >= FIRST_VERSION_WITH_CLIENT_MADE_ID
        or event.member_epoch > JOIN_EPOCH
        or event.member_epoch == LEAVE_EPOCH
    )
    _require(not needs_id or bool(event.member_id.strip()), "the member id is blank")
    _require(event.member_epoch >= STATIC_LEAVE_EPOCH, "the member epoch is below -2")
    if event.member_epoch == STATIC_LEAVE_EPOCH:
        _require(event.instance_id is not None, "epoch -2 is for static members only")
    if event.member_epoch == JOIN_EPOCH:
        _require(event.rebalance_timeout_ms != -1, "joining needs a rebalance timeout")
        states_to_own_nothing = event.owned == frozenset() and not event.lists_owned_topics
        _require(states_to_own_nothing, "joining needs an empty list of owned partitions")
        _require(
            event.topic_names is not None or event.topic_regex is not None,
            "joining needs a subscription",
        )
    if config.client_side_assignors and event.client_assignors:
        _check_client_assignors(event, event.client_assignors)
    if event.server_assignor is not None and event.server_assignor not in config.consumer_assignors:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"the assignor {event.server_assignor!r} is not one of "
            + ", ".join(config.consumer_assignors),
        )


def _check_client_assignors(
    event: ConsumerHeartbeatReceived, assignors: tuple[ClientAssignor, ...]
) -> None:
    """The rules of KIP-848, "Request Validation"."""
    _require(event.server_assignor is None, "a server-side assignor excludes client-side ones")
    _require(
        len(assignors) <= CLIENT_ASSIGNORS_MAX,
        f"a member has at most {CLIENT_ASSIGNORS_MAX} client-side assignors",
    )
    names = {assignor.name for assignor in assignors}
    _require(len(names) == len(assignors), "an assignor is listed twice")
    for assignor in assignors:
        _require(bool(assignor.name.strip()), "the name of an assignor is blank")
        _require(
            assignor.minimum_version >= CLASSIC_VERSION
            and assignor.maximum_version >= max(0, assignor.minimum_version)
            and assignor.minimum_version <= assignor.version <= assignor.maximum_version,
            f"the versions of the assignor {assignor.name!r} contradict each other",
        )


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise GroupError(ErrorCode.INVALID_REQUEST, reason)
