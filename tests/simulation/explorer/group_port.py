"""The door between a moving world and the shipped hosting machine.

A world sends requests and commands in, carries out the effects that come out, and reports `done` or
`failed` for each. No other module of a moving world knows how the machine is driven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.engine import GroupEngine
from coordinator.group.load import has_members
from coordinator.interface.events import GroupLost, Request
from coordinator.interface.records import AdoptionRecord, DurableRecord, ReleaseRecord
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GenerationWentBack, GroupTaken
from gateway.hosting import effects, inputs
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import (
    LOST,
    Abandoned,
    Answer,
    Call,
    Commit,
    Commits,
    Forwarded,
    PendingAction,
    ProbeBroker,
    Reserve,
    StoreCommits,
)
from gateway.hosting.effects import Ask, Awaited, Effect, LoadedGroup
from gateway.hosting.forwarded import Client
from gateway.hosting.group import HostedGroup
from gateway.hosting.group_routing import GroupRouting
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.inputs import Damage, Input
from gateway.hosting.lookup_outcome import LookupOutcome
from gateway.hosting.move_requests import AdoptRequest, NewProtocol, ReleaseRequest
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import AdoptionStage, AnchorPhase, Mode, ReleaseStage, Stage
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.numbers import GROUP, LOG_ID
from tests.simulation.explorer.promises import promise
from tests.simulation.explorer.replies import reply_to
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import SESSION_TIMEOUT_MS, TOPIC, MakeCommit
from tests.simulation.messages import answer_message, request_message

LINGER_MS = 3_000
LOSSES = (GroupTaken, GenerationWentBack)
_INSTANT = (
    effects.Log | effects.ReportEvents | effects.EmitNow | effects.AnswerClient | effects.Conclude
)
"""Effects without a result."""


@dataclass(eq=False)
class GroupPort:
    """One process of the gateway, as far as it concerns the group."""

    group: HostedGroup
    topics: Topics
    effects: list[Awaited] = field(default_factory=list)
    """Effects that the world has not taken out yet."""
    calls: dict[Token, Call] = field(default_factory=dict)
    """Requests and commits of consumers that have no answer yet."""
    losses: list[GatewayEvent] = field(default_factory=list)
    """Events about the loss of the group that the world has not taken out yet."""

    @classmethod
    def start(
        cls, shape: Shape, run: int, topics: Topics, *, forwards: bool = False
    ) -> "GroupPort":
        """Start a process. `forwards`: whether `groups_forward` names the group."""
        rules = HostingRules(
            config=shape.config,
            can_anchor=True,
            linger_ms=LINGER_MS,
            gateway=Gateway(log_id=LOG_ID, run_id=run),
            longest_session_ms=SESSION_TIMEOUT_MS,
            host_patterns=() if shape.is_adoption else ("*",),
            forward_patterns=("*",) if forwards else (),
        )
        return cls(HostedGroup(GroupRouting(GROUP, rules)), topics)

    # -- state -----------------------------------------------------------------------------------

    @property
    def engine(self) -> GroupEngine:
        """The engine of the group here."""
        return self.group.engine.core

    @property
    def is_live(self) -> bool:
        """Whether the group has members here."""
        return self.group.is_live

    @property
    def is_moving(self) -> bool:
        """Whether an adoption or a release is under way or requested."""
        return self.group.is_moving

    @property
    def is_released(self) -> bool:
        """Whether the group stays with the cluster because it was released."""
        return self.group.routing.is_released

    @property
    def stage(self) -> AdoptionStage | ReleaseStage | None:
        """The stage of the adoption or release under way."""
        return self.group.move.stage

    @property
    def anchor(self) -> AnchorPhase:
        """The phase of the anchor."""
        return self.group.anchor.phase

    @property
    def held_generation(self) -> int | None:
        """The generation in which the anchor held the group last."""
        held = self.group.anchor._held
        return None if held is None else held.generation

    @property
    def is_loss_postponed(self) -> bool:
        """Whether the log did not take the loss of the group. Until it does, members continue, but
        no commit is decided."""
        return any(isinstance(happening, GroupLost) for happening in self.group.engine._happened)

    def is_confirming(self, token: Token) -> bool:
        """Whether the answer to a request waits until the cluster has confirmed the anchor."""
        call = self.calls.get(token)
        return call is not None and call.stage is Stage.CONFIRMING

    def next_ms(self) -> int | None:
        """The time of the next deadline."""
        return self.group.next_ms()

    # -- requests of consumers -------------------------------------------------------------------

    def request(self, api: GroupApi, event: Request, connection: int, now_ms: int) -> None:
        """A consumer's request has arrived."""
        call = Call(
            api=api,
            event=event,
            token=event.token,
            connection=connection,
            knows_topics=True,
            is_at_coordinator=True,
        )
        self.calls[event.token] = call
        self._feed(inputs.Asked(call), now_ms)

    def commit(self, token: Token, make: MakeCommit, connection: int, now_ms: int) -> None:
        """A consumer's commit has arrived."""
        commit = Commit(
            make=make,
            topic_names=frozenset((TOPIC,)),
            has_member=True,
            order_keys=frozenset((make.member_id,)),
            token=token,
        )
        call = self.calls[token] = Commits(
            api=GroupApi.COMMIT,
            token=token,
            connection=connection,
            commits={token: commit},
            knows_topics=True,
            is_at_coordinator=True,
        )
        self._feed(inputs.Asked(call), now_ms)

    def abandon(self, token: Token, now_ms: int) -> None:
        """The connection of a request is closed."""
        call = self.calls.pop(token, None)
        if call is not None and call.answer is None:
            self._feed(inputs.Gone(call), now_ms)

    def take_answers(self, now_ms: int) -> Sequence[tuple[Token, Reply | Forwarded | int | None]]:
        """Remove the calls that are answered. Returns replies to requests, the codes of commits,
        `Forwarded` for what the cluster has to answer, and None for what gets no answer."""
        for call in list(self.calls.values()):
            while isinstance(call.pending_action, ProbeBroker):
                self._feed(inputs.Done(call.pending_action, True), now_ms)
        answered = [call for call in self.calls.values() if call.answer is not None]
        for call in answered:
            del self.calls[call.token]
        return [(call.token, _translate(call)) for call in answered]

    def store_under(self, token: Token) -> tuple[str, AnchorIds | None]:
        """The route of a commit, `held`, `hosted` or `guarded`, and the ids of its sender."""
        call = self.calls[token]
        match call.pending_action:
            case StoreCommits(ids=ids):
                is_guarded = isinstance(call, Commits) and call.guarded is not None
                return ("guarded" if is_guarded else "hosted"), ids
            case _:
                return "held", None

    def on_stored(self, token: Token, code: int | None, now_ms: int) -> None:
        """The cluster has answered a commit; None: the answer is lost."""
        pending_action = self.calls[token].pending_action
        assert isinstance(pending_action, StoreCommits)
        result: frozenset[int] | str = LOST if code is None else frozenset((code,))
        self._feed(inputs.Done(pending_action, {token: result}), now_ms)

    def on_relayed(
        self, client_id: str, connection: int, request: Request, reply: Reply, now_ms: int
    ) -> None:
        """The cluster has answered a request that was forwarded."""
        client = Client(client_id=client_id, client_host="127.0.0.1", connection=connection)
        message = request_message(request, GROUP)
        self._feed(inputs.Relayed(client, message, answer_message(reply)), now_ms)

    def is_forwarded(self, cluster_members: LookupOutcome, now_ms: int) -> bool:
        """Whether the cluster answers for the group, as `Groups.is_forwarded` decides."""
        group = self.group
        if group.move.seeks_anchor:
            return False
        if group.is_live or group.is_moving:
            return not group.is_live
        decision = group.routing.take(cluster_members, now_ms, is_held=group.anchor.is_here)
        if group.routing.is_left and decision.has_anchor:
            self.release(NewProtocol(), now_ms)
        return decision.mode is Mode.FORWARDED

    def refresh(self, cluster_members: LookupOutcome, now_ms: int) -> None:
        """Look at the cluster again if the group is forwarded, as if a client had caused that."""
        routing = self.group.routing
        if routing.decision.mode is Mode.FORWARDED and not self.group.is_moving:
            routing.take(cluster_members, now_ms, is_held=self.group.anchor.is_here)

    # -- commands, and time ----------------------------------------------------------------------

    def adopt(self, now_ms: int) -> None:
        """An operator adopts the group."""
        self._feed(inputs.MoveRequested(AdoptRequest()), now_ms)

    def release(self, new_protocol: NewProtocol, now_ms: int) -> None:
        """An operator releases the group."""
        self._feed(inputs.MoveRequested(ReleaseRequest(new_protocol=new_protocol)), now_ms)

    def resume(self, log: Sequence[DurableRecord], new_protocol: NewProtocol, now_ms: int) -> None:
        """The process has started and finds the group in its log."""
        is_moving = any(map(_is_of_move, log))
        if is_moving or has_members(log):
            self._feed(inputs.Resumed(is_moving=is_moving), now_ms)
            if self.group.routing.is_configured:
                self.release(new_protocol, now_ms)

    def pass_time(self, now_ms: int) -> None:
        """A deadline is over."""
        self._feed(inputs.TimerFired(), now_ms)

    # -- effects ---------------------------------------------------------------------------------

    def take_losses(self) -> Sequence[GatewayEvent]:
        """Remove the events about the loss of the group."""
        losses, self.losses = self.losses, []
        return losses

    def take_effects(self) -> Sequence[Awaited]:
        """Remove the effects that have to be carried out."""
        new, self.effects = self.effects, []
        return new

    def on_done(self, effect: Awaited, result: object, now_ms: int) -> None:
        """An effect was carried out."""
        if isinstance(result, GroupEngine):
            result = LoadedGroup(result, self.topics)
        self._feed(inputs.Done(effect, result), now_ms)

    def on_failed(self, effect: Awaited, now_ms: int, *, is_uncertain: bool = False) -> None:
        """An effect has failed. `is_uncertain`: whether a write may have succeeded."""
        if isinstance(effect, effects.Write):
            damage = Damage.UNSURE if is_uncertain else Damage.NONE
            self._feed(inputs.Failed(effect, damage), now_ms)
        else:
            self._feed(inputs.Failed(effect, "no answer"), now_ms)

    def _feed(self, event: Input, now_ms: int) -> None:
        only = self.group.take_at_rest(event, now_ms)
        new = self.group.handle(event, now_ms) if only is None else (only,)
        for effect in new:
            if isinstance(effect, effects.Log):
                promise(effect.error is None, "the engine fails:", repr(effect.error))
            if isinstance(effect, effects.EmitNow) and isinstance(effect.event, LOSSES):
                self.losses.append(effect.event)
            # Pending actions are found in the calls.
            if not isinstance(effect, _INSTANT | PendingAction | Reserve):
                self.effects.append(effect)
        for effect in new:
            if isinstance(effect, Reserve):
                self._feed(inputs.Done(effect), now_ms)


def name_of_effect(effect: Effect) -> str:
    """The name of an effect in moves: its requester, or its type."""
    return effect.requester.value if isinstance(effect, Ask) else type(effect).__name__


def _is_of_move(record: DurableRecord) -> bool:
    """Whether the record belongs to an adoption or release under way."""
    match record:
        case AdoptionRecord():
            return True
        case ReleaseRecord(value=release):
            return release is not None and release.is_under_way
        case _:
            return False


def _translate(call: Call) -> Reply | Forwarded | int | None:
    match call.answer:
        case Forwarded() as forwarded:
            return forwarded
        case answer if isinstance(call, Commits):
            return _code_of_commit(answer)
        case Abandoned():
            return None
        case answer:
            assert answer is not None
            return reply_to(call.api, answer)


def _code_of_commit(answer: Answer | None) -> int:
    """The error code of a client's only commit."""
    if not isinstance(answer, Mapping):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (outcome,) = answer.values()
    if outcome.refused is not None:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if outcome.is_away:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return (
        outcome.decision.error if outcome.decision is not None else ErrorCode.UNKNOWN_SERVER_ERROR
    )
