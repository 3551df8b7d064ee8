"""One rule says whether a group can change its protocol, and what is in the way."""

from dataclasses import replace

from coordinator.engine import GroupEngine
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.records import ClassicGroupValue
from coordinator.interface.roll_policy import RollMode
from gateway.events.group_events import ReadinessChanged
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.readiness import (
    BLOCKERS_NAMED_MAX,
    NOT_SEEN,
    assess_conversion,
    classic_group_of,
    starved_members,
)
from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.group_routing import HERE
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript, subscription
from tests.support.group_snapshots import FORWARDED, glance_of
from tests.support.group_values import make_topics

MEMBER = WatchedMember(
    member_id="m", client_id="c", client_host="/h", protocols=(("range", subscription(["t"])),)
)


def snapshot(
    *members: WatchedMember,
    state: GroupState | None = None,
    protocol_type: str = "consumer",
    protocol: str = "range",
    policy: RollMode = RollMode.ALLOW,
) -> GroupSnapshot:
    """A group that is hosted with this state, or forwarded with these members."""
    watched = WatchedGroup(
        group_id="g",
        protocol_type=protocol_type,
        protocol=protocol,
        members={member.member_id: member for member in members},
    )
    return glance_of(
        decision=FORWARDED if state is None else HERE,
        state=state,
        policy=policy,
        watched=watched if members else None,
    )


def reasons(readiness: ReadinessChanged) -> list[str]:
    """The reasons of the named blockers."""
    assert readiness.can_convert is not bool(readiness.blockers)
    return [blocker.reason for blocker in readiness.blocked_by]


def test_a_group_of_consumers_can_convert() -> None:
    """Whether it is hosted or not."""
    assert reasons(assess_conversion(snapshot(MEMBER), GroupConfig())) == []
    group = GroupScript()
    group.stable_classic_group({"a": {"foo": [0]}})
    readiness = assess_conversion(snapshot(state=group.engine.state), GroupConfig())
    assert (readiness.can_convert, readiness.direction) == (True, "classic->consumer")


def test_a_blocker_names_the_member_that_it_concerns() -> None:
    """Operators look for its client. Of many blockers the first few are named."""
    broken = replace(MEMBER, protocols=(("range", b"\0"),))
    members = [replace(broken, member_id=f"m{n}") for n in range(BLOCKERS_NAMED_MAX + 5)]
    readiness = assess_conversion(snapshot(*members), GroupConfig())
    assert (len(readiness.blocked_by), readiness.blockers) == (BLOCKERS_NAMED_MAX, len(members))
    blocker = readiness.blocked_by[0]
    assert (blocker.client_id, blocker.client_host, blocker.member_id) == ("c", "/h", "m0")
    assert "malformed" in blocker.reason


def test_a_member_whose_join_was_not_seen_is_not_called_malformed() -> None:
    """Nothing is known of its subscription, as after the cluster has converted a group or got it
    back."""
    readiness = assess_conversion(snapshot(MEMBER, WatchedMember(member_id="n")), GroupConfig())
    assert reasons(readiness) == [NOT_SEEN]


def test_workers_and_streams_stay_with_the_cluster() -> None:
    """Workers and streams get no advice on assignors."""
    workers = snapshot(MEMBER, protocol_type="connect")
    for foreign in (workers, snapshot(MEMBER, protocol="stream")):
        (reason,) = reasons(assess_conversion(foreign, GroupConfig()))
        assert reason.startswith("it stays with the cluster: ")
        assert classic_group_of(foreign) is None


def test_a_mixed_group_can_convert_back_unless_the_policy_forbids_it() -> None:
    """Its classic members are no obstacle."""
    group = GroupScript()
    group.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    group.native("n")
    here = snapshot(state=group.engine.state)
    readiness = assess_conversion(here, GroupConfig())
    assert (readiness.can_convert, readiness.direction) == (True, "consumer->classic")
    config = GroupConfig(consumer_migration_policy=MigrationPolicy.UPGRADE)
    (reason,) = reasons(assess_conversion(here, config))
    assert "does not allow the group to become a classic group" in reason


def test_a_group_between_two_rebalances_is_read_by_the_protocol_that_comes() -> None:
    """A group whose first members are joining has no protocol yet."""
    group = GroupScript()
    group.send_join("")
    assert reasons(assess_conversion(snapshot(state=group.engine.state), GroupConfig())) == []
    assert reasons(assess_conversion(snapshot(MEMBER, protocol=""), GroupConfig())) == []


def test_an_operators_hold_is_a_blocker() -> None:
    """No consumer can begin the roll."""
    (reason,) = reasons(assess_conversion(snapshot(MEMBER, policy=RollMode.HOLD), GroupConfig()))
    assert "policy hold" in reason


def test_members_that_starve_each_other_are_found() -> None:
    """Two members share a topic of one partition, while others subscribe to more."""
    few = [given_classic_group_member(name, metadata=subscription(["t"])) for name in "ab"]
    more = given_classic_group_member("c", metadata=subscription(["t", "u"]))
    group = ClassicGroupValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="a",
        members=(*few, more),
    )
    (finding,) = starved_members(group, make_topics(t=1, u=5))
    assert finding.startswith("2 members subscribe only to t, which has 1 partitions")
    assert list(starved_members(group, make_topics(t=2, u=5))) == []
    assert list(starved_members(replace(group, members=tuple(few)), make_topics(t=1))) == []


def test_a_group_that_does_not_exist_is_no_obstacle_to_itself() -> None:
    """Its first consumer may use the new protocol."""
    state = GroupEngine("g", GroupConfig()).state
    assert assess_conversion(snapshot(state=state), GroupConfig()).can_convert
