"""Classic requests to each kind of group (rules 2.2, 5.1)."""

from collections.abc import Callable

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import Protocols
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member, given_native
from tests.support.group_script import GroupScript, subscription

RefusalReason = Callable[[GroupScript], None]

RANGE = ("range", subscription(["foo"]))


def no_group(group: GroupScript) -> None:
    """No client has used the group id."""


def empty_consumer_group(group: GroupScript) -> None:
    group.given_consumer_group()


def classic_group(group: GroupScript) -> None:
    group.given_classic_group(given_classic_group_member("a"))


def consumer_group(group: GroupScript) -> None:
    group.given_consumer_group(given_native("n1"))


SITUATIONS = [no_group, empty_consumer_group, classic_group, consumer_group]


@pytest.mark.parametrize("given", SITUATIONS)
def test_a_stranger_is_unknown_in_every_kind_of_group(
    group: GroupScript, given: RefusalReason
) -> None:
    """Heartbeat, SyncGroup and LeaveGroup name a member that does not exist."""
    given(group)
    before = group.view()
    assert group.beat("x", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync("x", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave("x").members[0].error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.view() == before


@pytest.mark.parametrize("given", SITUATIONS)
@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(
    group: GroupScript, given: RefusalReason, session_timeout_ms: int
) -> None:
    """This check comes first in any kind of group. The answer echoes the member id."""
    given(group)
    reply = group.join("x", session_timeout_ms=session_timeout_ms)
    assert (reply.error, reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "x")


def test_a_refused_session_timeout_names_the_limits_here_and_at_the_brokers() -> None:
    """Either may have to be changed."""
    names = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
    limits = tuple(zip(names, (1_000, 60_000), strict=True))
    config = GroupConfig(broker_limits=limits)
    group = GroupScript(config=config)
    assert group.join("x", session_timeout_ms=5_999).reason == (
        "the session timeout must be between 6000 and 1800000 ms (group.min.session.timeout.ms,"
        " group.max.session.timeout.ms; at the brokers 1000, 60000)"
    )


@pytest.mark.parametrize("given", SITUATIONS)
def test_a_sync_must_name_the_protocol(group: GroupScript, given: RefusalReason) -> None:
    """From v5 on this check comes first."""
    given(group)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.sync("x", 1, protocol_name=None).error == inconsistent
    assert group.sync("x", 1, protocol_type=None).error == inconsistent
    assert group.sync("x", 1, protocol_name=None, version=4).error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("given", SITUATIONS)
@pytest.mark.parametrize("protocols", [(), (RANGE, RANGE)], ids=["empty", "a name twice"])
def test_an_invalid_protocol_list_is_refused(
    group: GroupScript, given: RefusalReason, protocols: Protocols
) -> None:
    """The list causes no exception (rule 2.2 row 7). A consumer group without members has become an
    empty classic group by then, as in Kafka. Without a group, none is created (DEV D55)."""
    given(group)
    before = group.view()
    assert group.join(protocols=protocols).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    after = group.view()
    if before.members or given is no_group:
        assert after == before
    else:
        assert (after.group_type, after.state, after.members) == ("classic", "Empty", ())
