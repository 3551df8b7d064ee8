"""Who answers for a group, decided from what a look at the cluster has found.
`test_cluster_group_reader.py` tests the lookups, and `test_promises_with_kafka.py` both with real
brokers."""

from dataclasses import replace

import pytest

from gateway.events.event import GatewayEvent
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.effects import EmitNow, Log
from gateway.hosting.group_routing import (
    FORWARDED_FOR_MS,
    FOUND_FREE_FOR_MS,
    NOT_ADOPTED,
    GroupRouting,
    RoutingDecision,
)
from gateway.hosting.identity import AnchorJoinMetadata
from gateway.hosting.lookup_outcome import (
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from gateway.hosting.states import Adoption, Mode
from tests.simulation.coordinator import described_group
from tests.support.hosted_scene import anchored, hosting_rules

SESSION_MS = 60_000
DIRECT = LiveMembers("consumer", ("payments", "payments", "audit"), "range")
CONNECT = LiveMembers("connect", ("w",))
OWN = anchored("log-1", 1)
PREDECESSORS = anchored("log-1", 0)
SUCCESSORS = anchored("log-1", 2)
OLDER_GUISE = AnchorJoinMetadata(
    protocol_type="groupferry", protocol="log-1", metadata=b"run 0", instance_id="groupferry"
)
OLDER = LiveMembers.of(described_group(OLDER_GUISE, "groupferry-0", group_id="orders"))
OTHER_LOGS = anchored("log-2", 0)
REJOINING = anchored("log-1", 2, is_stable=False)
REJOINING_NOW = anchored("log-1", 1, is_stable=False)
TWO = anchored("log-1", 1, 2)


def routing(
    *patterns: str, group_id: str = "orders", host: tuple[str, ...] = ("*",)
) -> GroupRouting:
    """A group about which nothing is known."""
    return GroupRouting(group_id, hosting_rules(host=host, forward=patterns))


def lines(group: GroupRouting) -> list[str]:
    """The names of the lines and events so far."""
    names: list[str] = []
    for output in group.outbox:
        match output:
            case Log(event=name):
                names.append(name)
            case EmitNow(GatewayEvent() as event):
                names.append(event.name)
            case effect:
                raise TypeError(f"{effect} is for no operator")
    return names


@pytest.mark.parametrize(
    ("outcome", "mode"),
    [
        (NoMembers(), Mode.HOSTED),
        (LiveMembers("consumer", ("c",), "range"), Mode.FORWARDED),
        (LiveMembers("", ("c",)), Mode.FORWARDED),
        (LiveMembers("consumer", ("s",), "stream"), Mode.FORWARDED),
        (CONNECT, Mode.FORWARDED),
        (OtherGroupType("share"), Mode.FORWARDED),
        (BrokerTooOld(), Mode.FORWARDED),
        (LookupFailed("nobody listens"), Mode.UNKNOWN),
    ],
)
def test_members_in_the_cluster_decide_who_answers(outcome: LookupOutcome, mode: Mode) -> None:
    """With members in the cluster it is the cluster, without them the gateway. While that is
    unknown, neither does."""
    group = routing()
    assert not group.is_forwarded
    assert group.take(outcome, 0).mode is mode
    assert group.decision.mode is mode
    assert group.is_forwarded is (mode is Mode.FORWARDED)


def test_the_reason_names_the_kind_of_another_group() -> None:
    """Share and Streams groups share the namespace of consumer groups."""
    assert "a share group" in routing().take(OtherGroupType("share"), 0).reason


def test_an_unreachable_cluster_is_reported_until_the_reason_changes() -> None:
    """The client learns no address."""
    group = routing()
    for _ in range(3):
        assert "nobody listens" not in group.take(LookupFailed("nobody listens"), 0).reason
    group.take(LookupFailed("it is on fire"), 0)
    reasons = [output.fields["reason"] for output in group.outbox if isinstance(output, Log)]
    assert [reason.rpartition(": ")[2] for reason in reasons] == ["nobody listens", "it is on fire"]
    assert lines(group) == ["group_state_unknown"] * 2


def test_direct_members_are_reported_once_per_reason() -> None:
    """The reason is reported again when they return."""
    group = routing()
    for _ in range(3):
        group.take(DIRECT, 0)
    (output,) = group.outbox
    assert isinstance(output, EmitNow)
    assert "3 members (audit, payments)" in str(output.event.fields["reason"])
    group.take(NoMembers(), 0)
    group.host("it has no members in the cluster")
    group.take(DIRECT, 0)
    assert lines(group) == ["group_forwarded", "hosting_started", "group_forwarded"]


def test_a_free_group_counts_as_free_for_a_while() -> None:
    """This holds for requests that cannot add a member."""
    group = routing()
    assert group.recent_decision(0) is None, "the cluster was never asked"
    decision = group.take(NoMembers(), 1_000)
    assert group.recent_decision(1_000 + FOUND_FREE_FOR_MS - 1) == decision
    assert group.recent_decision(1_000 + FOUND_FREE_FOR_MS) is None


@pytest.mark.parametrize("outcome", [OTHER_LOGS, LookupFailed("x")])
def test_a_group_that_is_not_answered_for_is_looked_at_again(outcome: LookupOutcome) -> None:
    """The group may have become free at any moment."""
    group = routing()
    group.take(outcome, 0)
    assert group.recent_decision(0) is None


def test_a_forwarded_group_counts_as_forwarded_for_a_while() -> None:
    """One JoinGroup of another protocol must not take a group for good."""
    group = routing()
    group.forward("it uses the protocol connect/v1", 0)
    assert group.take(CONNECT, 5).mode is Mode.FORWARDED
    assert group.recent_decision(5 + FORWARDED_FOR_MS - 1) == group.decision
    assert group.recent_decision(5 + FORWARDED_FOR_MS) is None
    assert group.take(LookupFailed("nobody listens"), 0).mode is Mode.FORWARDED
    assert group.take(NoMembers(), 0).mode is Mode.HOSTED
    assert not group.is_forwarded
    group.host("it has no members in the cluster")
    group.forward("it uses the protocol connect/v1", 0)
    assert lines(group) == ["group_forwarded", "hosting_started", "group_forwarded"]


def test_a_forwarded_group_stays_so_while_the_cluster_is_silent() -> None:
    """Heartbeats of its members do not wait for one failing look after another."""
    group = routing()
    group.take(DIRECT, 0)
    group.take(LookupFailed("nobody listens"), FORWARDED_FOR_MS)
    last_ms = FORWARDED_FOR_MS + FOUND_FREE_FOR_MS - 1
    assert group.recent_decision(last_ms) == group.decision
    assert group.recent_decision(last_ms + 1) is None


@pytest.mark.parametrize(
    ("pattern", "group_id", "is_forwarded"),
    [
        ("legacy-*", "legacy-orders", True),
        ("legacy-*", "legacy", False),
        ("v?", "v1", True),
        ("v?", "V1", False),
        ("*", "anything", True),
        ("orders", "orders", True),
    ],
)
def test_the_operator_may_leave_groups_to_the_cluster(
    pattern: str, group_id: str, *, is_forwarded: bool
) -> None:
    """Patterns are case-sensitive, like group ids. No look changes it."""
    group = routing("other", pattern, group_id=group_id)
    assert group.is_configured is group.is_forwarded is is_forwarded
    assert (group.take(NoMembers(), 0).mode is Mode.FORWARDED) is is_forwarded


def test_a_setting_leaves_a_hosted_group_to_the_cluster_only_after_its_release() -> None:
    """Its members may hold partitions, and its anchor keeps all others out."""
    group = routing("orders")
    group.rules.adopted.add("orders")
    assert group.is_configured
    assert not group.is_left
    assert group.take(OWN, 0).mode is Mode.HOSTED
    group.rules.adopted.clear()
    assert group.take(NoMembers(), 0, is_held=True).mode is Mode.HOSTED  # it has members
    assert group.take(NoMembers(), 0).mode is Mode.FORWARDED


@pytest.mark.parametrize("is_configured", [True, False], ids=["configured", "released"])
@pytest.mark.parametrize("seen", [OWN, PREDECESSORS, REJOINING_NOW], ids=["own", "older", "joins"])
def test_an_anchor_of_this_log_in_a_group_of_the_cluster_is_seen(
    seen: LiveMembers, *, is_configured: bool
) -> None:
    group = routing(*["orders"] * is_configured)
    if not is_configured:
        group.rules.released.add("orders")
    assert group.take(seen, 0).has_anchor
    assert group.take(NoMembers(), 0).mode is Mode.FORWARDED
    assert group.take(OTHER_LOGS, 0).mode is Mode.FORWARDED
    assert group.take(SUCCESSORS, 0).mode is Mode.FORWARDED


def test_an_anchor_that_is_about_to_leave_hosts_no_call_of_a_released_group() -> None:
    group = routing()
    group.rules.released.add("orders")
    assert group.take(OWN, 0).mode is Mode.HOSTED
    call = Call(api=GroupApi.JOIN)
    call.has_look = True
    decision = group.find_decision(call, 0)
    assert decision is not None
    assert decision.mode is Mode.FORWARDED


def test_a_cluster_without_static_members_keeps_its_groups() -> None:
    """Before Kafka 2.3 the coordinator fences no earlier incarnation."""
    assert "older than Kafka 2.3" in routing().take(BrokerTooOld(), 0).reason


# -- anchors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "mode"),
    [
        (OWN, Mode.HOSTED),
        (PREDECESSORS, Mode.HOSTED),
        (SUCCESSORS, Mode.ELSEWHERE),
        (OLDER, Mode.UNKNOWN),
        (REJOINING, Mode.HOSTED),
        (OTHER_LOGS, Mode.ELSEWHERE),
        (TWO, Mode.ELSEWHERE),
    ],
)
def test_an_anchor_names_the_holder_of_its_group(outcome: LookupOutcome, mode: Mode) -> None:
    """An anchor with this gateway's log belongs to it or to an earlier process, which may have
    joined it just before its end, unless its run is newer. An anchor with another log names that
    log."""
    decision = routing().take(outcome, 0)
    assert decision.mode is mode
    assert decision.has_anchor is (mode is Mode.HOSTED)


def test_in_a_fleet_the_log_shows_who_has_continued_with_a_group() -> None:
    """No operator is needed: the gateway was silent, and is about to learn that it has lost the
    shard. Until then no client is answered. Another log is another matter."""
    group = routing()
    group.rules.shares_log = True
    assert group.take(SUCCESSORS, 0).mode is Mode.UNKNOWN
    assert lines(group) == []
    assert group.take(OTHER_LOGS, 0).mode is Mode.ELSEWHERE


@pytest.mark.parametrize(
    ("members", "is_ours"),
    [
        (OWN, True),
        (PREDECESSORS, True),
        (SUCCESSORS, False),
        (REJOINING, False),
        (OLDER, False),
        (OTHER_LOGS, False),
        (TWO, False),
        (LiveMembers("consumer", ("c",), "groupferry-log-1"), False),
    ],
)
def test_our_anchor_is_recognised_in_the_clusters_description(
    members: LiveMembers, *, is_ours: bool
) -> None:
    """Admin tools are shown the group as it is behind the gateway."""
    group = routing()
    if members.anchored is None:
        assert not is_ours
        return
    assert group.is_ours(members.anchored) is is_ours


@pytest.mark.parametrize("is_stable", [True, False])
def test_a_group_with_an_anchor_of_version_0_2_is_refused_with_the_way_out(
    *, is_stable: bool
) -> None:
    """This includes a group that is live here or released: its members stay in the log, and
    continue once the anchor has left."""
    group = routing()
    members = LiveMembers.of(
        described_group(OLDER_GUISE, "groupferry-0", group_id="orders", is_stable=is_stable)
    )
    for is_held in (False, True):
        decision = group.take(members, 0, is_held=is_held)
        assert (decision.mode, decision.has_anchor) == (Mode.UNKNOWN, False)
    assert "have 0.2 release the group" in decision.reason
    group.rules.released.add(group.group_id)
    assert group.take(members, 0).mode is Mode.UNKNOWN
    assert lines(group) == ["older_anchor"]
    group.rules.released.clear()
    assert group.take(NoMembers(), 0).mode is Mode.HOSTED


def test_an_anchor_of_version_0_2_with_another_log_is_another_gateways() -> None:
    join_metadata = replace(OLDER_GUISE, protocol="log-2")
    members = LiveMembers.of(described_group(join_metadata, "groupferry-0", group_id="orders"))
    assert routing().take(members, 0).mode is Mode.ELSEWHERE


def test_members_of_a_lost_log_are_waited_for() -> None:
    """An anchor with another log has gone. Its gateway's members may still consume for the longest
    possible session."""
    group = routing()
    assert group.take(OTHER_LOGS, 5_000).mode is Mode.ELSEWHERE
    assert group.take(NoMembers(), 5_000 + SESSION_MS - 1).mode is Mode.UNKNOWN
    assert group.recent_decision(5_000 + SESSION_MS - 1) is None
    assert group.take(NoMembers(), 5_000 + SESSION_MS).mode is Mode.HOSTED
    assert lines(group) == ["group_hosted_elsewhere", "group_waits_for_sessions"]


def test_another_gateway_is_reported_once_as_an_error() -> None:
    """The report has its address and its log."""
    group = routing()
    for _ in range(3):
        group.take(OTHER_LOGS, 0)
    (line,) = group.outbox
    assert isinstance(line, Log)
    assert (line.event, line.level) == ("group_hosted_elsewhere", "error")
    assert "groupferry at /10.0.0.7" in line.fields["reason"]
    assert "log-2" in line.fields["reason"]


def test_a_gateway_that_took_the_group_over_keeps_it_until_it_is_free() -> None:
    """Its members must have left as well."""
    group = routing()
    assert group.take(SUCCESSORS, 0).mode is Mode.ELSEWHERE
    assert group.take(NoMembers(), SESSION_MS - 1).mode is Mode.UNKNOWN
    assert group.take(NoMembers(), SESSION_MS).mode is Mode.HOSTED


def test_a_gateway_that_is_being_removed_takes_no_group() -> None:
    """The gateway keeps the groups that it has. Afterwards the next look decides again."""
    group = routing()
    group.rules.is_removing = True
    assert group.take(NoMembers(), 0).mode is Mode.FORWARDED
    assert group.take(NoMembers(), 0, is_held=True).mode is Mode.HOSTED
    group.rules.is_removing = False
    assert group.take(NoMembers(), 0).mode is Mode.HOSTED


@pytest.mark.parametrize(
    ("host", "forward", "mode"),
    [
        (("*",), (), Mode.HOSTED),
        (("ord*",), (), Mode.HOSTED),
        (("pay*", "ord*"), (), Mode.HOSTED),
        (("pay*",), (), Mode.FORWARDED),
        (("ord*",), ("*ers",), Mode.FORWARDED),
    ],
)
def test_settings_host_an_empty_group_or_forbid_it(
    host: tuple[str, ...], forward: tuple[str, ...], mode: Mode
) -> None:
    """The pattern that forbids decides."""
    group = routing(*forward, host=host)
    assert group.take(NoMembers(), 0).mode is mode
    assert group.is_configured is bool(forward)


@pytest.mark.parametrize("adoption", ["manual", "auto"])
def test_an_empty_group_stays_with_the_cluster(adoption: Adoption) -> None:
    """Consumers that are not behind the gateway yet would be refused."""
    group = routing(host=())
    group.rules.adoption = adoption
    assert group.take(NoMembers(), 0) == RoutingDecision(Mode.FORWARDED, NOT_ADOPTED)
    assert group.take(NoMembers(), 0, is_held=True).mode is Mode.HOSTED


def test_an_adopted_group_is_hosted_while_it_is_empty() -> None:
    """This holds until the mark is gone, or the operator leaves every group to the cluster."""
    group = routing(host=())
    group.record_log(is_adopted=True, release=None)
    assert group.take(NoMembers(), 0).mode is Mode.HOSTED
    group.rules.adoption = "never"
    assert group.take(NoMembers(), 0).mode is Mode.FORWARDED
    group.rules.adoption = "manual"
    group.record_log(is_adopted=False, release=None)
    assert group.take(NoMembers(), 0).mode is Mode.FORWARDED


def test_an_adopted_group_is_forwarded_while_the_cluster_has_consumers_of_it() -> None:
    """One warning says so each time."""
    group = routing(host=())
    group.record_log(is_adopted=True, release=None)
    for _ in range(2):
        assert group.take(DIRECT, 0).mode is Mode.FORWARDED
    assert lines(group) == ["adopted_group_forwarded", "group_forwarded"]
    assert group.take(NoMembers(), 0).mode is Mode.HOSTED
    group.host("it has no members in the cluster")
    group.take(DIRECT, 0)
    assert lines(group)[3:] == ["adopted_group_forwarded", "group_forwarded"]


@pytest.mark.parametrize(
    ("takes_natives", "has_native_join", "mode"),
    [
        (False, True, Mode.HOSTED),
        (False, False, Mode.FORWARDED),
        (True, True, Mode.FORWARDED),
    ],
)
def test_a_first_member_that_the_cluster_cannot_serve_is_hosted(
    mode: Mode, *, takes_natives: bool, has_native_join: bool
) -> None:
    """Whose protocol is new, in front of a cluster without it."""
    group = routing(host=())
    outcome = NoMembers(takes_natives=takes_natives)
    assert group.take(outcome, 0, has_native_join=has_native_join).mode is mode


def test_the_new_protocol_does_not_take_a_group_that_may_have_owners_elsewhere() -> None:
    """Members of another gateway may still consume."""
    group = routing(host=())
    group.take(OTHER_LOGS, 0)
    assert group.take(NoMembers(takes_natives=False), 1, has_native_join=True).mode is Mode.UNKNOWN
    assert group.take(NoMembers(), 1).mode is Mode.UNKNOWN
