"""Who answers for a group: the gateway, or the cluster.

A group with a driver decides for itself. For any other, the cluster is asked who is in it, unless
that was asked lately, once for all who wait. What can be answered then needs no driver: the cluster
answers, or the log of a group without members.
"""

from collections.abc import Callable, Iterable
from functools import partial

import trio

from coordinator.engine import GroupEngine
from coordinator.group.load import (
    has_members,
)
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.batches import batches, in_steps
from gateway.cluster.shared_lookups import SharedLookups
from gateway.groups.group_drivers import GroupDrivers
from gateway.groups.group_reporter import carry_out_now
from gateway.groups.group_work import Services, locate
from gateway.hosting.answers import JOINS, RefusalReason
from gateway.hosting.calls import (
    Answer,
    Call,
    Commits,
    MakeRequest,
    Outcome,
    refuse,
)
from gateway.hosting.effects import EmitNow, Log, refusal_line
from gateway.hosting.forwarded import Client
from gateway.hosting.group import watch_occupants
from gateway.hosting.group_routing import HERE, MOVING, GroupRouting, RoutingDecision
from gateway.hosting.inputs import MoveRequested, Relayed
from gateway.hosting.lookup_outcome import LookupOutcome
from gateway.hosting.move_requests import ReleaseRequest
from gateway.hosting.routes import answer_elsewhere
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import Mode
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.log import StateLogError
from kafka_codecs.declaration import Struct


class GroupRouter:
    """Decides about requests that add no member."""

    def __init__(self, rules: HostingRules, services: Services, drivers: GroupDrivers) -> None:
        self._rules = rules
        self._services = services
        self._drivers = drivers
        self._state_log = services.state_log
        self._journal = services.journal
        self._clock = services.clock
        self._lookups: SharedLookups[RoutingDecision | None] = SharedLookups()
        self.on_watched: Callable[[str], None] = lambda _group_id: None
        """Called when all members of a forwarded group have become known."""

    async def answer_without_driver(self, group_id: str, call: Call) -> Answer | None:
        """The answer to a call that adds no member, if nothing of the group is in memory and the
        call would change nothing of it. None if the group itself must be asked.

        A group that is not hosted costs a lookup in the cluster, if there was none lately, and the
        call that the cluster then answers. It must be in `relaying` before anything else happens.
        """
        if call.api in JOINS or self._drivers.needs_driver(group_id):
            return None
        decision = self._find_recent_decision(group_id, call.owner)
        if decision is None:
            decision = await self._look_once(group_id, call.owner)
        if decision is None:
            return None
        if decision.mode is Mode.HOSTED:
            return None if decision.has_anchor else await self._refusal_from_log(group_id, call)
        answer = answer_elsewhere(decision, call)
        self._services.counts.record_answer(answer)
        return answer

    async def is_forwarded(self, group_id: str, owner: QuotaKey) -> bool:
        """Whether the cluster answers for the group, by a lookup that begins now. False while an
        anchor is looked for that has to leave. `owner`: whose request names the group."""
        driver = self._drivers.by_id.get(group_id)
        if driver is not None and driver.group.move.seeks_anchor:
            return False
        outcome = await self._services.cluster_reader.look_up(group_id)
        return self.decide_on(group_id, outcome, owner).mode is Mode.FORWARDED

    async def find_decisions(
        self, group_ids: Iterable[str], owner: QuotaKey | None = None
    ) -> dict[str, RoutingDecision]:
        """Who answers for each group, for requests that cannot add a member. A group with members
        here stays here; unknown groups are looked up together. `owner`: whose request it is."""
        decisions: dict[str, RoutingDecision] = {}
        for batch in batches(tuple(dict.fromkeys(group_ids))):
            unknown = []
            async for group_id in in_steps(batch):
                decision = self._find_recent_decision(group_id, owner)
                if decision is None:
                    unknown.append(group_id)
                else:
                    decisions[group_id] = decision
            looks = await self._services.cluster_reader.look_up_all(unknown)
            async for group_id, outcome in in_steps(looks.items()):
                decisions[group_id] = self.decide_on(group_id, outcome, owner)
            await trio.lowlevel.checkpoint()
        return decisions

    def record_relayed(
        self, group_id: str, client: Client, request: Struct, answer: Struct
    ) -> None:
        """Learn from what the cluster has answered. Only a group that may be adopted needs a driver
        for it."""
        routing = self._drivers.get_routing(group_id)
        if group_id in self._drivers.by_id or self._may_adopt(routing, answer):
            relayed = Relayed(client, request, answer)
            self._drivers.driver(group_id, client.owner).feed(relayed)
        else:
            now_ms = self._clock.now_ms()
            routing.record_relayed(client.connection, request, answer, now_ms)
            self._rules.watched.record_relayed(group_id, client, request, answer, now_ms)
        for described_id in self._rules.watched.take_described():
            self.on_watched(described_id)

    def record_relayed_commit(self, group_id: str, call: Commits) -> None:
        """Learn from commits that go to the cluster."""
        self._rules.watched.record_commit(group_id, call)

    def _may_adopt(self, routing: GroupRouting, answer: Struct) -> bool:
        """Whether this answer may be a reason to adopt the group."""
        is_unresumed = routing.group_id in self._drivers.unresumed
        is_reason = not is_unresumed and routing.invites_adoption(answer)
        return is_reason and routing.may_be_adopted(self._clock.now_ms())

    async def decide_from_log(self, group_id: str, make: MakeRequest) -> Reply | None:
        """The engine's reply for a group that is not in memory and has no members in the log, at
        the cost of reading it: nothing is loaded, written or told. None if the group itself must be
        asked."""
        engine = await self._engine_in_log(group_id)
        if engine is None:
            return None
        topics = Topics()
        step = engine.handle(make(0, topics), now_ms=self._clock.now_ms(), topics=topics)
        ((_token, reply),) = step.replies
        return reply

    async def _engine_in_log(self, group_id: str) -> GroupEngine | None:
        """The engine of a group that is not in memory and has no members in the log. None for any
        other, or if the log cannot be read."""
        if self._drivers.needs_driver(group_id):
            return None
        try:
            records = await self._state_log.read(group_id)
        except StateLogError:
            return None
        if has_members(records) or group_id in self._drivers.by_id:  # it has got one
            return None
        return self._drivers.engine_of(group_id, records)

    async def _look_once(self, group_id: str, owner: QuotaKey | None) -> RoutingDecision | None:
        """The decision by a lookup in the cluster. None if the group has got a driver, which has
        looked itself, or will."""
        decision = await self._lookups.run(group_id, partial(self._look, group_id, owner))
        return None if self._drivers.needs_driver(group_id) else decision

    async def _look(self, group_id: str, owner: QuotaKey | None) -> RoutingDecision | None:
        outcome = await self._services.cluster_reader.look_up(group_id)
        if self._drivers.needs_driver(group_id):
            return None
        decision = self.decide_on(group_id, outcome, owner)
        watch_occupants(self._rules.watched, group_id, outcome, decision)
        return decision

    async def _refusal_from_log(self, group_id: str, call: Call) -> Answer | None:
        """What the engine refuses, by the log. None if it would change the group, as a commit does
        that is stored."""
        if isinstance(call, Commits) and not all(item.has_member for item in call.items):
            return None  # only a member's commit can be refused
        if call.is_at_coordinator is None:
            call.is_at_coordinator = await locate(self._services, group_id, call)
        if not call.is_at_coordinator:
            is_known = call.is_at_coordinator is not None
            cause = (
                RefusalReason.NOT_AT_COORDINATOR if is_known else RefusalReason.COORDINATOR_UNKNOWN
            )
            answer = refuse(cause)
            self._services.counts.record_answer(answer)
            return answer
        engine = await self._engine_in_log(group_id)
        if engine is None:
            return None
        topics, now_ms = Topics(), self._clock.now_ms()
        replies: dict[Token, Reply] = {}
        for item in call.items:
            if item.make is not None:
                item.event = item.make(item.token, topics)
            assert item.event is not None
            step = engine.handle(item.event, now_ms=now_ms, topics=topics)
            ((_token, reply),) = step.replies
            if step.records or (isinstance(call, Commits) and not reply.error):
                return None
            replies[item.token] = reply
        for item in call.items:
            if (reply := replies[item.token]).reason:
                line = refusal_line(item, reply)
                carry_out_now(line, group_id, self._journal)
        if isinstance(call, Commits):
            return {token: Outcome(decision=reply) for token, reply in replies.items()}
        return replies[call.token]

    def _find_recent_decision(
        self, group_id: str, owner: QuotaKey | None
    ) -> RoutingDecision | None:
        if self._drivers.is_live(group_id):
            return HERE
        if self._drivers.is_moving(group_id):
            return MOVING
        return self._drivers.remember_routing(group_id, owner).recent_decision(self._clock.now_ms())

    def decide_on(
        self, group_id: str, outcome: LookupOutcome, owner: QuotaKey | None
    ) -> RoutingDecision:
        if self._drivers.is_live(group_id):  # members have come
            return HERE
        if self._drivers.is_moving(group_id):
            return MOVING
        routing = self._drivers.remember_routing(group_id, owner)
        decision = routing.take(
            outcome, self._clock.now_ms(), is_held=self._drivers.is_held(group_id)
        )
        for effect in routing.take_outbox():
            assert isinstance(effect, Log | EmitNow)
            carry_out_now(effect, group_id, self._journal, owner)
        if routing.is_left and decision.has_anchor:
            self._drivers.driver(group_id, owner).feed(MoveRequested(ReleaseRequest()))
        return decision
