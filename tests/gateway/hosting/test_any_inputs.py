"""Whatever happens to a group, in whatever order: nothing raises, every call is answered, and the
promises to clients and to the cluster hold.

The cluster tells the truth, but late: an answer is computed when the cluster receives the question,
and delivered at any later time, or never.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply, SyncGroupReply
from gateway.groups.group_limits import GroupLimits
from gateway.hosting.calls import (
    AWAY,
    LOST,
    Call,
    Commit,
    Commits,
    LearnTopics,
    LocateCoordinator,
    PendingAction,
    ProbeBroker,
    StoreCommits,
)
from gateway.hosting.effects import (
    AskCoordinator,
    Assign,
    Awaited,
    Compute,
    Effect,
    Forget,
    Load,
    Look,
    Resolve,
    Write,
)
from gateway.hosting.inputs import (
    Damage,
    Done,
    Ending,
    EngineEvent,
    Failed,
    Input,
    Leave,
    Resumed,
    SeenForeign,
    TopicsMoved,
)
from gateway.hosting.states import CommitPhase, Stage
from tests.simulation.coordinator import FakeGroup
from tests.support.hosted_scene import GROUP, HostedScene, hosting_rules
from tests.support.hypothesis_profile import examples

EVERYTHING = (
    *(Look, Load, Write, Forget, Compute, Resolve, Assign, AskCoordinator),
    *(LocateCoordinator, LearnTopics, ProbeBroker, StoreCommits),
)
AT_LAST_MS = 800_000
"""Longer than any session, rebalance and linger time together."""


class Storm:
    """A scene in which everything is late, and what must hold at any time."""

    def __init__(self, *, can_anchor: bool) -> None:
        # Where no anchor can, a timer of the engine ends stray commits.
        config = GroupConfig(lost_commit_hold_ms=None if can_anchor else 5_000)
        rules = hosting_rules(config=config, can_anchor=can_anchor)
        self.scene = HostedScene(rules, limits=GroupLimits(1))
        self.scene.hold(*EVERYTHING)
        self.is_ending = False
        self._under_way: deque[tuple[Awaited, Input]] = deque()
        self._asks = 0
        """How many requests the anchor has sent."""
        self._confirmed = 0
        """The number of the latest of them that the cluster has confirmed."""
        self._decided_at: dict[int, int] = {}
        """For each reply that waits for a confirmation, how many requests had been sent before."""
        self._strays: set[Commit] = set()
        self._before = 0
        self._granted: set[int] = set()
        record, handle = self.scene.record, self.scene.group.handle

        def record_and_check(effects: list[Effect]) -> None:
            self._asks += sum(isinstance(effect, AskCoordinator) for effect in effects)
            record(effects)
            self._check()

        def handle_and_count(event: Input, now_ms: int) -> Sequence[Effect]:
            match event:
                case Done(AskCoordinator(), answer) if not getattr(answer, "error_code", 0):
                    self._confirmed = self._asks  # one is under way at a time
            return handle(event, now_ms)

        self.scene.record = record_and_check  # type: ignore[assignment, method-assign]
        self.scene.group.handle = handle_and_count  # type: ignore[method-assign]

    # -- what happens ----------------------------------------------------------------------------

    def ask(self, kind: int, who: int, how: int) -> None:
        """A client's request, sensible or not."""
        scene, member_id = self.scene, ("n", "m", "stranger")[who % 3]
        known: dict[str, Any] = {
            "knows_topics": how % 4 != 1,
            "is_at_coordinator": (True, True, True, None, False)[how % 5],
        }
        group = scene.group.engine.core.state.group
        classic = next(
            (id_ for id_ in (group.members if group else ()) if id_.startswith("client")), ""
        )
        epoch = 1 + how % 3
        asks: list[Callable[[], Call]] = [
            lambda: scene.native(member_id, **known),
            lambda: scene.native(member_id, epoch, owned={}, **known),
            lambda: scene.native(member_id, -1, **known),
            lambda: scene.join(**known),
            lambda: scene.join(classic, **known),
            lambda: scene.join(protocol_type="connect", is_foreign=True, **known),
            lambda: scene.sync(classic, epoch, {classic: {"foo": (0, 1, 2)}}),
            lambda: scene.beat(classic, epoch, **known),
            lambda: scene.leave(classic),
            lambda: scene.commits(("", -1, None), **known),
            lambda: scene.commits((member_id, epoch, None), ("", -1, {"foo": [1]}), **known),
            lambda: scene.commits((classic, epoch, None), (classic, epoch, {"foo": [2]}), **known),
            lambda: scene.commits((member_id, 2, {"foo": [how % 3]}), **known),
            lambda: scene.fetch({"foo": [0]}),
            scene.delete,
            scene.free,
        ]
        self._before = self._asks
        asks[kind % len(asks)]()

    def disconnect(self, which: int) -> None:
        """A client disconnects, and its pending action ends."""
        waiting = [call for call in self.scene.calls if call.answer is None]
        if waiting:
            call = waiting[which % len(waiting)]
            for pending_action in [action for action in self.scene.pending if _is_of(action, call)]:
                self.scene.pending.remove(pending_action)
            for late in [item for item in self._under_way if _is_of(item[0], call)]:
                self._under_way.remove(late)
            self._feed(lambda: self.scene.disconnect(call))

    def receive(self, which: int, how: int) -> None:
        """The cluster, the log or the client's task does what it was asked, or fails to."""
        if not self.scene.pending:
            return
        effect = self.scene.pending[which % len(self.scene.pending)]
        self.scene.pending.remove(effect)
        self._under_way.append((effect, self._answer(effect, how)))

    def deliver(self, which: int) -> None:
        """An answer arrives."""
        if not self._under_way:
            return
        effect, answer = self._under_way[which % len(self._under_way)]
        self._under_way.remove((effect, answer))
        self._feed(lambda: self.scene.feed(answer))

    def _answer(self, effect: Awaited, how: int) -> Input:
        scene, fails = self.scene, how % 4 == 0
        answer = None if fails and how % 3 == 0 else scene.answer_to(effect)
        if not fails and answer is not None:
            return answer
        match effect:
            # With an answer, a request of the anchor was received all the same.
            case AskCoordinator() | Look() | Load() | LocateCoordinator() | LearnTopics():
                return Failed(effect, "nobody answers")
            case Write():
                return Failed(
                    effect, Damage.UNSURE if answer else (Damage.NONE, Damage.REFUSED)[how % 2]
                )
            case StoreCommits(_call, commits):
                return Done(effect, dict.fromkeys(commits, LOST if answer else AWAY))
            case _:
                return answer or scene.answer_to(effect)

    def happen(self, what: int) -> None:
        """Something about the group that was not asked for."""
        scene = self.scene
        match what % 8:
            case 0:
                scene.in_cluster.remove_member()
            case 1:
                scene.coordinator.groups[GROUP] = FakeGroup(
                    protocol_type="consumer", protocol="range", member_id="direct", is_synced=True
                )
            case 2:
                scene.in_cluster.member_id = "groupferry-newer"
            case 3:
                self._feed(lambda: scene.feed(TopicsMoved(scene.topics)))
            case 4:
                self._feed(lambda: scene.feed(SeenForeign("it uses the protocol connect/v1")))
            case 5:
                self._feed(lambda: scene.feed(EngineEvent(OffsetCommitEnded(commit=0))))
            case 6:
                self._feed(lambda: scene.feed(Leave()))
            case _:
                self._feed(lambda: scene.feed(Resumed()))

    def pass_time(self, steps: int) -> None:
        """A moment, or long."""
        length_ms = (0, 1, 100, 1_000, 3_000, 10_000, 46_000, 61_000)[steps % 8]
        self._feed(lambda: self.scene.wait(length_ms))

    def calm(self) -> None:
        """From now on everything works immediately."""
        scene = self.scene
        while self._under_way:
            self.deliver(0)
        scene.coordinator.groups.clear()
        scene.held.clear()
        scene.run()
        scene.wait(AT_LAST_MS)

    def _feed(self, feed: Callable[[], None]) -> None:
        self._before = self._asks
        feed()

    # -- what must hold --------------------------------------------------------------------------

    def _check(self) -> None:
        for effect in self.scene.pending:
            if isinstance(effect, StoreCommits):
                self._check_store(effect)
        for call in self.scene.calls:
            self._check_grant(call)
            if isinstance(call, Commits):
                self._check_strays(call)
        self._before = self._asks

    def _check_store(self, store: StoreCommits) -> None:
        if store.ids is None and self.scene.rules.can_anchor:
            commits = store.call.commits
            assert not any(commits[token].has_member for token in store.commits), (
                "a member's commit is sent without the anchor's ids"
            )

    def _check_grant(self, call: Call) -> None:
        if call.stage is Stage.CONFIRMING:
            self._decided_at.setdefault(call.token, self._before)
        match call.answer:
            case JoinGroupReply(error=0) | SyncGroupReply(error=0):
                pass
            case ConsumerHeartbeatReply(error=0, assignment=given) if given is not None:
                pass
            case _:
                return
        if self.scene.rules.can_anchor and call.token not in self._granted:
            self._granted.add(call.token)
            assert call.token in self._decided_at, "partitions are granted without a confirmation"
            assert self._confirmed > self._decided_at[call.token], (
                "partitions are granted on an old confirmation"
            )

    def _check_strays(self, call: Commits) -> None:
        for commit in call.commits.values():
            if commit.phase is CommitPhase.STRAY:
                self._strays.add(commit)
            elif commit in self._strays:
                self._strays.remove(commit)
                assert commit.phase is CommitPhase.ENDED
                if commit.ids is not None:
                    assert self.scene.code_of_commit(commit.ids), "the cluster may still store it"

    def check_calm(self) -> None:
        """Nothing is left behind."""
        scene = self.scene
        unanswered = [call for call in scene.calls if call.answer is None]
        assert not unanswered, f"{unanswered[0].api} waits in {unanswered[0].stage}"
        for call in scene.calls:
            if isinstance(call, Commits):
                over = {CommitPhase.RECEIVED, CommitPhase.ENDED}
                if not scene.rules.can_anchor:
                    over.add(CommitPhase.STRAY)
                assert {commit.phase for commit in call.commits.values()} <= over
        assert scene.group.is_idle, (scene.group.engine.phase, scene.group.anchor.phase)
        assert not scene.group.engine.core.state.commits
        assert not scene.limits.hosted.count
        assert not scene.limits.anchored.count


def _is_of(effect: Awaited, call: Call) -> bool:
    return isinstance(effect, PendingAction) and effect.call is call


NUMBER = st.integers(0, 59)
STEP = st.one_of(
    st.tuples(st.just(Storm.ask), NUMBER, NUMBER, NUMBER),
    st.tuples(st.just(Storm.receive), NUMBER, NUMBER),
    st.tuples(st.just(Storm.deliver), NUMBER),
    st.tuples(st.just(Storm.receive), st.just(0), st.just(1)),
    st.tuples(st.just(Storm.deliver), st.just(0)),
    st.tuples(st.just(Storm.pass_time), NUMBER),
    st.tuples(st.just(Storm.happen), NUMBER),
    st.tuples(st.just(Storm.disconnect), NUMBER),
)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=10, max_size=80), st.booleans())
def test_no_order_of_events_breaks_a_promise(steps: list[tuple], can_anchor: bool) -> None:  # type: ignore[type-arg]
    """In the end nothing is left in memory."""
    storm = Storm(can_anchor=can_anchor)
    for do, *arguments in steps:
        do(storm, *arguments)
    storm.calm()
    storm.check_calm()


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=10, max_size=60))
def test_a_gateway_that_ends_leaves_no_call_waiting(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    """The drain waits for all of them, and time does not have to pass for it."""
    storm = Storm(can_anchor=True)
    for do, *arguments in steps:
        do(storm, *arguments)
    storm.scene.feed(Ending())
    storm.scene.held.clear()
    while storm._under_way:
        storm.deliver(0)
    storm.scene.run()
    storm.scene.wait(0)
    assert [call.stage for call in storm.scene.calls if call.answer is None] == []


def test_every_kind_of_effect_and_pending_action_is_late_in_a_storm() -> None:
    """This makes sure that the tests above test what they say."""
    storm = Storm(can_anchor=True)
    assert storm.scene.held == set(EVERYTHING)
    assert Look in storm.scene.held
