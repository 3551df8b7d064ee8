"""The release of one group as part of its hosting: when it begins, what becomes of the group's
requests meanwhile, and how it ends.

`Releasing` decides the steps. This class gives them the engine, which stores how far they have
come, and the anchor, whose place they take. See `gateway/docs/release.md`.
"""

from collections.abc import Sequence

from coordinator.group.state import GroupState
from coordinator.handlers.release import may_begin, members_not_taken
from coordinator.interface.events import ReleaseBegan, ReleaseMoved
from coordinator.interface.records import Member, ReleaseState
from coordinator.interface.topics import Topics
from gateway.events import group_events
from gateway.hosting import release_steps as steps
from gateway.hosting.adoption_steps import (
    Ask,
    Stored,
    StoreFailed,
    TimePassed,
    Treatment,
)
from gateway.hosting.anchor import Anchor
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Answer, Call, Commits, StoreCommits
from gateway.hosting.effects import Conclude, Effect, Log, TellNow
from gateway.hosting.grace import Grace
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.recall import Recall
from gateway.hosting.recalled_group import RecalledGroup
from gateway.hosting.release import Releasing
from gateway.hosting.release_steps import (
    HandedOver,
    NewProtocol,
    ReleaseOutcome,
    ReleaseWish,
    StoreRelease,
)
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import RELEASED, Standing
from gateway.hosting.states import AnchorPhase, LogPhase, Mode, ReleaseStage
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.declaration import Struct

SETTLE_MAX_MS = 30_000
"""How long a release waits for the end of a rebalance before it begins."""


def why_not_released(state: GroupState, cluster: NewProtocol) -> tuple[str, ...]:
    """Why the group cannot be released as it is, one for each member that speaks against it."""
    if cluster.why_no_natives:
        what = "uses the new protocol"
        reason, remedy = cluster.why_no_natives, "roll it back to the classic one first"
    else:
        what = "uses the classic protocol beside native members"
        reason, remedy = cluster.why_not_mixed, "roll it to the new one first"
    members = members_not_taken(
        state, takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed
    )
    return tuple(f"{_named(member)} {what}, and {reason}: {remedy}" for member in members)


def _named(member: Member) -> str:
    return f"{member.member_id} ({member.client_id} at {member.client_host})"


class GroupRelease:
    """At most one release at a time."""

    def __init__(
        self,
        standing: Standing,
        rules: HostingRules,
        *,
        engine: LoggedEngine,
        anchor: Anchor,
        effects: list[Effect],
    ) -> None:
        """`effects` takes what the driver has to do."""
        self.recall = Recall(
            has_all_members=True,
            heartbeat_interval_ms=rules.config.consumer_heartbeat_interval_ms,
        )
        self._group_id = standing.group_id
        self._standing = standing
        self._rules = rules
        self._engine = engine
        self._anchor = anchor
        self._effects = effects
        self._machine: Releasing | None = None
        self._wishes: list[ReleaseWish] = []
        self._settle_until_ms = 0
        self._is_beginning = False
        self._is_uncertain = False
        """Whether the log may have the beginning, although it did not confirm it."""
        self._is_ending = False
        self._has_begun_here = False
        """Whether this process has decided to release the group, and not an earlier one."""

    # -- what the group asks ---------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the engine does not serve the group any more, and the cluster not yet alone."""
        return self._machine is not None

    @property
    def stage(self) -> ReleaseStage | None:
        """How far it has come."""
        return None if self._machine is None else self._machine.stage

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._wishes)

    @property
    def seeks_anchor(self) -> bool:
        """Whether an anchor may be in the group whose place is not taken yet."""
        return self.is_wanted if self._machine is None else self._machine.is_displaced

    @property
    def keeps_anchor(self) -> bool:
        """Whether the anchor holds the group for members that may still hold partitions."""
        return self._machine is not None and self._machine.stage is ReleaseStage.RECALLING

    @property
    def treatment(self) -> Treatment | None:
        """What becomes of requests; None if that does not depend on a release."""
        return None if self._machine is None else self._machine.treatment

    @property
    def why(self) -> str:
        """Why the cluster answers."""
        return RELEASED

    @property
    def outlook(self) -> object:
        """Changes whenever calls that wait may have something to go on with."""
        machine = self._machine
        if machine is None:
            return None
        return machine.stage, machine.treatment, machine.is_native_due

    def next_ms(self) -> int | None:
        """When `advance` has something to do again."""
        if self._machine is not None:
            return self._machine.next_ms()
        waits = self._wishes and self._engine.is_loaded and not self._is_beginning
        return self._settle_until_ms if waits else None

    # -- beginning and ending --------------------------------------------------------------------

    def wish(self, wish: ReleaseWish, now_ms: int) -> None:
        """Release the group, which is loaded, or about to be."""
        if not self._wishes:
            longest_ms = self._rules.standing.longest_session_ms
            settle_ms = longest_ms if wish.is_unattended else SETTLE_MAX_MS
            self._settle_until_ms = now_ms + settle_ms
            self._anchor.is_known_absent = False  # since the last look one may have come late
        self._wishes.append(wish)
        if self._is_ending:
            self.end()

    def end(self) -> None:
        """The gateway is shutting down. The next process finds in the log what has begun."""
        self._is_ending = True
        self._refuse("the gateway is shutting down; a release that has begun goes on with the next")

    def start_again(self) -> None:
        """After a bug: what the log knows of the release decides how it goes on."""
        self._machine = None
        self._is_beginning = self._is_uncertain = False
        self._refuse("a bug: see the log")

    def begun(self, *, is_durable: bool) -> None:
        """The engine has decided on the beginning."""
        self._is_beginning = False
        self._has_begun_here = is_durable and self._engine.core.state.is_leaving
        if is_durable:
            return
        if self._engine.is_loading:
            self._is_uncertain = True  # whether it has begun, the log says once it is read
        else:
            self._refuse("the state log failed: try again")

    @property
    def _is_unattended(self) -> bool:
        return any(each.is_unattended for each in self._wishes)

    def _begin(self, now_ms: int) -> None:
        """Begin what is wished, or go on with what the log has."""
        engine = self._engine
        if engine.phase is LogPhase.UNREADABLE and not self._is_uncertain:
            self._refuse("its state log cannot be read")
        if not engine.is_loaded:
            return
        state = engine.core.state
        was_uncertain, self._is_uncertain = self._is_uncertain, False
        if state.release is not None and state.release.is_under_way:
            self._go_on(state.release, now_ms)
        elif state.release is not None:
            self._rules.standing.released.add(self._group_id)
            self._remove_anchor(now_ms)
        elif not self._wishes or self._is_beginning:
            pass
        elif was_uncertain:
            self._refuse("the state log failed: try again")
        elif reasons := why_not_released(state, self._wishes[-1].new_protocol):
            self._refuse(*reasons)
        elif not self._is_place_known(now_ms):
            pass
        elif self._standing.verdict.mode is Mode.ELSEWHERE and not self._anchor.is_here:
            self._refuse(self._standing.verdict.why)
        elif may_begin(state):
            self._is_beginning = True
            cluster = self._wishes[-1].new_protocol
            engine.note(
                ReleaseBegan(takes_natives=cluster.takes_natives, takes_mixed=cluster.takes_mixed)
            )
        elif now_ms >= self._settle_until_ms:
            self._refuse(f"its rebalance is not over after {SETTLE_MAX_MS // 1000} s: try again")

    def _is_place_known(self, now_ms: int) -> bool:
        """Whether the anchor holds the group, or is certainly not in it. Otherwise look for one
        that an earlier process has left there: it would keep the consumers out of a released group.
        A group with members needs one in any case."""
        anchor = self._anchor
        if anchor.is_here:
            is_known = anchor.phase in (AnchorPhase.STABLE, AnchorPhase.RENEWING)
        else:
            is_known = anchor.is_known_absent
            if not is_known and self._engine.is_live:
                anchor.need(now_ms, is_live=True)
            elif not is_known:
                anchor.search(now_ms)
        if not is_known and now_ms >= self._settle_until_ms:
            verdict = self._standing.verdict
            reason = verdict.why if verdict.mode is Mode.UNKNOWN else anchor.why
            self._refuse(f"{reason}: try again")
        return is_known

    def _remove_anchor(self, now_ms: int) -> None:
        """The group is released. Have an anchor leave that is still there, or there again after a
        failover of the coordinator."""
        if not self._wishes:
            return
        self._anchor.drop()
        if not self._is_place_known(now_ms):
            return
        if not self._anchor.is_here:
            self._fulfil(ReleaseOutcome(group_id=self._group_id, is_released=True))
        elif now_ms >= self._settle_until_ms:
            self._refuse("its anchor has not left yet: try again")

    def _go_on(self, release: ReleaseState, now_ms: int) -> None:
        members = () if release.group is None else release.group.members
        if not self._has_begun_here:
            fields = {"group_id": self._group_id, "members": len(members)}
            self._effects.append(Log("warning", "release_resumed", fields))
        guise = self._rules.standing.gateway.guise
        # No client can reach an unattended process, so that a pause keeps none away.
        grace = Grace() if self._is_unattended else self._engine.grace
        self._machine = Releasing(self._group_id, guise, release, now_ms, grace)
        self.recall.leads_rounds = self._machine.has_natives
        self._standing.pending_ids = PendingIds()
        if release.group is not None:
            config = self._rules.config_of(self._group_id)
            self.recall.begin(RecalledGroup(self._group_id, release.group, config))
        self._effects.append(TellNow(group_events.ReleaseStarted(members=len(members))))
        if members:
            self._anchor.need(now_ms, is_live=True)
        self.handle(TimePassed(), now_ms)

    # -- the steps -------------------------------------------------------------------------------

    def handle(self, event: steps.Input, now_ms: int) -> None:
        """The driver has carried out a step, or a recalled member has said something."""
        if self._machine is not None:
            self._carry_out(self._machine.handle(event, now_ms))

    def moved(self, *, is_durable: bool, now_ms: int) -> None:
        """The engine has decided on a step."""
        self.handle(Stored() if is_durable else StoreFailed("the state log failed"), now_ms)

    def advance(self, now_ms: int) -> None:
        """Take note of what the log has, of the anchor, and of the time."""
        if self._machine is None:
            self._begin(now_ms)
        machine = self._machine
        if machine is None:
            return
        next_ms = machine.next_ms()
        if next_ms is not None and next_ms <= now_ms:
            self.handle(TimePassed(), now_ms)
        if machine.is_ready(len(self._engine.core.state.commits) + len(self.recall.in_flight)):
            self._hand_over(now_ms)
        if machine.is_over:
            self._end(machine, now_ms)

    def _hand_over(self, now_ms: int) -> None:
        """Give the anchor's place to the release, once it is known."""
        if self._anchor.is_here:
            ids = self._anchor.hand_over()
            if ids is not None:
                self.handle(HandedOver(ids), now_ms)
        elif self._anchor.is_known_absent:
            self.handle(HandedOver(None), now_ms)
        else:
            self._anchor.search(now_ms)

    def _carry_out(self, effects: Sequence[steps.Effect]) -> None:
        for effect in effects:
            match effect:
                case StoreRelease(release):
                    self._engine.note(ReleaseMoved(release=release))
                case Ask():
                    self._effects.append(effect)

    def _end(self, machine: Releasing, now_ms: int) -> None:
        self._machine, self._has_begun_here = None, False
        self.recall.end()
        if self._standing.pending_ids is not None:
            self._standing.pending_ids.end_at(now_ms + REMEMBERED_MS)
        self._rules.standing.released.add(self._group_id)
        self._effects.append(TellNow(group_events.GroupReleased(unowned_ms=machine.unowned_ms)))
        self._standing.end_hosting("released")
        self._standing.forward(RELEASED, now_ms)
        self._fulfil(
            ReleaseOutcome(group_id=self._group_id, is_released=True, unowned_ms=machine.unowned_ms)
        )

    def _refuse(self, *reasons: str) -> None:
        self._fulfil(ReleaseOutcome.refused(self._group_id, *reasons))

    def _fulfil(self, outcome: ReleaseOutcome) -> None:
        wishes, self._wishes = self._wishes, []
        for wish in wishes:
            wish.outcome = outcome
            self._effects.append(Conclude(wish))

    # -- requests meanwhile ----------------------------------------------------------------------

    def admits(self, call: Call) -> bool:
        """Whether the call may go to the cluster, which serves the group. A native member finds it
        only once the anchor has left. And where one comes back, no classic member may be the first
        there: a coordinator does not convert a group whose assignment has user data, as that of
        librdkafka's cooperative assignor has. Either way a native member is told
        GROUP_ID_NOT_FOUND, which is fatal to some clients."""
        machine = self._machine
        match call.api:
            case GroupApi.JOIN:
                return machine is None or not machine.is_native_due
            case GroupApi.CONSUMER_JOIN:
                return machine is None or machine.stage is ReleaseStage.CONCLUDING
            case _:
                return True

    def relayed(self, answer: Struct, now_ms: int) -> None:
        """The cluster has answered a member's request."""
        match answer:
            case ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=epoch) if epoch > 0:
                self.handle(steps.NativeJoined(), now_ms)
            case _:
                pass

    def answer(self, call: Call, now_ms: int) -> Answer | None:
        """The answer to a call that is not relayed; None while it has to wait."""
        holders = () if self._machine is None else self._machine.holders
        answer = self.recall.answer(call, holders)
        for heard in self.recall.take_heard():
            self.handle(heard, now_ms)
        return answer

    def store(self, call: Commits, topics: Topics, now_ms: int) -> Answer | StoreCommits | None:
        """Have the commits of a recalled member stored under the ids of the anchor. They wait while
        it renews its place."""
        guard = self._anchor.ids(now_ms) if self.keeps_anchor else None
        if guard is None and self.keeps_anchor and self._anchor.is_here:
            return None
        holders = () if self._machine is None else self._machine.holders
        return self.recall.store(call, topics=topics, holders=holders, guard=guard, now_ms=now_ms)
