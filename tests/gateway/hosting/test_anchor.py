"""One anchor takes, keeps and loses its group. test_promises_with_kafka.py uses real brokers."""

from dataclasses import replace
from itertools import pairwise

import pytest

from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.hosting.anchor import (
    ABOUT_THE_ANCHOR,
    GENERATIONS_OF_A_CONSUMER,
    NOT_JOINED,
    RENEWAL_INTERVAL_MS,
    SESSION_TIMEOUTS_MS,
)
from gateway.hosting.identity import AnchorIds, unreadable_subscription
from gateway.hosting.states import AnchorPhase, Mode
from gateway.hosting.upstream_member import (
    ANXIOUS_INTERVAL_MS,
    FIRST_BACKOFF_MS,
    HEARTBEAT_INTERVAL_MS,
    JOIN_REPEATS_MAX,
    LAST_BACKOFF_MS,
    OF_JOINS,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.hosting.anchor_stage import AnchorStage
from tests.simulation.coordinator import FakeGroup
from tests.support.hosted_scene import GROUP

SESSION_MS = SESSION_TIMEOUTS_MS[0]


@pytest.fixture
def on() -> AnchorStage:
    return AnchorStage()


# -- taking it -------------------------------------------------------------------------------------


def test_a_free_group_takes_one_join(on: AnchorStage) -> None:
    """The instance id is that of the log, and the metadata identifies the process."""
    ids = on.hold()
    assert ids == AnchorIds(member_id=on.group.member_id, generation=1)
    assert [type(ask.message) for _, ask in on.asked] == [JoinGroupRequest, SyncGroupRequest]
    (join,) = on.messages(JoinGroupRequest)
    assert isinstance(join, JoinGroupRequest)
    assert (join.protocol_type, join.group_instance_id) == ("consumer", "groupferry-anchor")
    assert [(protocol.name, protocol.metadata) for protocol in join.protocols] == [
        ("groupferry-log-1", unreadable_subscription(1))
    ]
    assert on.group.is_synced
    assert on.anchor.phase is AnchorPhase.STABLE


def test_nothing_is_asked_while_the_anchor_is_not_needed(on: AnchorStage) -> None:
    """No timer asks anything either."""
    on.wait(600_000)
    assert (on.asked, on.is_here, on.anchor.next_ms(is_live=False)) == ([], False, None)


def test_only_a_completed_generation_holds_the_group(on: AnchorStage) -> None:
    """A coordinator that fails over between join and sync forgets the anchor."""
    on.is_holding = True
    on.anchor.need(on.now_ms)
    on.run()
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    assert on.anchor.phase is AnchorPhase.SYNCING
    assert on.ids is None
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    assert on.ids is not None


@pytest.mark.parametrize(
    ("longest_ms", "session_ms"),
    [(300_000, 60_000), (60_000, 60_000), (50_000, 45_000), (30_000, 30_000), (15_000, 10_000)],
)
def test_the_session_is_the_longest_that_the_cluster_allows(
    on: AnchorStage, longest_ms: int, session_ms: int
) -> None:
    """After INVALID_SESSION_TIMEOUT the next shorter one is tried, and kept for the next join."""
    on.coordinator.longest_session_ms = longest_ms
    ids = on.hold()
    tried = len(on.messages(JoinGroupRequest))
    on.group.remove_member()
    on.doubt(ids)
    on.until_held()
    later = on.messages(JoinGroupRequest)[tried:]
    assert {getattr(join, "session_timeout_ms") for join in later} == {session_ms}  # noqa: B009


@pytest.mark.parametrize("code", sorted(OF_JOINS), ids=lambda code: ErrorCode(code).name)
def test_signs_of_other_members_cause_a_look(on: AnchorStage, code: ErrorCode) -> None:
    """The signs are consumers of either protocol, a group of another kind, and a full group."""
    on.coordinator.refuses_joins_with = code
    on.mode = Mode.FORWARDED
    on.anchor.need(on.now_ms)
    on.wait(1_000)
    assert on.looks == 1
    assert "another member is in the group" in on.anchor.reason
    assert on.anchor.has_given_way
    assert not on.is_here


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, 29]
)
def test_an_unavailable_coordinator_is_no_sign_of_other_members(on: AnchorStage, code: int) -> None:
    """The group may be free. The coordinator may have moved."""
    on.coordinator.refuses_joins_with = code
    on.anchor.need(on.now_ms)
    on.wait(5_000)
    assert on.looks == 0
    assert on.is_here
    assert "no usable answer" in on.anchor.reason
    assert all(ask.looks_up for _, ask in on.asked)


def test_an_anchor_that_joins_again_has_not_been_lost(on: AnchorStage) -> None:
    """Clients and operators see why the group is not held, and not what once happened to it."""
    on.doubt(on.hold())
    on.until_held()
    on.anchor.drop()
    on.run()
    assert not on.is_here
    on.anchor.need(on.now_ms)
    assert on.anchor.reason == NOT_JOINED


@pytest.mark.parametrize("protocol", [("consumer", "range"), ("consumer", "groupferry-log-2")])
def test_direct_members_are_not_displaced(on: AnchorStage, protocol: tuple[str, str]) -> None:
    """The cluster refuses the anchor. A look finds out who holds the group, and it gives way."""
    on.coordinator.groups[GROUP] = FakeGroup(
        protocol_type=protocol[0], protocol=protocol[1], member_id="theirs", is_synced=True
    )
    on.mode = Mode.FORWARDED
    on.anchor.need(on.now_ms)
    on.wait(1_000)
    assert on.looks == 1
    assert on.group.member_id == "theirs"
    assert not on.is_here


def test_an_anchor_that_does_not_lead_gives_no_ids(on: AnchorStage) -> None:
    """A member with the same protocol joined first."""
    on.is_holding = True
    on.anchor.need(on.now_ms)
    on.run()
    answer = on.coordinator.answer(on.take_ask().message)
    on.anchor.on_answer(replace(answer, leader="another"), on.now_ms)
    second = on.take_ask().message
    assert isinstance(second, JoinGroupRequest)
    assert second.member_id == answer.member_id
    on.anchor.on_answer(replace(on.coordinator.answer(second), leader="another"), on.now_ms)
    assert on.anchor.phase is AnchorPhase.LOST
    on.wait(LAST_BACKOFF_MS)
    assert on.anchor.wants_look


def test_a_group_with_members_but_no_anchor_is_looked_at_first(on: AnchorStage) -> None:
    """Another gateway may have taken it a moment ago, and the join would take it back."""
    on.is_live, on.mode = True, Mode.FORWARDED
    on.anchor.need(on.now_ms, is_live=True)
    on.run()
    assert on.asked == []
    assert on.looks == 1
    assert on.anchor.has_given_way


def test_a_group_is_not_taken_while_its_holder_is_unknown(on: AnchorStage) -> None:
    """Once the holder is known, it is."""
    on.is_live = True
    on.hold()
    on.group.member_id = "groupferry-anchor-newer"
    on.mode = Mode.UNKNOWN
    on.wait(100_000)
    assert on.group.member_id == "groupferry-anchor-newer"
    assert on.looks < 100_000 / LAST_BACKOFF_MS + 10
    on.mode = Mode.HOSTED
    on.until_held()


# -- what the cluster shows ------------------------------------------------------------------------


def test_the_anchor_shows_the_partitions_of_the_group(on: AnchorStage) -> None:
    """The anchor's assignment has the partitions. Tools read it directly at the cluster."""
    on.hold()
    assert on.group.assignment == b"a topic with 2 partitions"


def test_a_changed_topic_is_shown_with_the_next_heartbeat(on: AnchorStage) -> None:
    """The anchor remains the same member, and rejoins only if something has changed."""
    ids = on.hold()
    on.is_live = True
    on.wait(5 * HEARTBEAT_INTERVAL_MS)
    assert on.ids == ids
    on.shown.partition_count = 3
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.group.assignment == b"a topic with 3 partitions"
    assert on.ids == AnchorIds(member_id=ids.member_id, generation=ids.generation + 1)
    assert (on.loss, on.looks) == (None, 0)


def test_topics_that_change_often_cost_little(on: AnchorStage) -> None:
    """The last change is always shown in the end."""
    on.is_live = True
    on.hold()
    joins = len(on.messages(JoinGroupRequest))
    for _ in range(100):
        on.shown.partition_count += 1
        on.wait(1_000)
    assert len(on.messages(JoinGroupRequest)) - joins <= 1 + 100_000 / RENEWAL_INTERVAL_MS
    on.wait(RENEWAL_INTERVAL_MS + HEARTBEAT_INTERVAL_MS)
    assert on.group.assignment == on.shown.assignment()


def test_a_group_without_members_shows_what_it_had(on: AnchorStage) -> None:
    """No member has a subscription any more, but the lag remains of interest while the anchor
    lingers."""
    on.hold()
    on.shown.partition_count = 0
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.group.assignment == b"a topic with 2 partitions"


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR])
def test_a_renewal_without_an_answer_loses_nothing_by_itself(
    on: AnchorStage, code: ErrorCode | None, *, is_done: bool
) -> None:
    """The next heartbeat finds out whether the generation has begun."""
    on.is_live = True
    ids = on.hold()
    on.is_holding = True
    on.shown.partition_count = 3
    on.wait(HEARTBEAT_INTERVAL_MS)
    asked = on.take_ask().message
    assert isinstance(asked, JoinGroupRequest)
    if is_done:
        on.coordinator.answer(asked)
    if code is None:
        on.anchor.on_failure("nobody answers", on.now_ms)
    else:
        on.anchor.on_answer(JoinGroupResponse(error_code=code), on.now_ms)
    assert on.ids == ids
    on.is_holding = False
    on.wait(2 * ANXIOUS_INTERVAL_MS)
    assert (on.ids == ids) is not is_done
    on.wait(2 * RENEWAL_INTERVAL_MS)
    assert on.group.assignment == b"a topic with 3 partitions"
    assert on.loss is None


def test_a_commit_that_is_lost_during_a_renewal_ends_with_a_new_member(on: AnchorStage) -> None:
    """The member id remains the same in a renewal."""
    on.is_live = True
    ids = on.hold()
    on.is_holding = True
    on.shown.partition_count = 3
    on.wait(HEARTBEAT_INTERVAL_MS)
    on.lose_commit(ids)
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    on.is_holding = False
    on.anchor.on_answer(on.coordinator.answer(on.take_ask().message), on.now_ms)
    assert on.ended == []
    on.run()
    assert on.ended == [5]
    assert on.until_held().member_id != ids.member_id


# -- weak moments ----------------------------------------------------------------------------------


def test_a_join_is_repeated_only_so_often(on: AnchorStage) -> None:
    """A look finds out who is there, and pauses follow."""
    on.coordinator.refuses_joins_with = ErrorCode.REBALANCE_IN_PROGRESS
    on.anchor.need(on.now_ms)
    on.run()
    assert len(on.messages(JoinGroupRequest)) == 1 + JOIN_REPEATS_MAX
    on.wait(FIRST_BACKOFF_MS)
    assert on.looks == 1


def test_a_round_that_cannot_be_completed_is_followed_by_a_pause(on: AnchorStage) -> None:
    """Each next one begins later, so that the cluster is not asked without end."""
    on.is_holding = True
    on.anchor.need(on.now_ms)
    on.run()
    for pause_ms in (FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS):
        on.take_ask()
        joined = JoinGroupResponse(generation_id=5, leader="a", member_id="a")
        on.anchor.on_answer(joined, on.now_ms)
        on.run()
        on.take_ask()
        refusal = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        on.anchor.on_answer(refusal, on.now_ms)
        assert on.anchor.next_ms(is_live=False) == on.now_ms + pause_ms
        on.wait(pause_ms)


def test_repeated_joins_do_not_hide_another_member(on: AnchorStage) -> None:
    """Refused joins began no generation."""
    ids = on.hold()
    on.group.remove_member()
    on.group.generation += 2  # a consumer joins and leaves
    on.is_holding = True
    on.doubt(ids)
    on.run()
    on.take_ask()
    on.anchor.on_answer(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), on.now_ms)
    on.is_holding = False
    on.until_held()
    assert on.loss is not None


@pytest.mark.parametrize(("others", "was_taken"), [(2, False), (3, True)])
def test_a_generation_more_than_unanswered_joins_explain_shows_a_loss(
    on: AnchorStage, others: int, *, was_taken: bool
) -> None:
    """Each join may have begun a generation, the anchor's return takes two, and its removal began
    one."""
    ids = on.hold()
    on.failure = "no answer"
    on.doubt(ids)
    on.wait(2_000)
    on.group.generation += len(on.messages(JoinGroupRequest)) - 1 + others
    on.failure = None
    on.until_held()
    assert isinstance(on.loss, GroupTaken) is was_taken


def test_joins_without_an_answer_count_after_a_bug_too(on: AnchorStage) -> None:
    """Each may have begun a generation, so another owner of the group is not certain."""
    ids = on.hold()
    on.failure = "no answer"
    on.doubt(ids)
    on.wait(2_000)
    joins = len(on.messages(JoinGroupRequest)) - 1
    on.anchor.start_again(on.now_ms)
    on.group.generation += joins
    on.failure = None
    on.until_held()
    assert joins > GENERATIONS_OF_A_CONSUMER
    assert on.loss is None


# -- keeping it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.8, 1.0, 1.2])
def test_heartbeats_have_their_own_interval(spread: float) -> None:
    """So the heartbeats of many anchors drift apart."""
    on = AnchorStage(spread=spread)
    on.is_live = True
    on.hold()
    on.wait(100_000)
    gaps = {later - sooner for sooner, later in pairwise(on.times_ms(HeartbeatRequest))}
    assert gaps == {round(HEARTBEAT_INTERVAL_MS * spread)}


def test_one_confirmation_serves_all_that_wait(on: AnchorStage) -> None:
    """A confirmation counts only if its request was sent after the question."""
    on.is_live = True
    ids = on.hold()
    since = on.anchor.confirm()
    assert on.anchor.confirm() == since
    assert on.anchor.ids(on.now_ms, since=since) is None
    on.wait(0)
    assert on.anchor.ids(on.now_ms, since=since) == ids
    assert on.group.beats == 1
    on.wait(HEARTBEAT_INTERVAL_MS - 1)
    assert on.group.beats == 1


def test_a_heartbeat_under_way_does_not_confirm(on: AnchorStage) -> None:
    """The cluster may have removed the anchor between its answer and the question."""
    on.is_live = True
    ids = on.hold()
    on.is_holding = True
    on.wait(HEARTBEAT_INTERVAL_MS)
    beat = on.take_ask()
    since = on.anchor.confirm()
    on.anchor.on_answer(on.coordinator.answer(beat.message), on.now_ms)
    assert on.anchor.ids(on.now_ms, since=since) is None
    on.is_holding = False
    on.run()
    assert on.anchor.ids(on.now_ms, since=since) == ids


def test_a_removed_anchor_rejoins_at_once(on: AnchorStage) -> None:
    """The next heartbeat reveals the removal."""
    before = on.hold()
    on.is_live = True
    on.group.remove_member()
    on.lines.clear()
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.log_names() == ["anchor_lost", "anchor_taken"]
    assert "UNKNOWN_MEMBER_ID" in on.lines[0].fields["reason"]
    assert on.ids not in (None, before)
    assert on.looks == 0, "the join would have revealed other members"


def test_a_commit_reveals_the_removal_sooner(on: AnchorStage) -> None:
    """A later report about the old ids does not doubt the repaired anchor."""
    ids = on.hold()
    on.group.remove_member()
    on.doubt(ids)
    assert on.ids is None
    again = on.until_held()
    on.doubt(ids)
    assert on.ids == again


def test_a_replaced_anchor_looks_before_it_rejoins(on: AnchorStage) -> None:
    """A newer gateway with the same log holds the group and keeps it. If two gateways took it in
    turn, both would grant partitions. A late join of this gateway or of an earlier one is no
    reason to give way."""
    on.hold()
    on.is_live = True
    on.group.member_id = "groupferry-anchor-newer"
    on.mode = Mode.FORWARDED
    on.wait(2 * HEARTBEAT_INTERVAL_MS)
    assert on.looks == 1
    assert on.group.member_id == "groupferry-anchor-newer"
    on.mode = Mode.HOSTED
    on.hold()
    assert on.group.member_id != "groupferry-anchor-newer"


@pytest.mark.parametrize("code", sorted(ABOUT_THE_ANCHOR), ids=lambda code: code.name)
def test_every_error_about_the_anchor_makes_it_rejoin(on: AnchorStage, code: ErrorCode) -> None:
    """In a heartbeat as in a commit; only after a fenced one does it look first."""
    ids = on.hold()
    on.doubt(ids, code)
    assert on.anchor.phase is AnchorPhase.LOST
    on.anchor.advance(on.now_ms, is_live=False)
    assert on.anchor.wants_look is (code is ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize(("generation", "was_taken"), [(2, False), (3, False), (4, True)])
def test_a_missed_generation_shows_that_another_consumer_had_the_group(
    on: AnchorStage, generation: int, *, was_taken: bool
) -> None:
    """The anchor's removal begins the second generation, a consumer's joining the third one, and
    its leaving the fourth. A late join of the anchor itself may begin the third one, too."""
    on.hold()
    on.group.remove_member()
    on.group.generation = generation
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert isinstance(on.loss, GroupTaken) is was_taken


def test_a_group_that_begins_again_is_not_said_to_have_another_member(on: AnchorStage) -> None:
    """Its coordinator may have lost it, or the group was deleted or converted meanwhile."""
    on.group.generation = 20
    held = on.hold().generation
    on.group.remove_member()
    on.group.generation = 0
    on.wait(HEARTBEAT_INTERVAL_MS)
    present = on.hold().generation
    assert on.loss == GenerationWentBack(generation_before=held, generation=present)
    assert held > 20 > present


def test_joins_of_the_anchor_itself_are_no_sign_of_others(on: AnchorStage) -> None:
    """Their answers were lost, and each began a generation."""
    on.hold()
    on.group.remove_member()
    for _ in range(3):
        on.wait(HEARTBEAT_INTERVAL_MS)
        on.group.generation += 1
        on.group.is_synced = False
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.loss is None


def test_an_older_generation_shows_another_member(on: AnchorStage) -> None:
    """Another client has joined since."""
    on.is_live = True
    on.hold()
    on.group.generation += 1
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert "ILLEGAL_GENERATION" in on.lines[1].fields["reason"]


def test_a_silent_coordinator_keeps_the_anchor_for_a_session(on: AnchorStage) -> None:
    """The session counts from the sending of the last answered heartbeat. After it the anchor does
    not count as a member, and rejoins as soon as the coordinator answers."""
    on.is_live = True
    before = on.hold()
    heard_ms = on.now_ms
    on.failure = "nobody answers"
    on.wait(SESSION_MS - 1)
    assert on.anchor.ids(on.now_ms) == before
    on.wait(1)
    assert on.now_ms == heard_ms + SESSION_MS
    assert on.ids is None
    on.wait(600_000)
    tries = len(on.messages(JoinGroupRequest))
    assert 100 < tries < 600_000 / LAST_BACKOFF_MS + 10, "again and again, but not without a pause"
    on.failure = None
    assert on.until_held(10_000) != before


def test_an_error_about_the_coordinator_is_no_loss(on: AnchorStage) -> None:
    """The anchor asks the next coordinator, under its ids."""
    on.is_live = True
    before = on.hold()
    on.is_holding = True
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert not on.take_ask().looks_up
    on.anchor.on_answer(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR), on.now_ms)
    assert on.ids == before
    on.wait(ANXIOUS_INTERVAL_MS)
    assert on.take_ask().looks_up


def test_the_anchor_follows_its_coordinator(on: AnchorStage) -> None:
    """The anchor keeps its ids, because the group is stored."""
    on.is_live = True
    before = on.hold()
    on.wait(100)
    on.anchor.coordinator_moved(on.now_ms)
    on.run()
    assert on.asked[-1][1].looks_up
    assert on.ids == before
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert not on.asked[-1][1].looks_up


def test_a_move_of_the_coordinator_during_a_heartbeat_is_not_forgotten(on: AnchorStage) -> None:
    """The old coordinator may have answered before it moved."""
    on.is_live = True
    on.hold()
    on.is_holding = True
    on.wait(HEARTBEAT_INTERVAL_MS)
    beat = on.take_ask()
    on.anchor.coordinator_moved(on.now_ms)
    on.anchor.on_answer(on.coordinator.answer(beat.message), on.now_ms)
    on.is_holding = False
    on.wait(HEARTBEAT_INTERVAL_MS)
    assert on.asked[-1][1].looks_up


def test_the_log_says_once_why_an_anchor_is_lost(on: AnchorStage) -> None:
    """The reason for clients has no address."""
    on.failure = "nobody listens on 10.0.0.7"
    on.anchor.need(on.now_ms)
    on.wait(20_000)
    assert [(line.event, line.fields["reason"]) for line in on.lines] == [
        ("anchor_lost", "nobody listens on 10.0.0.7")
    ]
    assert "10.0.0.7" not in on.anchor.reason


def test_the_time_without_the_group_counts_from_its_loss(on: AnchorStage) -> None:
    """Several attempts to take the group back count as one time. After silence it counts from the
    end of the session."""
    on.is_live = True
    ids = on.hold()
    assert on.anchor.lost_for_ms(on.now_ms) == 0
    on.failure = "nobody answers"
    on.doubt(ids)
    on.wait(5_000)
    assert on.anchor.lost_for_ms(on.now_ms) == 5_000
    on.failure = None
    on.until_held()
    assert on.anchor.lost_for_ms(on.now_ms) == 0
    assert on.anchor.lost_for_ms(on.now_ms + SESSION_MS + 7) == 7


def test_an_anchor_that_is_needed_again_tries_as_soon_as_a_new_one(on: AnchorStage) -> None:
    """Earlier failures say nothing about now."""
    on.failure = "nobody answers"
    on.anchor.need(on.now_ms)
    on.wait(60_000 + LAST_BACKOFF_MS)
    assert not on.is_here
    on.anchor.need(on.now_ms)
    on.run()
    assert on.anchor.next_ms(is_live=False) == on.now_ms + FIRST_BACKOFF_MS
