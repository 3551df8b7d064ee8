"""The adoption of one group as part of its hosting: when it begins, what becomes of the group's
requests meanwhile, and how it ends.

`Adopting` decides the steps. This class gives them the engine, which stores how far they have come,
and the anchor, which goes on with the ids that the last step leaves. See
`gateway/docs/adoption.md`.
"""

from collections.abc import Container, Mapping, Sequence

from coordinator.interface.events import (
    AdoptionEnded,
    AdoptionMoved,
    HeartbeatReceived,
)
from coordinator.interface.records import AdoptionState, ClassicGroupMember
from coordinator.interface.replies import (
    HeartbeatReply,
)
from coordinator.interface.topics import Topics
from gateway.events import group_events
from gateway.events.event import Level
from gateway.hosting import adoption_steps as steps
from gateway.hosting.adoptable import is_promising
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_steps import AdoptionOutcome, Treatment, Wish
from gateway.hosting.anchor import Anchor
from gateway.hosting.calls import Answer, Call, Commits, StoreCommits
from gateway.hosting.effects import Conclude, Effect, Log, MoveStep, TellNow
from gateway.hosting.identity import AnchorIds
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.pending_ids import REMEMBERED_MS, PendingIds
from gateway.hosting.recall import Recall
from gateway.hosting.recalled_group import RecalledGroup
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import Standing
from gateway.hosting.states import AdoptionStage, LogPhase

CONSIDER_EVERY_MS = 5_000
"""How often at most a forwarded group is considered for adoption."""
REFUSED_FOR_MS = 10_000
"""How long a group is left alone after the cluster's description spoke against its adoption."""
UNDONE_FOR_MS, UNDONE_FOR_MS_MAX = 60_000, 900_000
"""The same after an adoption that was undone, which costs its members a rebalance; doubles with
each failure."""
AT_ONCE_MAX = 8
"""Groups that the gateway adopts by itself at a time. Each holds the calls of its clients."""
STILL_ENDING = "requests of an adoption that was undone are still under way: try again"


class GroupAdoption:
    """At most one adoption at a time."""

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
        self.is_expected = False
        """Whether the log is known to have an adoption that is not loaded yet."""
        self._group_id = standing.group_id
        self._standing = standing
        self._rules = rules
        self._engine = engine
        self._anchor = anchor
        self._effects = effects
        self._machine: Adopting | None = None
        self._wishes: list[Wish] = []
        self._ids: AnchorIds | None = None
        """The anchor's, once the engine may take over."""
        self._is_ending = False
        self._has_held = False
        self._under_way: list[MoveStep] = []
        """Effects that have no result yet. The next adoption must not take theirs for its own."""
        self.recall = Recall(has_all_members=False)
        self.recall.leads_rounds = True  # the coordinator's next round may not ask who owns what
        self._indexed: AdoptionState | None = None
        self._by_id: Mapping[str, ClassicGroupMember] = {}

    # -- what the group asks ---------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the group may be about to change its coordinator."""
        return self._machine is not None or self.is_expected or bool(self._wishes)

    @property
    def treatment(self) -> Treatment | None:
        """What becomes of requests; None if that does not depend on an adoption."""
        if self._machine is not None:
            return self._machine.treatment
        return Treatment.HELD if self.is_expected else None

    @property
    def stage(self) -> AdoptionStage | None:
        """How far it has come."""
        return None if self._machine is None else self._machine.stage

    @property
    def outlook(self) -> object:
        """Changes whenever calls that wait may have something to go on with."""
        if self._machine is None:
            return None
        return self._machine.stage, self._machine.vouches, self._machine.guard

    def next_ms(self) -> int | None:
        """When `advance` has something to do again."""
        return None if self._machine is None else self._machine.next_ms()

    # -- beginning -------------------------------------------------------------------------------

    def wish(self, wish: Wish) -> None:
        """Adopt the group, which is about to be loaded."""
        self._wishes.append(wish)
        if self._is_ending:
            self.end()

    def consider(self, now_ms: int) -> bool:
        """Whether to adopt the group by itself now, as far as the relayed requests tell."""
        if self.is_under_way or self._is_ending or not self._standing.may_be_adopted(now_ms):
            return False
        if self._standing.rules.is_removing or self._under_way:
            return False
        self._standing.adopt_from_ms = now_ms + CONSIDER_EVERY_MS
        watched = self._rules.watched.group(self._group_id)
        has_turn = len(self._rules.adopting) < AT_ONCE_MAX
        return has_turn and watched is not None and is_promising(watched, now_ms)

    def end(self) -> None:
        """The gateway is shutting down. What has begun goes on while the process lives; the next
        one finds it in the log."""
        self._is_ending = True
        self._fulfil(AdoptionOutcome.refused(self._group_id, "the gateway is shutting down"))

    def start_again(self) -> None:
        """After a bug: what the log knows of the adoption decides how it goes on."""
        self.is_expected |= self._machine is not None
        self._machine = None
        self._under_way.clear()
        self._rules.adopting.discard(self._group_id)
        self._fulfil(AdoptionOutcome.refused(self._group_id, "a bug: see the log"))

    def _begin(self, now_ms: int) -> None:
        """Begin what is wished, or go on with what the log has."""
        engine = self._engine
        if engine.phase is LogPhase.UNREADABLE:
            self._fulfil(AdoptionOutcome.refused(self._group_id, "its state log cannot be read"))
        if not engine.is_loaded:
            return
        self.is_expected = False
        found = engine.core.state.adoption
        if found is None and not self._wishes:
            return
        if engine.is_live or self._anchor.is_here:
            self._fulfil(AdoptionOutcome.refused(self._group_id, "it is hosted already"))
            return
        if self._under_way:
            self._fulfil(AdoptionOutcome.refused(self._group_id, STILL_ENDING))
            return
        if found is not None:
            self._log("warning", "adoption_resumed", is_locked=found.lock_generation is not None)
        guise = self._rules.standing.gateway.guise
        self._machine = Adopting(
            self._group_id,
            guise,
            self._rules.config,
            grace=engine.grace,
            found=found,
        )
        self._has_held = found is not None
        self._rules.adopting.add(self._group_id)
        self._carry_out(self._machine.start(now_ms))

    # -- the steps -------------------------------------------------------------------------------

    def finish(self, effect: MoveStep, result: steps.OfDriver, now_ms: int) -> None:
        """An effect was carried out, or has failed."""
        self._under_way.remove(effect)
        self.handle(result, now_ms)

    def handle(self, event: steps.Input, now_ms: int) -> None:
        """A step was taken, or a recalled member has said something."""
        machine = self._machine
        if machine is None:
            return
        if isinstance(event, steps.Described):
            if event.group is not None and machine.stage is AdoptionStage.PROPOSED:
                self._rules.watched.described(event.group)
            event = steps.Described(event.group, self._rules.watched.group(self._group_id))
        self._carry_out(machine.handle(event, now_ms))

    def settled(
        self, event: AdoptionMoved | AdoptionEnded, *, is_durable: bool, now_ms: int
    ) -> None:
        """The engine has decided on a step."""
        self.handle(_settled(event, is_durable=is_durable), now_ms)

    def advance(self, now_ms: int) -> None:
        """Take note of what the log has, and of the time."""
        if self._machine is None:
            self._begin(now_ms)
        if self._machine is not None:
            next_ms = self._machine.next_ms()
            if next_ms is not None and next_ms <= now_ms:
                self.handle(steps.TimePassed(), now_ms)
        if self._machine is not None and self._machine.is_over:
            self._end(self._machine, now_ms)

    def _carry_out(self, effects: Sequence[steps.Effect]) -> None:
        for effect in effects:
            match effect:
                case steps.Store(adoption):
                    self._engine.note(AdoptionMoved(adoption=adoption))
                case steps.TakeOver(ids):
                    self._ids = ids
                    self._engine.note(AdoptionEnded())
                case steps.Hold():
                    self._under_way.append(effect)
                    self._has_held = True
                    members = len(self._members)
                    self._effects += (
                        TellNow(group_events.AdoptionStarted(members=members)),
                        effect,
                    )
                case _:
                    self._under_way.append(effect)
                    self._effects.append(effect)

    def _end(self, machine: Adopting, now_ms: int) -> None:
        is_adopted = machine.stage is AdoptionStage.ADOPTED
        self._machine = None
        self._rules.adopting.discard(self._group_id)
        self.recall.end()
        held_ms = machine.held_ms if self._has_held else None
        if is_adopted:
            assert self._ids is not None
            self._anchor.take_over(self._ids, now_ms)
            self._standing.adopt(now_ms, self._ids.generation)
            self._effects += self._standing.take_outbox()
            self._engine.report_snapshot(are_topics_known=False)
            self._effects.append(TellNow(group_events.GroupAdopted(held_ms=machine.held_ms)))
            self._rules.watched.forget(self._group_id)
        elif self._has_held:
            # A late request of the anchor may still have taken the group.
            self._standing.forget("its adoption was undone")
            self._standing.pending_ids = PendingIds()
            self._standing.pending_ids.end_at(now_ms + REMEMBERED_MS)
            undone = group_events.AdoptionUndone(reason=machine.why, held_ms=machine.held_ms)
            self._effects.append(TellNow(undone))
            pause_ms = min(UNDONE_FOR_MS << self._standing.adoptions_undone, UNDONE_FOR_MS_MAX)
            self._standing.adopt_from_ms = now_ms + pause_ms
            self._standing.adoptions_undone += 1
        else:
            self._standing.adopt_from_ms = now_ms + REFUSED_FOR_MS
        self._fulfil(
            AdoptionOutcome(
                group_id=self._group_id,
                is_adopted=is_adopted,
                reasons=() if is_adopted else machine.reasons or (f"undone: {machine.why}",),
                held_ms=held_ms,
            )
        )

    def _fulfil(self, outcome: AdoptionOutcome) -> None:
        wishes, self._wishes = self._wishes, []
        for wish in wishes:
            wish.outcome = outcome
            self._effects.append(Conclude(wish))

    # -- requests meanwhile ----------------------------------------------------------------------

    def answer(self, call: Call, now_ms: int) -> Answer | None:
        """The answer to a call that is not relayed; None while it has to wait."""
        if self.treatment is Treatment.RECALLED:
            self._begin_recall()
            answer = self.recall.answer(call, self._holders)
            for heard in self.recall.take_heard():
                self.handle(heard, now_ms)
            return answer
        machine, event = self._machine, call.event
        if machine is None or not machine.vouches or not isinstance(event, HeartbeatReceived):
            return None
        member = self._members.get(event.member_id)
        is_current = (
            member is not None
            and event.instance_id in (None, member.instance_id)
            and event.generation == self._generation
        )
        return HeartbeatReply() if is_current else None

    @property
    def why(self) -> str:
        """Why the cluster answers."""
        return "it is about to be adopted"

    def store(self, call: Commits, topics: Topics, now_ms: int) -> Answer | StoreCommits | None:
        """Have the commits of a recalled member stored under the ids of the leader's member, which
        guards the group."""
        self._begin_recall()
        guard = None if self._machine is None else self._machine.guard
        return self.recall.store(
            call, topics=topics, holders=self._holders, guard=guard, now_ms=now_ms
        )

    def _begin_recall(self) -> None:
        adoption = self._engine.core.state.adoption
        if adoption is not None and not self.recall.has_begun:
            config = self._rules.config_of(self._group_id)
            self.recall.begin(RecalledGroup(self._group_id, adoption.group, config))

    # -- small things ----------------------------------------------------------------------------

    @property
    def _holders(self) -> Container[str]:
        """The members that may still hold partitions while the adoption is undone."""
        return () if self._machine is None else self._machine.holders

    @property
    def _members(self) -> Mapping[str, ClassicGroupMember]:
        """By id, from the record of the adoption."""
        adoption = self._engine.core.state.adoption
        if adoption is not self._indexed:
            self._indexed = adoption
            members = () if adoption is None else adoption.group.members
            self._by_id = {each.member_id: each for each in members}
        return self._by_id

    @property
    def _generation(self) -> int:
        adoption = self._engine.core.state.adoption
        return -1 if adoption is None else adoption.group.generation

    def _log(self, level: Level, event: str, **fields: object) -> None:
        self._effects.append(Log(level, event, {"group_id": self._group_id, **fields}))


def _settled(event: AdoptionMoved | AdoptionEnded, *, is_durable: bool) -> steps.Input:
    """What the engine's decision means for the adoption."""
    why = "the state log failed"
    match event:
        case AdoptionMoved():
            return steps.Stored() if is_durable else steps.StoreFailed(why)
        case AdoptionEnded():
            return steps.TookOver() if is_durable else steps.TakeOverFailed(why)
