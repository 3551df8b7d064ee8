"""What is said of a group's readiness for the new protocol."""

from dataclasses import replace

import pytest

from coordinator.engine import GroupEngine
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig, MigrationPolicy
from gateway.board import group_readiness
from gateway.board.group_readiness import assess
from gateway.board.reading import group_page
from gateway.board.views import GroupReadiness
from gateway.groups.cluster_view import SeenInCluster
from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.group_routing import HERE, RoutingDecision
from gateway.hosting.lookup_outcome import LiveMembers
from gateway.hosting.states import Mode
from kafka_codecs.consumer_group_describe import Assignment, DescribedGroup, Member, MemberType
from tests.support.group_records import CLIENT_ID, consumer_group, given_classic, given_native
from tests.support.group_script import subscription
from tests.support.group_snapshots import FORWARDED, glance_of
from tests.support.group_values import make_topics

RANGE = (("range", subscription(["t"])),)
MEMBER = WatchedMember(
    member_id="m",
    client_id="c",
    software_name="librdkafka",
    software_version="2.8.0",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    protocols=RANGE,
)


def readiness_of(
    *members: WatchedMember,
    decision: RoutingDecision = FORWARDED,
    adoption: tuple[str, ...] = (),
    config: GroupConfig | None = None,
    state: GroupState | None = None,
) -> GroupReadiness:
    """What is said of a group that the gateway forwards, or that has this state."""
    protocol = members[0].protocols[0][0] if members else ""
    watched = WatchedGroup(
        group_id="g", protocol=protocol, members={member.member_id: member for member in members}
    )
    snapshot = glance_of(
        decision=decision,
        state=GroupState("g") if decision is HERE and state is None else state,
        watched=watched if members else None,
    )
    page, taken = group_page(snapshot, None, None)
    whole = page.model_copy(update={"member_list": tuple(member.line() for member in taken)})
    return assess(snapshot, whole, None, adoption, config or GroupConfig())


def test_a_group_that_is_ready_says_which_versions_are_defective() -> None:
    """The group converts all the same."""
    readiness = readiness_of(MEMBER, replace(MEMBER, member_id="n", software_version="2.16.1"))
    assert (readiness.mode, readiness.members) == ("forwarded", 2)
    assert (readiness.can_convert, readiness.can_be_adopted) == (True, True)
    assert readiness.to_change == (
        "c: librdkafka 2.8.0 is too old for the new protocol: it takes 2.12: until then it stays a"
        " classic member (clients.md)",
    )
    new, old = readiness.clients
    assert (old.software_version, old.members, old.speaks_consumer) == ("2.8.0", 1, False)
    assert [defect.rpartition("(before ")[2].partition(";")[0] for defect in old.defects] == [
        "2.12",
        "2.15",
        "2.15",
    ]
    assert (new.software_version, new.speaks_consumer, new.defects) == ("2.16.1", True, ())


def test_what_is_in_the_way_of_a_conversion_is_named() -> None:
    """The policy, the size, and each member whose subscription cannot be read."""
    config = GroupConfig(consumer_migration_policy=MigrationPolicy.DISABLED, consumer_max_size=1)
    broken = replace(MEMBER, member_id="x", protocols=(("range", b"\0"),))
    readiness = readiness_of(MEMBER, broken, config=config)
    assert not readiness.can_convert
    policy, size, subscription_of_x = readiness.conversion_obstacles
    assert "migration policy disabled" in policy
    assert "2 members exceed the maximum size" in size
    assert subscription_of_x.startswith("x: the embedded consumer protocol is malformed")


def test_configs_that_the_new_protocol_refuses_are_named() -> None:
    """Only settings that show in requests can be named."""
    sticky = replace(MEMBER, protocols=(("sticky", RANGE[0][1]),), session_timeout_ms=12_000)
    custom = replace(MEMBER, client_id="d", protocols=(("by-region", RANGE[0][1]),))
    sticky, custom = (replace(member, software_version="2.16.1") for member in (sticky, custom))
    assignor, session = readiness_of(sticky).to_change
    assert assignor.startswith("c: remove partition.assignment.strategy (sticky)")
    assert session.startswith("c: remove session.timeout.ms (12000) and heartbeat.interval.ms")
    (change,) = readiness_of(custom).to_change
    assert change.startswith("d: the new protocol has no assignor by-region")
    assert change.endswith(
        "unless a plug-in or the consumers themselves do (plug-ins.md, client-side-assignors.md)"
    )


def test_what_is_in_the_way_of_an_adoption_is_passed_on() -> None:
    """A hosted group needs none."""
    outside = "c at 10.0.0.1 (m) has not come through this gateway"
    readiness = readiness_of(MEMBER, adoption=(outside,))
    assert (readiness.can_be_adopted, readiness.adoption_obstacles) == (False, (outside,))
    hosted = readiness_of(decision=HERE, adoption=("it is hosted already",))
    assert (hosted.can_be_adopted, hosted.adoption_obstacles) == (None, ())


@pytest.mark.parametrize(
    "decision",
    [
        RoutingDecision(Mode.FORWARDED, "its protocol type is connect"),
        RoutingDecision(Mode.ELSEWHERE, "another gateway has it"),
    ],
)
def test_a_group_that_is_not_ours_to_convert_says_why(decision: RoutingDecision) -> None:
    """One example is a group of Kafka Connect."""
    (reason,) = readiness_of(decision=decision).conversion_obstacles
    assert decision.reason in reason


def test_a_long_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says how many lines are left out."""
    monkeypatch.setattr(group_readiness, "LINES_MAX", 2)
    readiness = readiness_of(MEMBER, adoption=tuple(map(str, range(5))))
    assert readiness.adoption_obstacles == ("0", "1")
    assert readiness.left_out == 3


def test_a_session_longer_than_the_anchors_is_warned_of() -> None:
    """The cluster keeps the group for the gateway no longer than the anchor's session. Nothing is
    in the way of the group."""
    at_most = replace(MEMBER, member_id="a", client_id="at-most", session_timeout_ms=60_000)
    longer = replace(MEMBER, member_id="l", client_id="longer", session_timeout_ms=120_000)
    readiness = readiness_of(MEMBER, at_most, longer)
    (warning,) = readiness.warnings
    assert warning.startswith("longer: a session of 120 s is longer than that of the gateway")
    assert (readiness.can_convert, readiness.can_be_adopted) == (True, True)


@pytest.mark.parametrize(
    ("classic_ms", "native_ms", "warned"),
    [(60_000, 60_000, []), (90_000, 60_000, [CLIENT_ID]), (10_000, 61_000, ["its native members"])],
)
def test_members_of_a_consumer_group_have_their_session_or_that_of_its_config(
    classic_ms: int, native_ms: int, warned: list[str]
) -> None:
    """A native member states none."""
    image = make_topics(foo=3)
    records = consumer_group(
        given_classic("c", session_timeout_ms=classic_ms),
        given_native("n"),
        epoch=2,
        assignment_epoch=2,
        timestamp_ms=0,
        image=image,
        regexes={},
    )
    config = GroupConfig(consumer_session_timeout_ms=native_ms)
    engine = GroupEngine("g", config)
    engine.load(records, now_ms=0)
    readiness = readiness_of(decision=HERE, state=engine.state, config=config)
    assert [line.partition(":")[0].partition(" (")[0] for line in readiness.warnings] == warned


def test_in_a_mixed_group_the_classic_members_still_have_to_change() -> None:
    """The roll has begun, and they come next."""
    image = make_topics(foo=3)
    records = consumer_group(
        given_classic("c", session_timeout_ms=12_000),
        given_native("n"),
        epoch=2,
        assignment_epoch=2,
        timestamp_ms=0,
        image=image,
        regexes={},
    )
    engine = GroupEngine("g", GroupConfig())
    engine.load(records, now_ms=0)
    (change,) = readiness_of(decision=HERE, state=engine.state).to_change
    assert change.startswith(f"{CLIENT_ID}: remove session.timeout.ms (12000)")


def test_a_group_that_the_cluster_serves_with_the_new_protocol_says_so() -> None:
    """Its clients speak it, whatever they are. What forwarding it rested on is long past."""
    nothing = Assignment(topic_partitions=())
    member = Member(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        assignment=nothing,
        target_assignment=nothing,
        member_type=MemberType.CONSUMER,
    )
    described = DescribedGroup(group_id="g", group_state="Stable", members=(member,))
    outcome = LiveMembers("consumer", ("c",), consumer_group=described)
    snapshot = glance_of(decision=FORWARDED, in_cluster=SeenInCluster(outcome, 0))
    page, taken = group_page(snapshot, None, None)
    whole = page.model_copy(update={"member_list": tuple(member.line() for member in taken)})
    readiness = assess(snapshot, whole, None, (), GroupConfig())
    assert readiness.conversion_obstacles == (
        "the cluster serves it, and it has the new protocol already",
    )
    assert [client.speaks_consumer for client in readiness.clients] == [True]
