"""The steps of one adoption, against answers of a coordinator that does what the test says."""

from dataclasses import replace

import pytest

from coordinator.interface.events import AdoptionEnded, AdoptionMoved
from gateway.hosting.adoption import (
    HEARTBEATS_AT_ONCE_MAX,
    HOLD_MAX_MS,
    LOOK_AGAIN_MS,
)
from gateway.hosting.effects import Describe, Requester
from gateway.hosting.identity import AnchorIds
from gateway.hosting.moving import BACKOFF_MS
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from gateway.hosting.upstream_member import HEARTBEAT_INTERVAL_MS
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.hosting.adoption_script import (
    ANCHOR,
    ANNOUNCED,
    OK,
    ROUND,
    Script,
    join_refusal,
    join_response,
    leave_response,
)
from tests.support.adoption import (
    GENERATION,
    JOIN_METADATA,
    A,
    B,
    cluster_description,
    watched_group,
)


@pytest.fixture
def script() -> Script:
    return Script()


def resuming(locked: int | None = None) -> Script:
    script = Script(replace(ANNOUNCED, lock_generation=locked))
    script.start()
    script.took(Describe)
    return script


# -- the whole way ---------------------------------------------------------------------------------


def test_the_engine_takes_over_once_only_the_anchor_is_in_the_group(script: Script) -> None:
    script.to_handing_over()
    assert isinstance(script.asked[Requester.LEADER], LeaveGroupRequest)
    script.answer(Requester.LEADER, leave_response())
    script.answer(Requester.ANCHOR, join_response(10, member_id=ANCHOR))
    assert isinstance(script.asked[Requester.ANCHOR], SyncGroupRequest)
    script.now_ms += 40
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)
    assert script.adopting.anchor_ids == AnchorIds(
        member_id=ANCHOR, generation=10, instance_id=JOIN_METADATA.instance_id
    )
    assert script.makes(GroupSituation.HELD)
    script.store()
    assert script.is_at(Stage.ADOPTED)
    assert script.makes(None)
    assert script.adopting.held_ms == 40
    assert script.adopting.next_ms() is None


def test_requests_are_relayed_until_the_adoption_is_in_the_log(script: Script) -> None:
    script.start()
    assert script.makes(GroupSituation.PROPOSED)
    for _ in range(2):
        script.took(Describe)
        script.describe(cluster_description(), watched_group())
    assert script.makes(GroupSituation.PROPOSED)
    script.store()
    assert script.makes(GroupSituation.HELD)
    assert not script.asked, "requests are under way"


def test_a_single_member_needs_nobody_to_leave() -> None:
    script = Script()
    alone = cluster_description(members=cluster_description().members[:1])
    script.start()
    for _ in range(2):
        script.took(Describe)
        script.describe(alone, watched_group())
    script.store()
    script.drain()
    script.beat()
    assert Requester.OTHERS not in script.asked
    script.answer(Requester.LEADER, join_response(8))
    assert script.is_at(Stage.LOCKING)
    assert [protocol.name for protocol in script.asked[Requester.LEADER].protocols] == [
        JOIN_METADATA.protocol
    ]


# -- before anything is changed --------------------------------------------------------------------


def test_a_group_with_a_member_outside_is_left_alone(script: Script) -> None:
    script.start()
    script.describe(cluster_description(), watched_group(b={"heartbeat_ms": None}))
    assert script.is_at(Stage.UNDONE)
    assert B in script.adopting.reasons[0]
    assert script.adopting.is_over


def test_a_group_that_changes_between_two_looks_is_left_alone(script: Script) -> None:
    script.start()
    script.describe(cluster_description(), watched_group())
    script.describe(cluster_description(), replace(watched_group(), generation=GENERATION + 1))
    assert script.adopting.reasons == ("it changed between two looks",)


def test_a_group_that_the_cluster_does_not_describe_is_left_alone(script: Script) -> None:
    script.start()
    script.describe(None)
    assert script.is_at(Stage.UNDONE)


def test_an_adoption_that_the_log_may_have_is_erased(script: Script) -> None:
    script.start()
    for _ in range(2):
        script.describe(cluster_description(), watched_group())
    script.effects.clear()
    script.store(is_durable=False)
    assert script.is_at(Stage.FORGETTING)
    assert script.took(AdoptionMoved).adoption is None
    script.store(is_durable=False)
    assert not script.effects
    script.wait(BACKOFF_MS)
    script.took(AdoptionMoved)
    script.store()
    assert script.is_at(Stage.UNDONE)


def test_a_member_that_the_cluster_does_not_know_ends_it(script: Script) -> None:
    script.to_impersonating()
    script.beat(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert script.is_at(Stage.FORGETTING)
    assert "UNKNOWN_MEMBER_ID" in script.adopting.reason


def test_an_outsider_that_has_begun_to_join_ends_it_without_a_trace(script: Script) -> None:
    script.to_impersonating()
    script.beat(ROUND)
    assert script.is_at(Stage.FORGETTING)


def test_heartbeats_succeed_only_while_the_group_is_guarded(script: Script) -> None:
    """Until then the cluster may remove a member that believes it is still in the group."""
    script.to_impersonating()
    assert not script.adopting.vouches
    script.beat()
    script.beat()
    assert script.is_at(Stage.REJOINING)
    assert script.adopting.vouches


# -- the lock --------------------------------------------------------------------------------------


def test_nobody_leaves_before_the_leaders_join_has_begun_a_round(script: Script) -> None:
    script.to_rejoining()
    assert isinstance(script.asked[Requester.LEADER], JoinGroupRequest)
    assert isinstance(script.asked[Requester.OTHERS], HeartbeatRequest)
    script.answer(Requester.OTHERS, OK)
    assert Requester.OTHERS not in script.asked
    script.wait(LOOK_AGAIN_MS)
    assert isinstance(script.asked[Requester.OTHERS], HeartbeatRequest)


def test_no_member_leaves_if_another_one_began_the_round(script: Script) -> None:
    script.to_rejoining()
    script.answer(Requester.OTHERS, ROUND)
    group = cluster_description()
    outsider = replace(group.members[0], member_id="o-1")
    script.describe(replace(group, members=(*group.members, outsider)))
    assert script.is_at(Stage.GIVING_BACK)


def test_a_refused_first_join_leaves_the_group_as_it_was(script: Script) -> None:
    script.to_rejoining()
    script.answer(Requester.LEADER, join_refusal(ErrorCode.INVALID_SESSION_TIMEOUT))
    assert script.is_at(Stage.FORGETTING)
    assert "INVALID_SESSION_TIMEOUT" in script.adopting.reason
    assert "raise the cluster's group.max.session.timeout.ms to 20000" in script.adopting.reason


@pytest.mark.parametrize(
    "answer",
    [
        join_response(8, A, "o-1"),
        join_response(8, leader="o-1"),
        join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=["an outsider is there", "an outsider leads", "refused"],
)
def test_an_outsider_in_the_first_round_has_it_undone(
    script: Script, answer: JoinGroupResponse
) -> None:
    script.to_releasing()
    script.answer(Requester.OTHERS, leave_response())
    script.answer(Requester.LEADER, answer)
    assert script.is_at(Stage.GIVING_BACK)


def test_an_outsider_in_the_second_round_has_it_undone(script: Script) -> None:
    script.to_locking()
    script.answer(Requester.LEADER, join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    assert script.is_at(Stage.GIVING_BACK)


def test_a_member_that_has_gone_by_itself_counts_as_having_left(script: Script) -> None:
    script.to_releasing()
    script.answer(Requester.OTHERS, leave_response(ErrorCode.UNKNOWN_MEMBER_ID))
    script.answer(Requester.LEADER, join_response(8))
    assert script.is_at(Stage.LOCKING)


def test_a_member_that_could_not_leave_has_it_undone(script: Script) -> None:
    """The member would meet the anchor in one group."""
    script.to_releasing()
    script.answer(Requester.OTHERS, leave_response(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert script.is_at(Stage.GIVING_BACK)


def test_calls_are_held_for_a_bounded_time(script: Script) -> None:
    script.to_releasing()
    script.answer(Requester.OTHERS, leave_response())
    script.wait(HOLD_MAX_MS - 1)
    assert script.is_at(Stage.RELEASING)
    script.wait(1)
    assert script.is_at(Stage.GIVING_BACK)
    assert str(HOLD_MAX_MS) in script.adopting.reason


# -- the anchor ------------------------------------------------------------------------------------


def test_the_leaders_member_stays_until_the_anchor_waits_in_the_group(script: Script) -> None:
    """Without a member, the cluster would admit any consumer."""
    script.to_anchoring()
    assert script.asked[Requester.ANCHOR].group_instance_id == JOIN_METADATA.instance_id
    script.answer(Requester.LEADER, OK)
    script.wait(LOOK_AGAIN_MS)
    assert isinstance(script.asked[Requester.LEADER], HeartbeatRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REBALANCE_IN_PROGRESS])
def test_the_anchor_joins_again_after_a_native_consumer_disturbed_it(
    script: Script, code: ErrorCode
) -> None:
    script.to_handing_over()
    script.answer(Requester.ANCHOR, join_refusal(code))
    script.wait(LOOK_AGAIN_MS)
    assert isinstance(script.asked[Requester.ANCHOR], JoinGroupRequest)
    assert script.is_at(Stage.HANDING_OVER)


def test_the_leaders_member_leaves_again_if_the_anchor_gets_no_answer(script: Script) -> None:
    """Another coordinator may have loaded the locked group, with the leader's member in it."""
    script.to_handing_over()
    script.answer(Requester.LEADER, leave_response())
    script.fail(Requester.ANCHOR)
    assert not script.adopting.vouches
    script.wait(BACKOFF_MS)
    assert isinstance(script.asked[Requester.LEADER], HeartbeatRequest)
    assert isinstance(script.asked[Requester.ANCHOR], JoinGroupRequest)
    script.answer(Requester.LEADER, OK)
    assert Requester.LEADER not in script.asked, "the anchor does not wait there yet"
    script.wait(LOOK_AGAIN_MS)
    script.answer(Requester.LEADER, ROUND)
    assert isinstance(script.asked[Requester.LEADER], LeaveGroupRequest)
    script.answer(Requester.LEADER, leave_response())
    script.answer(Requester.ANCHOR, join_response(11, member_id=ANCHOR))
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)
    assert script.adopting.vouches


def test_an_anchor_that_took_an_earlier_ones_place_joins_again(script: Script) -> None:
    script.to_handing_over()
    script.answer(Requester.LEADER, leave_response())
    script.answer(Requester.ANCHOR, join_response(10, member_id=ANCHOR, skip_assignment=True))
    assert script.asked[Requester.ANCHOR].member_id == ANCHOR


def test_after_the_leaders_member_has_left_there_is_only_a_way_forward(script: Script) -> None:
    script.to_handing_over()
    script.fail(Requester.LEADER)
    script.fail(Requester.ANCHOR)
    script.wait(HOLD_MAX_MS)
    assert script.is_at(Stage.HANDING_OVER)
    assert isinstance(script.asked[Requester.ANCHOR], JoinGroupRequest)
    gone = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    script.answer(Requester.LEADER, gone)
    script.answer(Requester.ANCHOR, join_response(10, member_id=ANCHOR))
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)


def taking_over(script: Script) -> None:
    script.to_handing_over()
    script.answer(Requester.LEADER, leave_response())
    script.answer(Requester.ANCHOR, join_response(10, member_id=ANCHOR))
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)


def test_the_anchor_keeps_its_place_while_the_log_is_away(script: Script) -> None:
    """Its session is shorter than a log may be away, in the middle of a write or between two."""
    taking_over(script)
    for _ in range(30):
        script.wait(HEARTBEAT_INTERVAL_MS)
        assert script.asked[Requester.ANCHOR].member_id == ANCHOR
        script.answer(Requester.ANCHOR, OK)
    script.store(is_durable=False)
    for _ in range(30):
        script.wait(HEARTBEAT_INTERVAL_MS)
        script.effects.clear()
        script.store(is_durable=False)
        assert script.asked[Requester.ANCHOR].generation_id == 10
        script.answer(Requester.ANCHOR, OK)
    script.wait(HEARTBEAT_INTERVAL_MS)
    script.took(AdoptionEnded)
    script.store()
    assert script.is_at(Stage.ADOPTED)


def test_heartbeats_do_not_succeed_while_the_anchor_may_have_lost_the_group(script: Script) -> None:
    """The engine takes over all the same; the anchor then finds out who has the group."""
    taking_over(script)
    script.wait(HEARTBEAT_INTERVAL_MS)
    script.answer(Requester.ANCHOR, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert not script.adopting.vouches
    script.store()
    assert script.is_at(Stage.ADOPTED)


def test_few_heartbeats_of_members_are_on_their_way_at_a_time() -> None:
    members = tuple(
        replace(cluster_description().members[0], member_id=f"m-{n}") for n in range(100)
    )
    latest = next(iter(watched_group().members.values()))
    many = replace(
        watched_group(),
        leader_id="m-0",
        members={e.member_id: replace(latest, member_id=e.member_id) for e in members},
    )
    group = cluster_description(
        members=tuple(replace(member, member_assignment=b"") for member in members),
    )
    script = Script()
    script.start()
    script.describe(group, many)
    script.describe(group, many)
    script.store()
    script.drain()
    heard: list[str] = []
    while script.beats:
        assert len(script.beats) == min(HEARTBEATS_AT_ONCE_MAX, 100 - len(heard))
        heard.append(script.beats[0])
        script.beat()
    assert sorted(heard) == sorted(member.member_id for member in members)
    assert script.is_at(Stage.REJOINING)


def test_a_failed_take_over_is_repeated(script: Script) -> None:
    script.to_handing_over()
    script.answer(Requester.LEADER, leave_response())
    script.answer(Requester.ANCHOR, join_response(10, member_id=ANCHOR))
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)
    script.store(is_durable=False)
    script.wait(BACKOFF_MS)
    script.took(AdoptionEnded)


# -- after a restart -------------------------------------------------------------------------------


def members(*there: str) -> DescribedGroup:
    template = cluster_description().members[0]
    return cluster_description(members=tuple(replace(template, member_id=m) for m in there))


def test_a_restart_before_the_lock_gives_the_group_back() -> None:
    script = resuming()
    assert script.makes(GroupSituation.HELD)
    script.describe(members(A, B))
    assert script.is_at(Stage.GIVING_BACK)
    assert isinstance(script.asked[Requester.LEADER], JoinGroupRequest)


@pytest.mark.parametrize("there", [(A,), (A, ANCHOR)])
def test_a_restart_continues_with_a_locked_group(there: tuple[str, ...]) -> None:
    script = resuming(locked=9)
    script.describe(members(*there))
    assert script.is_at(Stage.ANCHORING)
    assert script.asked[Requester.LEADER].generation_id == 9


def test_commits_under_a_guard_wait_for_a_generation_that_no_earlier_process_knew() -> None:
    """The cluster may still store what that one has sent, after what is sent now."""
    script = resuming(locked=9)
    script.describe(members(A))
    script.answer(Requester.ANCHOR, join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED))
    assert script.is_at(Stage.GIVING_BACK)
    assert script.adopting.guard is None
    script.answer(Requester.LEADER, OK)  # to the heartbeat that was under way
    assert script.adopting.guard is None
    assert isinstance(script.asked[Requester.LEADER], JoinGroupRequest)
    script.answer(Requester.LEADER, join_response(10))
    script.answer(Requester.LEADER, SyncGroupResponse())
    assert script.adopting.guard == AnchorIds(member_id=A, generation=10, instance_id="")


def test_a_restart_takes_over_from_its_own_anchor() -> None:
    script = resuming(locked=9)
    script.describe(members(ANCHOR))
    assert script.is_at(Stage.HANDING_OVER)
    script.answer(
        Requester.ANCHOR,
        join_response(10, member_id=f"{JOIN_METADATA.instance_id}-2", skip_assignment=True),
    )
    script.answer(Requester.ANCHOR, join_response(11, member_id=f"{JOIN_METADATA.instance_id}-2"))
    script.answer(Requester.ANCHOR, SyncGroupResponse())
    script.took(AdoptionEnded)


def test_others_may_have_had_the_group_if_a_generation_is_missing() -> None:
    script = resuming(locked=9)
    script.describe(members(ANCHOR))
    script.answer(
        Requester.ANCHOR,
        join_response(12, member_id=f"{JOIN_METADATA.instance_id}-2", skip_assignment=True),
    )
    script.answer(Requester.ANCHOR, join_response(13, member_id=f"{JOIN_METADATA.instance_id}-2"))
    assert script.is_at(Stage.GIVING_BACK)


def test_a_restart_asks_again_until_the_cluster_describes_the_group() -> None:
    script = resuming(locked=9)
    script.describe(None)
    assert not script.effects
    script.wait(BACKOFF_MS)
    script.took(Describe)


def test_an_undoing_asks_all_members_to_leave_again_after_no_answer() -> None:
    script = resuming()
    script.describe(members(A, B))
    script.fail(Requester.LEADER)
    script.gave_up_all()
    first = script.asked[Requester.OTHERS]
    script.fail(Requester.OTHERS)
    script.wait(BACKOFF_MS)
    again = script.asked[Requester.OTHERS]
    assert isinstance(again, LeaveGroupRequest)
    assert again == first
