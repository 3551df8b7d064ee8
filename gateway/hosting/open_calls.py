"""The calls of one group that have no answer yet: what each waits for, how long, and its end."""

from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi, Situation
from gateway.hosting.calls import Answer, Call, Commits, Errand, refused
from gateway.hosting.commits import CommitsInFlight
from gateway.hosting.effects import AnswerClient
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.join_order import JoinOrder
from gateway.hosting.looking import Looking
from gateway.hosting.states import Stage
from gateway.hosting.waiting import JOIN_PATIENCE_MS, MEMBER_PATIENCE_MS, WaitingCalls

ENDING = "the gateway is shutting down"


class OpenCalls:
    """Calls in the order of their arrival."""

    def __init__(self, parts: GroupParts, looking: Looking) -> None:
        self.by_token: dict[Token, Call] = {}
        self.waiting = WaitingCalls()
        """The calls that wait for a look, the log, the anchor or a move."""
        self.commits = CommitsInFlight(
            parts.engine, parts.anchor, can_anchor=parts.rules.can_anchor
        )
        self.is_ending = False
        """Whether the gateway is shutting down, so that nothing waits for the anchor any more."""
        self._held_joins = JoinOrder()
        """The joins that wait for the end of a move."""
        self._anchor = parts.anchor
        self._effects = parts.effects
        self._looking = looking

    def add(self, call: Call, now_ms: int) -> None:
        """A client has sent a request."""
        self.by_token[call.token] = call
        call.asked_ms, call.was_held = now_ms, self._anchor.is_here
        if isinstance(call, Commits):
            self.commits.arrived(call)

    # -- waiting ---------------------------------------------------------------------------------

    def run_errand(self, errand: Errand) -> None:
        """Have an errand carried out on the client's connection."""
        errand.call.errand = errand
        self._effects.append(errand)

    def wait_for_look(self, call: Call) -> None:
        """Wait for a look at the cluster, which begins now unless one is under way."""
        self.waiting.add(call)
        self._looking.begin()

    def wait_for_move(self, call: Call, now_ms: int) -> None:
        """Wait for the end of a move, unless the client has joined again since."""
        older = self._held_joins.add(call)
        if older is not None:
            self.refuse(older, Situation.MOVING, "its client has joined again")
        if older is not call:
            # Native clients give a heartbeat up after its interval.
            is_join = call.api is GroupApi.JOIN
            patience_ms = JOIN_PATIENCE_MS if is_join else MEMBER_PATIENCE_MS
            self.wait_at_most(call, now_ms + patience_ms, now_ms)

    def wait_at_most(self, call: Call, give_up_ms: int, now_ms: int) -> None:
        """Wait until then, or until an earlier limit of the call. Refuses it if that is over."""
        if not self.waiting.add_until(call, give_up_ms, now_ms):
            self._give_up(call)

    def expire(self, now_ms: int) -> None:
        """Refuse the calls that have waited for too long."""
        for call in self.waiting.take_overdue(now_ms):
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        match call.stage:
            case Stage.QUEUED:
                assert isinstance(call, Commits)
                self.commits.waited_in_vain(call)
                self.refuse(call, Situation.COMMIT_IN_FLIGHT)
            case Stage.PLACING:
                self.refuse(call, Situation.MOVING)
            case Stage.RELEASING:
                self.refuse(call, Situation.NOT_ANCHORED, "the anchor has not left yet")
            case _:
                self.refuse(call, Situation.NOT_ANCHORED, self._anchor.why)

    # -- the end ---------------------------------------------------------------------------------

    def refuse(self, call: Call, situation: Situation, why: str = "") -> None:
        """Answer the call with an error of the gateway itself."""
        refusal = refused(situation, why)
        if isinstance(call, Commits) and call.stage is Stage.STORING:
            self.commits.refuse(call, refusal)
            self.answer(call, call.outcomes)
        else:
            self.answer(call, refusal)

    def answer(self, call: Call, answer: Answer) -> None:
        """Give the client the answer, unless it has one."""
        if call.answer is None:
            self.by_token.pop(call.token, None)
            self.waiting.drop(call)
            self._held_joins.drop(call)
            if isinstance(call, Commits):
                self.commits.answered(call)
            call.end(answer)
            self._effects.append(AnswerClient(call))

    def end(self) -> None:
        """The gateway is shutting down: nothing waits from now on."""
        self.is_ending = True
        for call in self.waiting:
            if call.give_up_ms is not None:
                self.refuse(call, Situation.NOT_ANCHORED, ENDING)
