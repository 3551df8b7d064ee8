"""The calls of one group that have no answer yet: what each waits for, how long, and its end.

They wait for a look at the cluster, for the log, for the anchor, or for a move. The anchor joins
for calls, and leaves again if no member was admitted.
"""

import heapq
from collections.abc import Collection

from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import JOINS, GroupApi, RefusalReason
from gateway.hosting.calls import Answer, Call, Commits, PendingAction, Reserve, refuse
from gateway.hosting.commits import CommitsInFlight
from gateway.hosting.effects import AnswerClient, Look
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.identity import NO_IDS, AnchorIds
from gateway.hosting.move import Move
from gateway.hosting.states import AnchorPhase, Stage

JOIN_WAIT_MS = 10_000
"""How long a join waits for the anchor: more than Kafka's initial rebalance delay of 3 s."""
MEMBER_WAIT_MS = 3_000
"""How long a member's requests wait for the anchor, counted from the loss of the group. The
member's next heartbeat queues behind them, and a session may be as short as 6 s."""
ENDING = "the gateway is shutting down"


class OpenCalls:
    """Calls in the order of their arrival."""

    def __init__(self, parts: GroupParts, move: Move) -> None:
        self.by_token: dict[Token, Call] = {}
        self.waiting: dict[Token, Call] = {}
        """The calls that wait, in the order in which they began to: the first one to join leads the
        group."""
        self.commits = CommitsInFlight(
            parts.engine, parts.anchor, self.member_ids, can_anchor=parts.rules.can_anchor
        )
        self.is_looking = False
        """Whether a look at the cluster is under way: one at a time, for all that wait for one."""
        self._is_look_of_anchor = False
        """Whether it began after the anchor had asked for it."""
        self._limits: list[tuple[int, Token]] = []
        """A heap of the times when calls stop waiting."""
        self._held_joins: dict[str, Call] = {}
        """The newest join that waits for the end of a move, of each member or instance."""
        self._engine, self._anchor = parts.engine, parts.anchor
        self._rules, self._effects = parts.rules, parts.effects
        self._move = move

    def member_ids(self) -> Collection[str]:
        """The ids of the members, also while they move."""
        return self._engine.members or self._move.member_ids

    def add(self, call: Call, now_ms: int) -> None:
        """A client has sent a request."""
        self.by_token[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        if isinstance(call, Commits):
            self.commits.queue(call)

    def start_action(self, pending_action: PendingAction) -> None:
        """Have an action carried out on the client's connection."""
        pending_action.call.pending_action = pending_action
        self._effects.append(pending_action)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, call: Call) -> None:
        """Wait for something that is certain to come."""
        self.waiting[call.token] = call

    def wait_at_most(self, call: Call, give_up_ms: int, now_ms: int) -> None:
        """Wait until then, or until an earlier limit of the call. Refuses it if that is over."""
        if call.give_up_ms is None:
            call.give_up_ms = give_up_ms
        if call.give_up_ms <= now_ms:
            self._give_up(call)
        else:
            self.wait(call)
            heapq.heappush(self._limits, (call.give_up_ms, call.token))

    def wait_for_look(self, call: Call) -> None:
        """Wait for a look at the cluster, which begins now unless one is under way."""
        self.wait(call)
        self.begin_look()

    def begin_look(self) -> None:
        """Look at the cluster, unless a look is under way."""
        if not self.is_looking:
            self.is_looking, self._is_look_of_anchor = True, self._anchor.wants_look
            self._effects.append(Look())

    def end_look(self) -> bool:
        """The look has ended. Returns whether the anchor waits for it: one that began before the
        anchor was lost may have seen the old anchor."""
        self.is_looking = False
        return self._anchor.wants_look and self._is_look_of_anchor

    def wait_for_move(self, call: Call, now_ms: int) -> None:
        """Wait for the end of a move.

        A client that has waited for too long opens another connection and joins again. Its older
        join is refused: after the newer one it would replace a static member that is alive.
        """
        newest, older = call, None
        if key := _key_of_joiner(call):
            other = self._held_joins.get(key, call)
            if other.connection != call.connection:
                older, newest = sorted((other, call), key=lambda join: join.connection or 0)
            self._held_joins[key] = newest
        if older is not None:
            self.refuse(older, RefusalReason.MOVING, "its client has joined again")
        if older is not call:
            # Native clients give a heartbeat up after its interval.
            is_join = call.api is GroupApi.JOIN
            wait_ms = JOIN_WAIT_MS if is_join else MEMBER_WAIT_MS
            self.wait_at_most(call, now_ms + wait_ms, now_ms)

    def next_ms(self) -> int | None:
        """When the next call stops waiting."""
        while self._limits and self._limits[0][1] not in self.waiting:
            heapq.heappop(self._limits)
        return self._limits[0][0] if self._limits else None

    def expire(self, now_ms: int) -> None:
        """Refuse the calls that have waited for too long."""
        while self._limits and self._limits[0][0] <= now_ms:
            call = self.waiting.get(heapq.heappop(self._limits)[1])
            if call is not None and call.give_up_ms is not None and call.give_up_ms <= now_ms:
                self._give_up(call)

    def _give_up(self, call: Call) -> None:
        match call.stage:
            case Stage.QUEUED:
                assert isinstance(call, Commits)
                self.commits.waited_in_vain(call)
                self.refuse(call, RefusalReason.COMMIT_IN_FLIGHT)
            case Stage.PLACING:
                self.refuse(call, RefusalReason.MOVING)
            case Stage.RELEASING:
                self.refuse(call, RefusalReason.NOT_ANCHORED, "the anchor has not left yet")
            case _:
                self.refuse(call, RefusalReason.NOT_ANCHORED, self._anchor.reason)

    # -- the anchor ------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether the group has members and its anchor, so that another member takes nothing."""
        return self._engine.is_live and (
            not self._rules.can_anchor or self._anchor.phase is AnchorPhase.STABLE
        )

    @property
    def is_join_waiting(self) -> bool:
        """Whether a member is about to join."""
        return any(call.stage is Stage.ADMITTING for call in self.waiting.values())

    def anchor_ids(
        self, call: Call, wait_ms: int, now_ms: int, *, since: int = -1
    ) -> AnchorIds | None:
        """The anchor's ids, confirmed after request number `since`. None if the call has to wait
        for them, or was refused.

        In a group with members, all requests stop waiting `wait_ms` after the group was lost,
        because they queue one behind the other.
        """
        has_given_way = call.give_up_ms is not None and self._anchor.has_given_way
        if not self._rules.can_anchor:
            return NO_IDS
        if has_given_way or self._engine.is_ending:
            reason = self._anchor.reason if has_given_way else ENDING
            self.refuse(call, RefusalReason.NOT_ANCHORED, reason)
            return None
        if not self.need_anchor(call, now_ms):
            return None
        ids = self._anchor.ids(now_ms, since=since)
        if ids is None:
            waited_ms = self._anchor.lost_for_ms(now_ms) if self._engine.is_live else 0
            self.wait_at_most(call, now_ms + wait_ms - waited_ms, now_ms)
        return ids

    def has_anchor_place(self, call: Call) -> bool:
        """Whether the group has an anchor, or may have one as far as the limits tell. If that is
        unknown, the call waits. A group with members counts already."""
        if self._anchor.is_here or self._engine.is_live or call.has_anchor_place:
            return True
        if not self._rules.can_anchor:
            return True
        self._effects.append(Reserve(call, is_anchored=True, is_hosted=False))
        return False

    def need_anchor(self, call: Call, now_ms: int) -> bool:
        """Start the anchor if there is none, and keep it. Refuses the call during a move."""
        if self._move.bars_anchor:
            self.refuse(call, RefusalReason.MOVING)
            return False
        self._anchor.need(now_ms, is_live=self._engine.is_live)
        return True

    def drop_anchor(self) -> None:
        """Release the group without lingering, because no member was admitted."""
        if not self.is_join_waiting:
            self._anchor.drop()

    # -- the end ---------------------------------------------------------------------------------

    def refuse(self, call: Call, cause: RefusalReason, reason: str = "") -> None:
        """Answer the call with an error of the gateway itself."""
        refusal = refuse(cause, reason)
        if isinstance(call, Commits) and call.stage is Stage.STORING:
            self.commits.refuse(call, refusal)
            self.answer(call, call.outcomes)
        else:
            self.answer(call, refusal)

    def answer(self, call: Call, answer: Answer) -> None:
        """Give the client the answer, unless it has one."""
        if call.answer is None:
            self.by_token.pop(call.token, None)
            self.waiting.pop(call.token, None)
            if (key := _key_of_joiner(call)) and self._held_joins.get(key) is call:
                del self._held_joins[key]
            if isinstance(call, Commits):
                self.commits.on_answer(call)
            call.end(answer)
            self._effects.append(AnswerClient(call))

    def refuse_waiting(self) -> None:
        """Refuse what waits no longer than for some time: the gateway is shutting down."""
        for call in tuple(self.waiting.values()):
            if call.give_up_ms is not None:
                self.refuse(call, RefusalReason.NOT_ANCHORED, ENDING)


def _key_of_joiner(call: Call) -> str:
    """The identity of the member that joins; empty if it has none yet."""
    match call.event:
        case JoinGroupReceived() | ConsumerHeartbeatReceived() as event if call.api in JOINS:
            return event.instance_id or event.member_id
        case _:
            return ""
