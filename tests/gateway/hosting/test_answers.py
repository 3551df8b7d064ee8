"""Every pair of situation and api has the code that the protocol asks for.

The expectations come from the protocol (`gateway/docs/protocol/`, `moving-clusters.md` and
`anchor.md`), not from the table.
"""

from itertools import product

import pytest

from gateway.hosting.answers import ANSWERS, GroupApi, RefusalReason, code_for, needs_lease
from kafka_codecs.error_codes import ErrorCode

RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The client asks again, and keeps what it has."""
NATIVE = (GroupApi.CONSUMER_JOIN, GroupApi.CONSUMER_HEARTBEAT, GroupApi.CONSUMER_LEAVE)
KIP_848 = (*NATIVE, GroupApi.ASSIGNMENT)
BY_ID = (*KIP_848, GroupApi.JOIN, GroupApi.SYNC, GroupApi.HEARTBEAT, GroupApi.LEAVE)
"""Requests of members, and of clients that want to be one."""
PAIRS = list(product(RefusalReason, GroupApi))

FOR_CLIENTS_THAT_CANNOT_GO_ON: dict[tuple[RefusalReason, GroupApi], ErrorCode] = {
    # No retry makes an empty group id valid (errors-and-versions.md).
    **{(RefusalReason.EMPTY_GROUP_ID, api): ErrorCode.INVALID_GROUP_ID for api in GroupApi},
    **{(RefusalReason.EMPTY_GROUP_ID, api): ErrorCode.INVALID_REQUEST for api in KIP_848},
    # No retry shortens a name.
    **{(RefusalReason.UNWRITABLE_NAME, api): ErrorCode.UNKNOWN_SERVER_ERROR for api in GroupApi},
    (RefusalReason.UNWRITABLE_NAME, GroupApi.SYNC): ErrorCode.UNKNOWN_MEMBER_ID,
    (RefusalReason.UNWRITABLE_NAME, GroupApi.HEARTBEAT): ErrorCode.UNKNOWN_MEMBER_ID,
    # Its partitions belong to others now: it must stop.
    (RefusalReason.ELSEWHERE, GroupApi.SYNC): ErrorCode.UNKNOWN_MEMBER_ID,
    (RefusalReason.ELSEWHERE, GroupApi.HEARTBEAT): ErrorCode.UNKNOWN_MEMBER_ID,
    (RefusalReason.ELSEWHERE, GroupApi.CONSUMER_HEARTBEAT): ErrorCode.UNKNOWN_MEMBER_ID,
    (RefusalReason.ELSEWHERE, GroupApi.ASSIGNMENT): ErrorCode.UNKNOWN_MEMBER_ID,
    # It must rejoin, under another id (adoption.md).
    (RefusalReason.RECALLED, GroupApi.HEARTBEAT): ErrorCode.REBALANCE_IN_PROGRESS,
    (RefusalReason.RECALLED, GroupApi.SYNC): ErrorCode.REBALANCE_IN_PROGRESS,
    (RefusalReason.RECALLED, GroupApi.COMMIT): ErrorCode.REBALANCE_IN_PROGRESS,
    (RefusalReason.RECALLED, GroupApi.TXN_COMMIT): ErrorCode.ILLEGAL_GENERATION,
    (RefusalReason.RECALLED, GroupApi.JOIN): ErrorCode.UNKNOWN_MEMBER_ID,
    # It must rejoin with epoch 0 (release.md).
    (RefusalReason.FENCED, GroupApi.CONSUMER_HEARTBEAT): ErrorCode.FENCED_MEMBER_EPOCH,
    (RefusalReason.FENCED, GroupApi.COMMIT): ErrorCode.STALE_MEMBER_EPOCH,
    (RefusalReason.FENCED, GroupApi.TXN_COMMIT): ErrorCode.ILLEGAL_GENERATION,
    # It must give up its partitions first.
}

BY_THE_CLUSTER = frozenset(
    {
        # The empty group id has offsets but never members (rule 2.9).
        (RefusalReason.EMPTY_GROUP_ID, GroupApi.COMMIT),
        (RefusalReason.EMPTY_GROUP_ID, GroupApi.FETCH),
        (RefusalReason.ELSEWHERE, GroupApi.ADMIN),
    }
)

LOADING = (
    RefusalReason.ELSEWHERE,
    RefusalReason.HOLDER_CHANGED,
    RefusalReason.HOLDER_UNKNOWN,
    RefusalReason.NOT_ANCHORED,
    RefusalReason.COMMIT_IN_FLIGHT,
    RefusalReason.MOVING,
    RefusalReason.RECALLED,
    RefusalReason.FENCED,
    RefusalReason.LOADING,
    RefusalReason.BROKER_AWAY,
)
"""The reasons that pass at this broker: the client asks it again."""
ELSEWHERE = (
    RefusalReason.NOT_AT_COORDINATOR,
    RefusalReason.LOG_NOT_OURS,
    RefusalReason.COORDINATOR_MOVED,
)
"""The client looks for the coordinator."""


def expected_code(cause: RefusalReason, api: GroupApi) -> ErrorCode | None:
    """What the protocol asks for."""
    if (cause, api) in BY_THE_CLUSTER:
        return None
    if (cause, api) in FOR_CLIENTS_THAT_CANNOT_GO_ON:
        return FOR_CLIENTS_THAT_CANNOT_GO_ON[cause, api]
    if cause in ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    if cause not in LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if api is GroupApi.SYNC:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if api is GroupApi.HEARTBEAT:
        is_loading = cause is RefusalReason.LOADING
        return ErrorCode.NONE if is_loading else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(("cause", "api"), PAIRS)
def test_every_pair_has_the_code_of_the_protocol(cause: RefusalReason, api: GroupApi) -> None:
    """Or the cluster answers, and the table has no code."""
    code = expected_code(cause, api)
    assert ANSWERS[cause, api] is code
    if code is None:
        with pytest.raises(ValueError, match="the cluster answers"):
            code_for(cause, api)
    else:
        assert code_for(cause, api) is code


@pytest.mark.parametrize(("cause", "api"), PAIRS)
def test_a_code_is_retriable_unless_the_client_cannot_continue(
    cause: RefusalReason, api: GroupApi
) -> None:
    """A fatal code for a passing trouble would stop a consumer for good."""
    code = ANSWERS[cause, api]
    if code is None or (cause, api) in FOR_CLIENTS_THAT_CANNOT_GO_ON:
        return
    rejoins = {ErrorCode.REBALANCE_IN_PROGRESS} if api is GroupApi.SYNC else set()
    assert code in RETRIABLE | rejoins | (
        {ErrorCode.NONE} if (cause, api) == (RefusalReason.LOADING, GroupApi.HEARTBEAT) else set()
    )


@pytest.mark.parametrize("cause", RefusalReason)
def test_codes_that_clients_would_not_survive_are_not_sent(cause: RefusalReason) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS is fatal to some clients in a Heartbeat (rule 2.7), and to some
    in a SyncGroup. GROUP_ID_NOT_FOUND is fatal to a member of librdkafka (clients.md)."""
    for api in (GroupApi.HEARTBEAT, GroupApi.SYNC):
        assert ANSWERS[cause, api] is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ANSWERS[cause, GroupApi.CONSUMER_HEARTBEAT] is not ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("cause", RefusalReason)
def test_a_producer_survives_every_refusal_of_its_offsets(cause: RefusalReason) -> None:
    """The producer aborts its transaction, or asks again. Kafka does not answer
    REBALANCE_IN_PROGRESS there, and STALE_MEMBER_EPOCH only since v6: Java's producers take both
    for fatal."""
    if cause not in (RefusalReason.EMPTY_GROUP_ID, RefusalReason.UNWRITABLE_NAME):
        survived = RETRIABLE | {ErrorCode.ILLEGAL_GENERATION}
        assert ANSWERS[cause, GroupApi.TXN_COMMIT] in survived


@pytest.mark.parametrize(
    "cause", [reason for reason in RefusalReason if reason is not RefusalReason.LOADING]
)
def test_only_a_loading_group_keeps_a_silent_members_session(cause: RefusalReason) -> None:
    """The group restarts the session once it is loaded. Elsewhere the session is not kept, and NONE
    could keep the member alive on its own side for ever."""
    assert ANSWERS[cause, GroupApi.HEARTBEAT] is not ErrorCode.NONE


def test_only_a_heartbeat_can_succeed_without_the_engine() -> None:
    """Everything else would be a lie."""
    assert [pair for pair in PAIRS if ANSWERS[pair] is ErrorCode.NONE] == [
        (RefusalReason.LOADING, GroupApi.HEARTBEAT)
    ]


def test_a_member_stops_where_another_gateway_has_its_group() -> None:
    """If the member continued, its partitions would have two owners. A client that is not yet a
    member may retry."""
    codes = {api: ANSWERS[RefusalReason.ELSEWHERE, api] for api in BY_ID}
    stopped = {api for api, code in codes.items() if code is ErrorCode.UNKNOWN_MEMBER_ID}
    assert stopped == {
        GroupApi.SYNC,
        GroupApi.HEARTBEAT,
        GroupApi.CONSUMER_HEARTBEAT,
        GroupApi.ASSIGNMENT,
    }


@pytest.mark.parametrize("api", GroupApi)
def test_members_hear_from_the_owner_of_the_log_only(api: GroupApi) -> None:
    """A group that may be outdated does not refuse commits and fetches either."""
    assert needs_lease(api) is (api in BY_ID)
    assert needs_lease(api, ErrorCode.UNKNOWN_MEMBER_ID)
