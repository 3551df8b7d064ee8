"""One group when another member or gateway holds it in the cluster."""

from collections.abc import Mapping

from coordinator.interface.replies import ConsumerHeartbeatReply
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Refused, StoreCommits
from gateway.hosting.effects import AskCoordinator, Look
from gateway.hosting.identity import unreadable_subscription
from gateway.hosting.inputs import Done, Resumed
from gateway.hosting.lookup_outcome import LookupFailed
from gateway.hosting.states import Stage
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.coordinator import FakeGroup
from tests.support.hosted_scene import (
    HostedScene,
    cause_of,
    error_of,
)


def test_members_are_fenced_when_another_member_holds_the_group(live: HostedScene) -> None:
    """Two coordinators would assign the partitions twice. An event names the holder."""
    live.coordinator.groups[live.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="intruder", is_synced=True
    )
    live.wait(10_000)
    assert not live.group.is_live
    (event,) = live.events_named("group_taken")
    assert "intruder" in str(event["reason"])
    assert live.events_named("hosting_ended") == [{"cause": "taken"}]
    names = [event.name for event in live.events]
    assert names.index("hosting_ended") > max(
        names.index(name) for name in ("group_taken", "grant_ended", "member_fenced")
    )
    assert live.in_cluster.member_id == "intruder"
    assert not isinstance(live.native("n", 2).answer, ConsumerHeartbeatReply)


def test_a_newer_gateway_with_our_log_keeps_the_group(live: HostedScene) -> None:
    """If two gateways took it in turn, both would grant partitions."""
    live.in_cluster.member_id = "groupferry-anchor-newer"
    live.in_cluster.metadata = unreadable_subscription(2)
    live.wait(10_000)
    assert not live.group.is_live
    assert live.in_cluster.member_id == "groupferry-anchor-newer"
    assert cause_of(live.native("n")) is RefusalReason.ELSEWHERE


def test_a_gateway_of_the_fleet_continues_with_the_group_in_silence(live: HostedScene) -> None:
    """The state log says who has the group, and fences this gateway, which admits no members until
    then."""
    live.group.routing.rules.shares_log = True
    live.in_cluster.member_id = "groupferry-anchor-newer"
    live.in_cluster.metadata = unreadable_subscription(2)
    live.wait(10_000)
    assert live.events_named("group_taken") == live.events_named("member_fenced") == []
    assert live.in_cluster.member_id == "groupferry-anchor-newer"
    assert not isinstance(live.native("another").answer, ConsumerHeartbeatReply)


def test_a_consumer_that_came_and_left_unseen_has_had_the_group(live: HostedScene) -> None:
    """The consumer may have committed further than the members, so they are fenced before their
    commits could take the offsets back. The anchor keeps the group."""
    live.hold(StoreCommits)
    commit = live.commit("n", 2)
    live.in_cluster.remove_member()
    live.in_cluster.generation += 1  # the consumer joins
    live.in_cluster.generation += 1  # and leaves
    live.release(StoreCommits)
    live.wait(5_000)
    assert isinstance(commit.answer, Mapping)
    (outcome,) = commit.answer.values()
    assert outcome.refused is not None
    assert error_of(live.native("n", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert "has left" in live.events_named("group_taken")[0]["reason"]
    assert live.native_member().assignment


def test_a_loss_before_the_group_was_hosted_does_not_end_its_hosting(on: HostedScene) -> None:
    """The anchor was there for a client that asked for an id, and lost the group meanwhile."""
    on.join()
    on.in_cluster.remove_member()
    on.in_cluster.generation += 2 * GENERATIONS_OF_A_CONSUMER
    on.wait(10_000)
    on.native_member()
    on.native("n", -1)
    assert on.events_named("hosting_ended") == []
    on.wait(120_000)
    assert [event["cause"] for event in on.events_named("hosting_ended")] == ["forgotten"]


def test_a_group_that_begins_again_in_the_cluster_names_its_generations(live: HostedScene) -> None:
    """Its coordinator answered without the group's records, as while it loads. The members are
    fenced, because others may have had the group, but no line says that one has it."""
    live.coordinator.groups[live.group.group_id] = FakeGroup()
    live.wait(5_000)
    assert live.events_named("group_taken") == []
    (event,) = live.events_named("generation_went_back")
    assert event["generation_before"] >= event["generation"]
    assert error_of(live.native("n", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [fenced["cause"] for fenced in live.events_named("member_fenced")] == [
        "generation_went_back"
    ]
    assert live.events_named("hosting_ended") == [{"cause": "anchor_lost"}]
    assert live.native_member().assignment


def test_the_removal_of_the_anchor_alone_fences_nobody(live: HostedScene) -> None:
    """The anchor rejoins before any other member comes."""
    live.in_cluster.remove_member()
    live.wait(5_000)
    assert live.group.is_live
    assert live.events_named("group_taken") == []


def test_a_grant_decided_before_another_member_had_the_group_is_withheld(
    live: HostedScene,
) -> None:
    """Its partitions may go to others once the members are fenced."""
    live.hold(AskCoordinator)
    joining = live.native("m")
    assert joining.stage is Stage.CONFIRMING
    live.in_cluster.remove_member()
    live.in_cluster.generation += 2
    live.release(AskCoordinator)
    live.wait(5_000)
    assert cause_of(joining) is RefusalReason.NOT_ANCHORED


def test_a_late_join_of_a_killed_gateway_does_not_take_the_group(live: HostedScene) -> None:
    """The broker handles it after this gateway has taken its place. No process sends requests for
    that member, so the members would otherwise be without a group until its session ends."""
    live.in_cluster.member_id = "groupferry-anchor-late"
    live.in_cluster.metadata = unreadable_subscription(0)
    live.wait(10_000)
    assert live.group.is_live
    assert live.in_cluster.member_id != "groupferry-anchor-late"
    assert live.events_named("group_taken") == []
    assert live.native("n", 2).answer


def test_a_look_that_began_before_the_anchor_was_replaced_does_not_count() -> None:
    """The look saw our own anchor, and the join would take the group back from a newer gateway."""
    on = HostedScene()
    on.native_member()
    on.native("n", -1)
    on.wait(6_000)
    on.hold(Look)
    joining = on.native("n")
    assert on.waits(Look) == 1
    seen = on.coordinator.look(on.group.group_id)
    on.in_cluster.member_id = "groupferry-anchor-newer"
    on.in_cluster.metadata = unreadable_subscription(2)
    on.wait(3_000)
    assert on.group.anchor.wants_look
    on.feed(Done(on.take(Look), seen))
    on.release(Look)
    on.wait(20_000)
    assert on.in_cluster.member_id == "groupferry-anchor-newer"
    assert joining.answer
    assert not on.group.is_live


def test_a_silent_cluster_takes_no_group_away(live: HostedScene) -> None:
    """Fencing the members because of a short outage would stop them needlessly."""
    live.in_cluster.member_id = "groupferry-anchor-newer"
    live.found = LookupFailed("no broker answers")
    for _ in range(10):
        live.wait(3_000)
        live.native("n", 2)
    assert live.group.is_live
    assert live.events_named("group_taken") == []


def test_losing_a_group_without_members_is_not_reported(on: HostedScene) -> None:
    """No client loses anything."""
    on.native_member()
    on.native("n", -1)
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="c", is_synced=True
    )
    on.wait(100_000)
    assert on.events_named("group_taken") == []
    assert on.group.is_idle


def test_members_in_the_log_wait_while_an_anchor_of_version_0_2_is_in_the_cluster(
    live: HostedScene,
) -> None:
    """One line says so, and no member is fenced: once that anchor has left, they continue."""
    again = live.restart()
    group = again.in_cluster
    group.protocol_type, group.protocol, group.metadata = "groupferry", "log-1", b"run 1"
    group.instance_id = "groupferry"
    again.feed(Resumed())
    refused = again.commit("n", 2)
    again.wait(10_000)
    assert again.log_names().count("older_anchor") == 1
    assert isinstance(refused.answer, Refused | Mapping)
    assert again.group.is_live
    assert group.protocol_type == "groupferry"
    group.remove_member()
    again.wait(5_000)
    commit = again.commit("n", 2)
    again.wait(5_000)
    assert isinstance(commit.answer, Mapping)
    (outcome,) = commit.answer.values()
    assert outcome.refused is None
    assert again.in_cluster.protocol_type == "consumer"
    assert again.events_named("group_taken") == []
