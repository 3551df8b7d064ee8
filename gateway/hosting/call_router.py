"""Finds out who answers a call: reads the table in `routes.py`, and does what it says.

A group with members here answers itself. For any other, the cluster may have to be asked first who
is in it.
"""

from gateway.hosting import hold
from gateway.hosting.answers import Situation
from gateway.hosting.calls import Answer, Call, Commits, Forwarded, Refused, StoreCommits, refused
from gateway.hosting.effects import refusal_line
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.move import Move
from gateway.hosting.routes import ROUTES, SITUATION_OF, CallKind, GroupSituation, Route
from gateway.hosting.standing import Verdict
from gateway.hosting.states import LogPhase


class CallRouter:
    """Decides who answers the calls of one group."""

    def __init__(self, parts: GroupParts, move: Move) -> None:
        self._parts = parts
        self._move = move

    def route(self, call: Call, now_ms: int) -> Route | Answer | StoreCommits:
        """Who answers the call, or the answer if that is not the group here."""
        situation, verdict = self._situation(call, now_ms)
        match route := ROUTES[situation, CallKind.of(call)]:
            case Route.HERE:
                return self._route_here(call)
            case Route.MOVE | Route.VOUCH:
                answer = self._answer_by_move(call, route, now_ms)
                return Route.AFTER_MOVE if answer is None else answer
            case Route.CLUSTER_UNLESS_HELD if hold.may_be_held(call, self._parts.config):
                if verdict is None:
                    return refused(Situation.MOVING)  # the look is the adoption's
                if not call.has_look:
                    return Route.AFTER_LOOK
                if call.held is not None:
                    self._parts.effects.append(refusal_line(self._parts.group_id, call, call.held))
                    return call.held
                return self._forward(call, verdict.why)
            case Route.CLUSTER | Route.CLUSTER_UNLESS_HELD:
                return self._forward(
                    call, self._move.why_forwarded if verdict is None else verdict.why
                )
            case Route.REFUSE:
                assert verdict is not None
                return refusal_by(verdict)
            case _:
                return route

    def _situation(self, call: Call, now_ms: int) -> tuple[GroupSituation, Verdict | None]:
        """The situation, and the verdict on the group if it follows from that."""
        engine = self._parts.engine
        if call.is_placed or engine.is_live:
            return GroupSituation.HERE, None
        if (situation := self._move.situation) is not None:
            return situation, None
        if engine.phase is LogPhase.LOADING:
            return GroupSituation.UNREAD, None
        verdict = self._parts.standing.verdict_for(call, now_ms)
        if verdict is None:
            return GroupSituation.UNKNOWN_TO_US, None
        return SITUATION_OF[verdict.mode], verdict

    def _route_here(self, call: Call) -> Route | Refused:
        """At another listener than the coordinator's, a broker would refuse the call."""
        if call.is_placed or call.is_at_coordinator:
            return Route.HERE
        if call.is_at_coordinator is None:
            return Route.AFTER_LOCATE
        return refused(Situation.NOT_AT_COORDINATOR)

    def _answer_by_move(
        self, call: Call, route: Route, now_ms: int
    ) -> Answer | StoreCommits | None:
        if route is Route.VOUCH:
            return self._move.vouch(call)
        if isinstance(call, Commits):
            return self._move.store(call, now_ms)
        return self._move.answer(call, now_ms)

    def _forward(self, call: Call, why: str) -> Answer:
        pending_ids = self._parts.standing.pending_ids
        reply = None if pending_ids is None else pending_ids.answer_repeated(call)
        return Forwarded(why) if reply is None else reply


def answer_elsewhere(verdict: Verdict, call: Call) -> Forwarded | Refused:
    """The answer to a call that adds no member to a group that the gateway does not host."""
    if ROUTES[SITUATION_OF[verdict.mode], CallKind.of(call)] is Route.REFUSE:
        return refusal_by(verdict)
    return Forwarded(verdict.why)


def refusal_by(verdict: Verdict) -> Refused:
    """The refusal of a call to a group that neither the gateway nor the cluster serves."""
    assert verdict.situation is not None
    return refused(verdict.situation, verdict.why)
