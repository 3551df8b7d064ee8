"""Who answers a call: the group here, the cluster, or the adoption or release under way.

A group with members here answers itself. For any other, the cluster may have to be asked first who
is in it.
"""

from enum import Enum, auto

from coordinator.interface.config import GroupConfig
from gateway.hosting import hold
from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.answers import ANSWERS, GroupApi, Situation
from gateway.hosting.calls import Answer, Call, Commits, Forwarded, Refused, StoreCommits
from gateway.hosting.effects import Effect, refusal_line
from gateway.hosting.group_adoption import GroupAdoption
from gateway.hosting.group_release import GroupRelease
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import Standing, Verdict
from gateway.hosting.states import LogPhase, Mode


class Place(Enum):
    """Who answers a call, or what has to come first."""

    HERE = auto()
    """The group here."""
    CLUSTER_WITHOUT_ANCHOR = auto()
    """The cluster, once the anchor has left the group."""
    AFTER_LOOK = auto()
    """A look at the cluster comes first."""
    AFTER_LOAD = auto()
    """The log is being read, and may have members of the group."""
    AFTER_MOVE = auto()
    """An adoption or release is under way."""
    AFTER_LOCATE = auto()
    """It is unknown whether the client is at the group's coordinator."""


class Placing:
    """Decides who answers the calls of one group."""

    def __init__(
        self,
        standing: Standing,
        rules: HostingRules,
        *,
        engine: LoggedEngine,
        adoption: GroupAdoption,
        release: GroupRelease,
        effects: list[Effect],
    ) -> None:
        """`effects` takes what the driver has to do."""
        self._standing = standing
        self._rules = rules
        self._engine = engine
        self._adoption = adoption
        self._release = release
        self._effects = effects

    @property
    def move(self) -> GroupAdoption | GroupRelease | None:
        """The adoption or release that is under way."""
        if self._release.is_under_way:
            return self._release
        return self._adoption if self._adoption.is_under_way else None

    def place(self, call: Call, now_ms: int) -> Place | Answer | StoreCommits:
        """Who answers the call, or the answer if that is not the group here."""
        if call.is_placed:
            return Place.HERE
        if not self._engine.is_live:
            elsewhere = self._by_move(call, now_ms)
            if elsewhere is None:
                elsewhere = self._by_verdict(call, now_ms)
            pending_ids = self._standing.pending_ids
            if pending_ids is not None and isinstance(elsewhere, Forwarded):
                return pending_ids.answer_repeated(call) or elsewhere
            if elsewhere is not None:
                return elsewhere
        if call.is_at_coordinator is None:
            return Place.AFTER_LOCATE
        return Place.HERE if call.is_at_coordinator else _refused(Situation.NOT_AT_COORDINATOR)

    def _by_move(self, call: Call, now_ms: int) -> Place | Answer | StoreCommits | None:
        """What an adoption or release makes of the call; None if the group answers as usual."""
        move = self.move
        treatment = None if move is None else move.treatment
        if move is None or treatment is None:
            return None
        if treatment is Treatment.FORWARDED and self._release.admits(call):
            if move is self._adoption and hold.may_be_held(call, self._config):
                return _refused(Situation.MOVING)  # the look is the adoption's
            return Forwarded(move.why)
        if treatment is Treatment.RECALLED and isinstance(call, Commits):
            outcome = move.store(call, self._engine.topics, now_ms)
        else:
            outcome = move.answer(call, now_ms)
        return Place.AFTER_MOVE if outcome is None else outcome

    def _by_verdict(self, call: Call, now_ms: int) -> Place | Answer | None:
        """What the log and the cluster say; None if the gateway hosts the group."""
        if call.is_foreign:
            return Place.CLUSTER_WITHOUT_ANCHOR
        if self._engine.phase is LogPhase.LOADING:
            return Place.AFTER_LOAD
        verdict = self._standing.verdict_for(call, now_ms)
        if verdict is None:
            return Place.AFTER_LOOK
        return None if verdict.mode is Mode.HOSTED else self._elsewhere(call, verdict)

    def _elsewhere(self, call: Call, verdict: Verdict) -> Place | Answer:
        """The gateway does not host the group. The cluster answers, unless that would be wrong in
        this situation or an operator holds the group."""
        answer = answer_elsewhere(verdict, call.api)
        if isinstance(answer, Refused):
            return answer
        if not call.has_look and hold.may_be_held(call, self._config):
            return Place.AFTER_LOOK
        if call.held is None:
            return answer
        self._effects.append(refusal_line(self._standing.group_id, call, call.held))
        return call.held

    @property
    def _config(self) -> GroupConfig:
        return self._rules.config_of(self._standing.group_id)


def answer_elsewhere(verdict: Verdict, api: GroupApi) -> Forwarded | Refused:
    """What becomes of a call to a group that the gateway does not host: the cluster answers, unless
    that would be wrong in this situation."""
    situation = verdict.situation
    if situation is not None and ANSWERS[situation, api] is not None:
        return _refused(situation, verdict.why)
    return Forwarded(verdict.why)


def _refused(situation: Situation, why: str = "") -> Refused:
    return Refused(situation, why or situation.value)
