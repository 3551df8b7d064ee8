"""Who answers a call: the group here or the cluster."""

import pytest

from coordinator.interface.replies import ClaimReply
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Forwarded, LocateCoordinator, Refused
from gateway.hosting.effects import AskCoordinator, Load, Look, Write
from gateway.hosting.forwarded import Client
from gateway.hosting.group_routing import FORWARDED_FOR_MS, NOT_ADOPTED
from gateway.hosting.inputs import Relayed, Resumed, SeenForeign
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, NoMembers
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.hosted_scene import DIRECT, HostedScene, anchored, cause_of, error_of


def test_a_group_with_members_in_the_cluster_is_left_to_it(on: HostedScene) -> None:
    """Consumers of both protocols join its members there. An event says why, once."""
    on.found = DIRECT
    calls = (on.native("n"), on.join(), on.native("n", 3), on.beat("m", 1), on.leave("m"))
    for call in (*calls, on.sync("m", 1), on.commit()):
        assert isinstance(call.answer, Forwarded)
        assert "payments" in call.answer.reason
    assert on.count(Load) == on.count(AskCoordinator) == 0
    assert on.group.is_idle
    assert [event.name for event in on.events] == ["group_forwarded"]


def test_a_forwarded_group_is_hosted_once_its_last_member_has_left(on: HostedScene) -> None:
    """The next join sees it empty. Both turns are reported with their reasons."""
    on.found = DIRECT
    on.join()
    on.found = None
    on.native_member()
    names = [event.name for event in on.events]
    assert names[:2] == ["group_forwarded", "hosting_started"]
    assert on.events_named("hosting_started")[0]["reason"] == "it has no members in the cluster"


def test_a_rejoin_to_a_forwarded_group_needs_no_look(on: HostedScene) -> None:
    """All members rejoin in a rebalance. A new member's join looks, because the group may have
    become empty."""
    on.found = DIRECT
    on.join()
    looks = on.count(Look)
    assert isinstance(on.join("m").answer, Forwarded)
    assert on.count(Look) == looks
    on.join()
    on.native("n")
    assert on.count(Look) == looks + 2


def test_a_forwarded_group_is_watched_until_it_is_hosted(on: HostedScene) -> None:
    """A look tells who is in it after a restart; a silent cluster takes nothing away."""
    member = DescribedGroupMember(
        member_id="m",
        client_id="payments",
        client_host="/10.0.0.2",
        member_metadata=b"",
        member_assignment=b"",
    )
    group = DescribedGroup(group_id=on.group.group_id, group_state="Stable", members=(member,))
    on.found = LiveMembers("consumer", ("payments",), "range", described=group)
    on.beat("m", 3)
    beat = HeartbeatRequest(group_id=on.group.group_id, generation_id=3, member_id="m")
    client = Client(client_id="payments", client_host="/10.0.0.1")
    on.feed(Relayed(client, beat, HeartbeatResponse()))
    on.wait(FORWARDED_FOR_MS)
    on.found = LookupFailed("nobody listens")
    on.beat("m", 3)
    watched = on.rules.watched.group(on.group.group_id)
    assert watched is not None
    assert (watched.generation, set(watched.members)) == (3, {"m"})
    on.found = None
    on.native_member()
    assert on.rules.watched.group(on.group.group_id) is None


def test_the_log_is_asked_before_the_cluster(live: HostedScene) -> None:
    """After a restart the group has its members there."""
    again = live.restart()
    again.hold(Load)
    again.feed(Resumed())
    joining, committing = again.native("m"), again.commit("n", 2)
    assert again.count(Look) == 0
    assert joining.answer is None
    assert committing.answer is None
    again.release(Load)
    assert again.group.is_live
    assert again.events_named("hosting_started")[0]["reason"] == "its members are in the state log"
    again.wait(1_000)
    assert again.events_named("anchor_joined") == [
        {"anchor_generation": again.in_cluster.generation}
    ]


def test_where_nothing_is_adopted_the_cluster_keeps_empty_groups() -> None:
    """A group that is hosted already stays here, also while its anchor is lost."""
    on = HostedScene(adoption="never")
    assert isinstance(on.native("n").answer, Forwarded)
    assert "groups.adopt" in on.events_named("group_forwarded")[0]["reason"]
    here = HostedScene()
    here.native_member()
    again = here.restart(adoption="never")
    again.feed(Resumed())
    assert error_of(again.native("n", 2)) is ErrorCode.NONE
    again.in_cluster.remove_member()
    again.found = NoMembers()
    again.wait(10_000)
    assert again.group.is_live
    assert again.in_cluster.member_id


def test_a_group_of_another_gateway_is_refused(on: HostedScene) -> None:
    """The reason names it. Admin tools ask the cluster."""
    on.found = anchored("log-2", 2)
    call = on.native("n")
    assert cause_of(call) is RefusalReason.ELSEWHERE
    assert isinstance(call.answer, Refused)
    assert "log-2" in call.answer.reason
    assert on.in_cluster.joins == 0


def test_nobody_answers_while_the_cluster_is_silent(on: HostedScene) -> None:
    """The group may have members in the cluster. Each request asks again."""
    on.found = LookupFailed("nobody listens")
    for _ in range(2):
        assert cause_of(on.native("n")) is RefusalReason.HOLDER_UNKNOWN
        assert cause_of(on.commit()) is RefusalReason.HOLDER_UNKNOWN
    assert on.count(Look) == 4


def test_a_configured_group_is_forwarded_without_a_look() -> None:
    """Whatever the request."""
    on = HostedScene(forward=("ord*",))
    for call in (on.native("n"), on.join(), on.beat("m", 1), on.commit()):
        assert isinstance(call.answer, Forwarded)
    assert on.done == []


def test_a_group_with_members_here_stays_here(live: HostedScene) -> None:
    """Their requests ask the cluster nothing, even if it is silent."""
    live.found = LookupFailed("nobody listens")
    looks = live.count(Look)
    assert error_of(live.native("n", 2)) is ErrorCode.NONE
    assert error_of(live.native("m")) is ErrorCode.NONE
    assert live.count(Look) == looks


def test_many_requests_share_a_look(on: HostedScene) -> None:
    """All of them get its verdict."""
    on.hold(Look)
    calls = [on.commit() for _ in range(20)]
    assert on.waits(Look) == 1
    on.release(Look)
    assert on.count(Look) == 1
    assert all(call.answer for call in calls)


def test_a_request_that_cannot_add_a_member_trusts_a_recent_look(on: HostedScene) -> None:
    """A join needs a look of its own, once the engine has found nothing wrong with it."""
    on.commit()
    on.commit()
    assert on.count(Look) == 1
    on.native("n")
    assert on.count(Look) == 2


def test_a_foreign_join_is_forwarded_and_the_anchor_leaves_first(on: HostedScene) -> None:
    """The group is empty here and may take any protocol."""
    on.native_member()
    on.native("n", -1)
    assert on.in_cluster.member_id
    call = on.join(protocol_type="connect", is_foreign=True)
    assert isinstance(call.answer, Forwarded)
    assert not on.in_cluster.member_id
    on.feed(SeenForeign("it uses the protocol connect/v1"))
    assert isinstance(on.commit().answer, Forwarded)
    assert [event.name for event in on.events][-1] == "group_forwarded"


def test_a_foreign_join_to_a_live_group_is_the_engines_to_refuse(live: HostedScene) -> None:
    """The group stays here."""
    assert error_of(live.join(protocol_type="connect", is_foreign=True)) is not ErrorCode.NONE
    assert live.in_cluster.member_id


@pytest.mark.parametrize(
    ("is_there", "cause"),
    [(False, RefusalReason.NOT_AT_COORDINATOR), (None, RefusalReason.COORDINATOR_UNKNOWN)],
)
def test_a_client_elsewhere_is_sent_to_the_coordinator(
    on: HostedScene, is_there: bool | None, cause: RefusalReason
) -> None:
    """Before the engine or the anchor hears of it."""
    on.is_at_coordinator = is_there
    for call in (
        on.native("n", is_at_coordinator=None),
        on.beat("m", 1, is_at_coordinator=None),
        on.commits(("", -1, None), is_at_coordinator=None),
    ):
        assert cause_of(call) is cause
    assert on.count(LocateCoordinator) == 3
    assert on.count(AskCoordinator) == on.count(Write) == 0
    assert on.group.is_idle


# -- groups that are empty for a moment ------------------------------------------------------------


def test_an_empty_group_is_left_to_the_cluster_until_it_is_adopted() -> None:
    """Its other consumers may not be behind the gateway yet. Its next join here hosts it then, also
    after it has become empty and after a restart."""
    on = HostedScene(host=())
    for call in (on.join(), on.native("n"), on.commit()):
        assert call.answer == Forwarded(NOT_ADOPTED)
    assert on.count(Write) == on.count(AskCoordinator) == 0
    assert on.claim().answer == ClaimReply()
    on.group.routing.forget("it was adopted")
    on.native_member()
    on.native("n", -1)
    assert error_of(on.native("n")) is ErrorCode.NONE
    on.native("n", -1)
    again = on.restart(host=())
    again.in_cluster.remove_member()
    again.feed(Resumed())
    assert error_of(again.native("n")) is ErrorCode.NONE


def test_an_adopted_group_that_is_deleted_is_left_to_the_cluster() -> None:
    on = HostedScene(host=())
    on.claim()
    on.delete()
    on.in_cluster.remove_member()
    assert on.join().answer == Forwarded(NOT_ADOPTED)


def test_what_a_setting_has_begun_does_not_outlive_the_setting(on: HostedScene) -> None:
    """Empty groups go back to the cluster with the next process; live ones stay."""
    on.native_member()
    again = on.restart(host=())
    again.feed(Resumed())
    assert error_of(again.native("n2")) is ErrorCode.NONE
    again.native("n2", -1)
    again.native("n", -1)
    again.in_cluster.remove_member()
    later = again.restart(host=())
    later.feed(Resumed())
    assert later.join().answer == Forwarded(NOT_ADOPTED)


def test_a_native_consumer_begins_a_group_that_the_cluster_could_not_serve() -> None:
    """The group counts as adopted from then on, or classic consumers that come back first would
    keep the native ones out. A refused one begins nothing."""
    on = HostedScene(host=())
    on.found = NoMembers(takes_natives=False)
    assert error_of(on.native("")) is not ErrorCode.NONE
    assert on.join().answer == Forwarded(NOT_ADOPTED)
    on.native_member()
    (event,) = on.events_named("hosting_started")
    assert "new protocol" in event["reason"]
    on.native("n", -1)
    on.in_cluster.remove_member()
    on.found = None
    assert not isinstance(on.join().answer, Forwarded)


def test_only_a_join_of_its_own_begins_a_group_with_the_new_protocol() -> None:
    """A late heartbeat does not."""
    on = HostedScene(host=())
    on.found = NoMembers(takes_natives=False)
    assert on.native("n", 3).answer == Forwarded(NOT_ADOPTED)
