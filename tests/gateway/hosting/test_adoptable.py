"""Whether a group can be adopted, and what is adopted."""

from dataclasses import replace

import pytest

from coordinator.interface.config import GroupConfig
from gateway.hosting.adoptable import (
    OUTSIDE,
    UNKNOWN_SESSION_MS,
    describe_lack_of_room,
    snapshot,
    why_not,
    why_not_found,
)
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.lookup_outcome import (
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from kafka_codecs.describe_groups import DescribedGroup
from tests.support.adoption import NOW_MS, A, B, cluster_description, watched_group

CONFIG = GroupConfig()


def reasons(group: DescribedGroup, known: WatchedGroup) -> tuple[str, ...]:
    return why_not(group, known, CONFIG, NOW_MS)


def test_a_group_whose_members_are_all_behind_the_gateway_can_be_adopted() -> None:
    assert reasons(cluster_description(), watched_group()) == ()


def test_the_cluster_says_who_is_there_and_relayed_requests_say_the_rest() -> None:
    group = snapshot(cluster_description(), watched_group())
    assert (group.generation, group.leader, group.protocol) == (7, A, "range")
    assert [
        (member.member_id, member.client_id, member.client_host) for member in group.members
    ] == [
        (A, "a", "/10.0.0.1"),
        (B, "b", "/10.0.0.2"),
    ]
    assert group.members[0].session_timeout_ms == 10_000
    assert group.members[0].assignment == cluster_description().members[0].member_assignment


def test_a_member_whose_join_was_not_seen_has_the_default_timeouts() -> None:
    known = watched_group(
        b={"session_timeout_ms": None, "rebalance_timeout_ms": None, "protocols": ()}
    )
    member = snapshot(cluster_description(), known).members[1]
    assert member.session_timeout_ms == UNKNOWN_SESSION_MS
    assert member.protocols == (("range", cluster_description().members[1].member_metadata),)


@pytest.mark.parametrize(
    ("group", "known", "reason"),
    [
        (
            cluster_description(error_code=16),
            watched_group(),
            "the cluster does not describe it: NOT_COORDINATOR",
        ),
        (
            cluster_description(group_state="PreparingRebalance"),
            watched_group(),
            "it is PreparingRebalance",
        ),
        (cluster_description(group_state=""), watched_group(), "it is of another protocol"),
        (
            cluster_description(protocol_data="stream"),
            watched_group(),
            "it is a group of Kafka Streams",
        ),
        (
            cluster_description(protocol_type="connect"),
            watched_group(),
            "its protocol type is 'connect'",
        ),
        (
            cluster_description(),
            replace(watched_group(), generation=None),
            "its generation is unknown",
        ),
        (cluster_description(), replace(watched_group(), leader_id=None), "its leader is unknown"),
        (
            cluster_description(),
            watched_group(b={"heartbeat_ms": None}),
            f"b at 10.0.0.2 ({B}) has not come",
        ),
        (
            cluster_description(),
            watched_group(b={"heartbeat_ms": NOW_MS - 10_000}),
            f"b at 10.0.0.2 ({B}) has sent no heartbeat here for 10 s: look at its process",
        ),
        (
            cluster_description(),
            replace(watched_group(), members={}),
            f"a at 10.0.0.1 ({A}) has not come",
        ),
        (
            cluster_description(instance_of_a="i-1"),
            watched_group(),
            f"a at 10.0.0.1 ({A}) is the leader and a static",
        ),
        (
            cluster_description(),
            watched_group(b={"session_timeout_ms": 1}),
            f"{B}: its session timeout of 1 ms",
        ),
    ],
)
def test_every_obstacle_has_a_reason_that_names_the_member(
    group: DescribedGroup, known: WatchedGroup, reason: str
) -> None:
    assert any(reason in obstacle for obstacle in reasons(group, known))


def test_a_static_follower_is_no_obstacle() -> None:
    assert reasons(cluster_description(instance_of_b="i-1"), watched_group()) == ()


def test_all_reasons_are_given_at_once() -> None:
    known = replace(
        watched_group(a={"heartbeat_ms": None}, b={"heartbeat_ms": None}), leader_id=None
    )
    assert len(reasons(cluster_description(), known)) == 3


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (LookupFailed("nobody answers"), "does not say who is in it: nobody answers"),
        (OtherGroupType("share"), "it is a share group"),
        (BrokerTooOld(), "older than Kafka 2.3"),
        (LiveMembers("consumer", ("payments",)), "with the new protocol"),
        (
            LiveMembers("consumer", ("g",), anchored=cluster_description()),
            "another gateway holds it: ",
        ),
    ],
)
def test_what_is_no_live_classic_group_has_one_reason(outcome: LookupOutcome, reason: str) -> None:
    """Nothing else is to be said of it."""
    (obstacle,) = why_not_found(outcome, None, CONFIG, NOW_MS)
    assert reason in obstacle


def test_a_group_without_members_can_be_adopted() -> None:
    """An adopted group is hosted from its next join on."""
    assert why_not_found(NoMembers(), None, CONFIG, NOW_MS) == ()


def test_every_member_of_a_group_that_was_not_watched_is_outside() -> None:
    """The gateway has relayed none of its requests."""
    reasons = why_not_found(LiveMembers.of(cluster_description()), None, CONFIG, NOW_MS)
    assert [reason for reason in reasons if "has not come through this gateway" in reason] == [
        f"a at 10.0.0.1 ({A}) {OUTSIDE}",
        f"b at 10.0.0.2 ({B}) {OUTSIDE}",
    ]


@pytest.mark.parametrize(("longest_ms", "is_refused"), [(19_999, True), (20_000, False)])
def test_the_cluster_has_to_admit_a_longer_session_than_those_of_the_members(
    longest_ms: int, *, is_refused: bool
) -> None:
    """The leader's member guards the group for longer than a member may believe that it owns
    something. Otherwise the first JoinGroup would be refused, each time."""
    reasons = why_not_found(
        LiveMembers.of(cluster_description()),
        watched_group(),
        CONFIG,
        NOW_MS,
        longest_session_ms=longest_ms,
    )
    refusal = describe_lack_of_room(20_000)
    assert reasons == ((refusal,) if is_refused else ())
    assert "raise the cluster's group.max.session.timeout.ms to 20000" in refusal


def test_a_look_at_a_group_that_can_be_adopted_finds_no_reason() -> None:
    assert (
        why_not_found(LiveMembers.of(cluster_description()), watched_group(), CONFIG, NOW_MS) == ()
    )
