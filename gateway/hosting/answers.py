"""The errors that clients get from the gateway itself: one table of situation x api.

What the engine or the cluster refuses has its own code; this table is for everything between them.
A code is retriable unless the client can no longer continue as a member.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from kafka_codecs.error_codes import ErrorCode


class GroupApi(Enum):
    """An api about groups, as far as its errors differ."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    CONSUMER_JOIN = "ConsumerGroupHeartbeat to join"
    CONSUMER_HEARTBEAT = "ConsumerGroupHeartbeat of a member"
    CONSUMER_LEAVE = "ConsumerGroupHeartbeat to leave"
    ASSIGNMENT = "ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment"
    COMMIT = "OffsetCommit"
    TXN_COMMIT = "TxnOffsetCommit"
    FETCH = "OffsetFetch"
    OFFSET_DELETE = "OffsetDelete"
    ADMIN = "admin and config requests"

    __hash__ = object.__hash__  # by identity: the hash of an enum is slow


JOINS = frozenset({GroupApi.JOIN, GroupApi.CONSUMER_JOIN})
"""Requests that may add a member."""
BY_MEMBERS = frozenset(
    {GroupApi.SYNC, GroupApi.HEARTBEAT, GroupApi.CONSUMER_HEARTBEAT, GroupApi.ASSIGNMENT}
)
"""Requests that only a client sends that considers itself a member."""
OF_MEMBERSHIP = JOINS | BY_MEMBERS | {GroupApi.LEAVE, GroupApi.CONSUMER_LEAVE}
"""Requests that the engine answers alone. The outcome of a commit or a fetch is the cluster's."""


class RefusalReason(Enum):
    """Why the gateway can neither answer a request nor pass it on."""

    EMPTY_GROUP_ID = "the group id is empty"
    UNWRITABLE_NAME = "a name is too long to be written once its malformed bytes are replaced"
    ELSEWHERE = "another gateway has the group"
    HOLDER_CHANGED = "the group was taken while a join was on its way to the cluster"
    HOLDER_UNKNOWN = "only the cluster knows who has the group, and it does not say"
    NOT_AT_COORDINATOR = "the listener stands for another broker than the group's coordinator"
    COORDINATOR_UNKNOWN = "the cluster names no coordinator"
    NOT_ANCHORED = "the anchor does not hold the group"
    COMMIT_IN_FLIGHT = "an earlier commit of the member has no answer yet"
    TOO_MANY_GROUPS = "a limit on groups is reached"
    TOPICS_UNKNOWN = "the cluster does not tell about the topics of the request"
    MOVING = "the group is being adopted or released"
    RECALLED = "the group goes back to the cluster"
    FENCED = "the group goes back to the cluster, and its native member has to rejoin"
    LOADING = "the group cannot be read from the state log yet"
    LOG_FAILED = "the state log cannot store the change"
    RELOADING = "the group is being loaded again after a failure"
    ENDING = "the gateway is shutting down"
    LOG_NOT_OURS = "another gateway may own the state log"
    BROKER_AWAY = "the client's broker is away"
    COORDINATOR_MOVED = "the client's broker is away, and the group has another coordinator"


_LOAD = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_MOVED = ErrorCode.NOT_COORDINATOR

_LOADS = {
    # The generation may be lost, and other errors are fatal to some clients: as in Kafka, the
    # member is asked to rejoin.
    GroupApi.SYNC: ErrorCode.REBALANCE_IN_PROGRESS,
    # Some clients treat COORDINATOR_LOAD_IN_PROGRESS as fatal in a Heartbeat, because Kafka answers
    # NONE while it loads (rule 2.7). The member's session may not be running here, so NONE could
    # keep it alive on the member's side for ever.
    GroupApi.HEARTBEAT: _AWAY,
}

_ROWS: Mapping[RefusalReason, tuple[ErrorCode, Mapping[GroupApi, ErrorCode | None]]] = {
    RefusalReason.EMPTY_GROUP_ID: (
        ErrorCode.INVALID_GROUP_ID,
        {
            GroupApi.CONSUMER_JOIN: ErrorCode.INVALID_REQUEST,
            GroupApi.CONSUMER_HEARTBEAT: ErrorCode.INVALID_REQUEST,
            GroupApi.CONSUMER_LEAVE: ErrorCode.INVALID_REQUEST,
            GroupApi.ASSIGNMENT: ErrorCode.INVALID_REQUEST,
            # The empty group id has offsets but never members (rule 2.9).
            GroupApi.COMMIT: None,
            GroupApi.FETCH: None,
        },
    ),
    # As in Kafka, which fails to write the name, or finds no such member. Where it would repeat the
    # name in the error as well, it never answers.
    RefusalReason.UNWRITABLE_NAME: (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        dict.fromkeys((GroupApi.SYNC, GroupApi.HEARTBEAT), ErrorCode.UNKNOWN_MEMBER_ID),
    ),
    # The member was ours, and its partitions belong to others now.
    RefusalReason.ELSEWHERE: (
        _LOAD,
        {**dict.fromkeys(BY_MEMBERS, ErrorCode.UNKNOWN_MEMBER_ID), GroupApi.ADMIN: None},
    ),
    RefusalReason.HOLDER_CHANGED: (_LOAD, _LOADS),
    RefusalReason.HOLDER_UNKNOWN: (_LOAD, _LOADS),
    RefusalReason.NOT_AT_COORDINATOR: (_MOVED, {}),
    RefusalReason.COORDINATOR_UNKNOWN: (_AWAY, {}),
    RefusalReason.NOT_ANCHORED: (_LOAD, _LOADS),
    RefusalReason.COMMIT_IN_FLIGHT: (_LOAD, _LOADS),
    RefusalReason.TOO_MANY_GROUPS: (_AWAY, {}),
    RefusalReason.TOPICS_UNKNOWN: (_AWAY, {}),
    RefusalReason.MOVING: (_LOAD, _LOADS),
    # As in a rebalance of the cluster. A member that rejoins loses its id, so that requests under
    # it are void once the cluster has the group again.
    RefusalReason.RECALLED: (
        _LOAD,
        {
            **dict.fromkeys(
                (GroupApi.HEARTBEAT, GroupApi.SYNC, GroupApi.COMMIT),
                ErrorCode.REBALANCE_IN_PROGRESS,
            ),
            # On which a producer aborts its transaction. It takes REBALANCE_IN_PROGRESS, and before
            # v6 STALE_MEMBER_EPOCH, for fatal: Kafka does not answer them.
            GroupApi.TXN_COMMIT: ErrorCode.ILLEGAL_GENERATION,
            GroupApi.JOIN: ErrorCode.UNKNOWN_MEMBER_ID,
        },
    ),
    # Both are errors that native clients expect, and on which they rejoin with epoch 0.
    RefusalReason.FENCED: (
        _LOAD,
        {
            **_LOADS,
            GroupApi.CONSUMER_HEARTBEAT: ErrorCode.FENCED_MEMBER_EPOCH,
            GroupApi.COMMIT: ErrorCode.STALE_MEMBER_EPOCH,
            GroupApi.TXN_COMMIT: ErrorCode.ILLEGAL_GENERATION,
        },
    ),
    # The loaded group restarts the session, as a broker's does.
    RefusalReason.LOADING: (_LOAD, {**_LOADS, GroupApi.HEARTBEAT: ErrorCode.NONE}),
    RefusalReason.LOG_FAILED: (_AWAY, {}),
    RefusalReason.RELOADING: (_AWAY, {}),
    RefusalReason.ENDING: (_AWAY, {}),
    RefusalReason.LOG_NOT_OURS: (_MOVED, {}),
    RefusalReason.BROKER_AWAY: (_LOAD, _LOADS),
    RefusalReason.COORDINATOR_MOVED: (_MOVED, {}),
}

ANSWERS: Mapping[tuple[RefusalReason, GroupApi], ErrorCode | None] = MappingProxyType(
    {
        (cause, api): exceptions.get(api, code)
        for cause, (code, exceptions) in _ROWS.items()
        for api in GroupApi
    }
)
"""The code for each pair; None where the cluster answers instead."""


def needs_lease(api: GroupApi, error: ErrorCode = ErrorCode.NONE) -> bool:
    """Whether an answer of the engine must not leave once another gateway may own the state log,
    because that one may have fenced the member. It becomes `RefusalReason.LOG_NOT_OURS`.

    An accepted commit or fetch may leave: the cluster refuses the anchor of a replaced gateway.
    """
    return api in OF_MEMBERSHIP or bool(error)


def code_for(cause: RefusalReason, api: GroupApi) -> ErrorCode:
    """The code of a refusal. Raises ValueError if the cluster answers in this situation."""
    code = ANSWERS[cause, api]
    if code is None:
        raise ValueError(f"the cluster answers {api.value} where {cause.value}")
    return code
