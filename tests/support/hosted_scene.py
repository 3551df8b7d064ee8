"""One hosted group as a script: requests, a cluster and a log that answer as the script decides,
and a clock that only `wait` advances.

Nothing runs by itself: there is no task, no socket and no sleep. An effect is answered immediately,
unless its kind is held back with `hold`; then `release` answers it, or the script feeds another
answer.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from coordinator.assignors import spec_of
from coordinator.assignors.uniform import assign_uniformly
from coordinator.consumer.topic_regex import match_topics
from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    AssignmentReceived,
    ClaimReceived,
    DeleteGroupReceived,
    OffsetFetchReceived,
    RegexesResolved,
    Request,
)
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from coordinator.interface.volatile_records import Token
from gateway.events.event import GatewayEvent
from gateway.groups.group_limits import GroupLimits
from gateway.hosting.answers import OF_MEMBERSHIP, GroupApi, RefusalReason
from gateway.hosting.calls import (
    AWAY,
    LOST,
    Call,
    Commit,
    CommitCodes,
    Commits,
    LearnTopics,
    LocateCoordinator,
    MakeRequest,
    ProbeBroker,
    Refused,
    Reserve,
    StoreCommits,
)
from gateway.hosting.effects import (
    AskCoordinator,
    Assign,
    Awaited,
    Compute,
    Effect,
    EmitNow,
    Forget,
    Load,
    LoadedGroup,
    Log,
    Look,
    ReportEvents,
    Resolve,
    Write,
    carry_out,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.group_routing import GroupRouting
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.inputs import (
    Asked,
    Damage,
    Done,
    Failed,
    Gone,
    Input,
    TimerFired,
)
from gateway.hosting.lookup_outcome import LiveMembers, LookupOutcome
from gateway.hosting.move_requests import AnyRequest
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import Adoption
from gateway.requests.commits import _commit
from gateway.requests.messages import api_of
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import coordinator
from tests.simulation.coordinator import FakeCoordinator, FakeGroup
from tests.support.commits import commit_of
from tests.support.engine_requests import (
    heartbeat_received,
    join_received,
    leave_received,
    native_received,
    sync_received,
)
from tests.support.group_requests import native_request
from tests.support.group_values import (
    Owned,
    make_topics,
)

GROUP = "orders"
OURS = Gateway(log_id="log-1", run_id=1)
anchored = partial(coordinator.anchored_group, group_id=GROUP)
"""What a look finds in the group with an anchor, or with several."""
DIRECT = LiveMembers("consumer", ("payments",), "range")
"""What a look finds in a group with a consumer of the cluster itself."""
LOOPS_MAX = 1_000
"""Answers at one instant, or wake-ups that do not advance the clock: more are an endless loop."""

T = TypeVar("T")


def hosting_rules(
    *,
    config: GroupConfig | None = None,
    can_anchor: bool = True,
    linger_ms: int = 60_000,
    host: tuple[str, ...] = ("*",),
    forward: tuple[str, ...] = (),
    adoption: Adoption = "manual",
    hold: tuple[str, ...] = (),
) -> HostingRules:
    """The rules of a gateway, for one scene or for several that share them."""
    config = config or GroupConfig(lost_commit_hold_ms=None)
    return HostingRules(
        config=config,
        gateway=OURS,
        longest_session_ms=60_000,
        host_patterns=host,
        forward_patterns=forward,
        adoption=adoption,
        can_anchor=can_anchor,
        linger_ms=linger_ms,
        hold_patterns=hold,
    )


class HostedScene:
    """A group, its clients, the cluster and the log."""

    def __init__(
        self,
        rules: HostingRules | None = None,
        *,
        group_id: str = GROUP,
        limits: GroupLimits | None = None,
        **how: Any,
    ) -> None:
        """`how`: the rules, if they are not shared."""
        self.limits = limits or GroupLimits(8)
        self.rules = rules or hosting_rules(**how)
        self.now_ms = 1_000_000
        self.group = HostedGroup(GroupRouting(group_id, self.rules))
        self.topics = make_topics(foo=3)
        self.calls: list[Call] = []
        self.at_rest: list[Call] = []
        """The calls that went the short way. A commit can do so twice: sent, and stored."""
        self.held: set[type[Any]] = set()
        self.pending: deque[Awaited] = deque()
        """What waits for an answer, the oldest first."""

        self.coordinator = FakeCoordinator()
        self.coordinator_failure: str | None = None
        """Why the coordinator does not answer the anchor."""
        self.found: LookupOutcome | None = None
        """What a look finds; if None, what the coordinator knows."""
        self.is_at_coordinator: bool | None = True
        self.topics_failure = ""
        self.is_broker_there = True
        self.loses_commits = False
        """Whether the cluster stores commits and their answers are lost."""

        self.records: list[DurableRecord] = []
        self.damage: Damage | None = None
        """How writes fail."""
        self.is_too_large: Callable[[DurableRecord], bool] = lambda _record: False
        self.load_failure: str | None = None

        self.done: list[Awaited] = []
        """What has been answered."""
        self.lines: list[Log] = []
        self.events: list[GatewayEvent] = []
        self.sent: list[tuple[Token, AnchorIds | None]] = []
        """Commits that the cluster received, and the anchor's ids in them."""

    # -- driving ---------------------------------------------------------------------------------

    def feed(self, event: Input) -> None:
        """Give the group an input, and answer what follows, unless it is held back."""
        self._take(event)
        self.run()

    def _take(self, event: Input) -> None:
        effect = self.group.take_at_rest(event, self.now_ms)
        if effect is None:
            self.record(self.group.handle(event, self.now_ms))
            self.limits.follow(self.group)
        else:
            self.at_rest.append(effect.call)
            carry_out(effect, self)

    def record(self, effects: Iterable[Effect]) -> None:
        """Take the group's effects."""
        for effect in effects:
            carry_out(effect, self)

    # -- the surroundings of the group -----------------------------------------------------------

    def log(self, line: Log) -> None:
        self.lines.append(line)

    def report(self, events: ReportEvents | EmitNow) -> None:
        match events:
            case EmitNow(event):
                self.events.append(event)
            case ReportEvents(batches):
                self.events += (event for batch in batches for event in batch.events)

    def answer(self, call: Call) -> None:
        """The call has its answer."""

    def conclude(self, request: AnyRequest) -> None:
        """The request for a move has its outcome."""

    def start_work(self, effect: Awaited) -> None:
        self.pending.append(effect)

    start_action = reserve = start_work

    # -- answering -------------------------------------------------------------------------------

    def run(self) -> None:
        """Answer everything that is not held back."""
        for _ in range(LOOPS_MAX):
            free = (effect for effect in self.pending if type(effect) not in self.held)
            effect = next(free, None)
            if effect is None:
                return
            self.pending.remove(effect)
            self._take(self.answer_to(effect))
        raise AssertionError(f"the group asks without end: {[*map(type, self.done)][-10:]}")

    def hold(self, *kinds: type[Any]) -> None:
        """Keep effects of these kinds waiting."""
        self.held |= set(kinds)

    def release(self, *kinds: type[Any]) -> None:
        """Answer these kinds from now on."""
        self.held -= set(kinds)
        self.run()

    def take(self, kind: type[T]) -> T:
        """The oldest waiting effect of this kind, which the script answers itself."""
        for effect in self.pending:
            if isinstance(effect, kind):
                self.pending.remove(effect)
                return effect
        raise AssertionError(f"no {kind.__name__} is waiting, only {[*self.pending]}")

    def waits(self, kind: type[Any]) -> int:
        """How many effects of this kind wait."""
        return sum(isinstance(effect, kind) for effect in self.pending)

    def count(self, kind: type[Any]) -> int:
        """How many effects of this kind were answered."""
        return sum(isinstance(effect, kind) for effect in self.done)

    def count_requests(self, kind: type[Struct]) -> int:
        """How often the anchor has sent this kind of request, answered or not."""
        asks = [
            effect for effect in (*self.done, *self.pending) if isinstance(effect, AskCoordinator)
        ]
        return sum(isinstance(ask.message, kind) for ask in asks)

    def wait(self, length_ms: int) -> None:
        end_ms, loops = self.now_ms + length_ms, 0
        while (at_ms := self.group.next_ms()) is not None and at_ms <= end_ms:
            loops = loops + 1 if at_ms <= self.now_ms else 0
            assert loops < LOOPS_MAX, "the group asks to be woken without end"
            self.now_ms = max(self.now_ms, at_ms)
            self.feed(TimerFired())
        self.now_ms = end_ms

    def wait_until(self, condition: Callable[[], object], at_most_ms: int = 60_000) -> None:
        """Let time pass until something is true."""
        end_ms = self.now_ms + at_most_ms
        while not condition():
            assert self.now_ms < end_ms, "it never happened"
            self.wait(100)

    def restart(self, **how: Any) -> "HostedScene":
        """Another process with the same log, in front of the same cluster. `how`: its rules."""
        rules = hosting_rules(config=self.rules.config, **how)
        other = HostedScene(rules, group_id=self.group.group_id)
        other.now_ms, other.coordinator, other.records = self.now_ms, self.coordinator, self.records
        return other

    # -- the cluster and the log -----------------------------------------------------------------

    def answer_to(self, effect: Awaited) -> Input:
        """What the cluster, the log or the client's task would answer now."""
        self.done.append(effect)
        match effect:
            case Reserve():
                refused = self.limits.reserve(self.group, effect, self.now_ms)
                return Done(effect) if refused is None else Failed(effect, refused)
            case LocateCoordinator():
                if self.is_at_coordinator is None:
                    return Failed(effect, "nobody answers")
                return Done(effect, self.is_at_coordinator)
            case LearnTopics():
                if self.topics_failure:
                    return Failed(effect, self.topics_failure)
                return Done(effect, self.topics)
            case ProbeBroker():
                return Done(effect, self.is_broker_there)
            case StoreCommits(_call, commits, ids):
                codes: CommitCodes = {token: self._commit_result(token, ids) for token in commits}
                return Done(effect, codes)
            case Look():
                is_scripted = self.found is not None
                group_id = self.group.group_id
                return Done(effect, self.found if is_scripted else self.coordinator.look(group_id))
            case Load():
                return self._load(effect)
            case Write():
                return self._write(effect)
            case Forget():
                return Done(effect)
            case Compute(compute):
                try:
                    compute()
                except Exception as error:  # as the driver does
                    return Failed(effect, error)
                return Done(effect)
            case Resolve(resolution):
                matched = match_topics(resolution.regexes, self.topics.by_name)
                version = self.topics.names_version
                return Done(effect, RegexesResolved(topics=matched, version=version))
            case Assign(computation):
                target = assign_uniformly(spec_of(computation))
                return Done(effect, AssignmentReceived(epoch=computation.epoch, target=target))
            case AskCoordinator(message):
                if self.coordinator_failure is not None:
                    return Failed(effect, self.coordinator_failure)
                return Done(effect, self.coordinator.answer(message))
            case _:
                raise TypeError(f"{effect} has no answer")

    def _commit_result(self, token: Token, ids: AnchorIds | None) -> frozenset[int] | str:
        if not self.is_broker_there:
            return AWAY
        self.sent.append((token, ids))
        return LOST if self.loses_commits else frozenset({self.code_of_commit(ids)})

    def code_of_commit(self, ids: AnchorIds | None) -> int:
        """The cluster's answer to a commit under these ids."""
        return self.coordinator.code_of_commit(self.group.group_id, ids)

    def _load(self, load: Load) -> Input:
        if self.load_failure is not None:
            return Failed(load, self.load_failure)
        engine = GroupEngine(self.group.group_id, self.rules.config_of(self.group.group_id))
        engine.load(self.records, now_ms=self.now_ms)
        return Done(load, LoadedGroup(engine, self.topics))

    def _write(self, write: Write) -> Input:
        durable = write.batch.durable
        is_too_large = any(map(self.is_too_large, durable))
        damage = Damage.REFUSED if is_too_large else self.damage
        self.limits.log_health.on_write(self.group.group_id, damage, self.now_ms)
        if damage is not None:
            return Failed(write, damage)
        self.records += durable
        self.events += (
            event for decision in write.batch.decisions for event in decision.reported.events
        )
        return Done(write)

    @property
    def in_cluster(self) -> FakeGroup:
        return self.coordinator.group(self.group.group_id)

    # -- requests --------------------------------------------------------------------------------

    def call(self, api: GroupApi, make: MakeRequest | None, **how: Any) -> Call:
        """Send a request; it may wait for its answer."""
        known: dict[str, Any] = {"knows_topics": True, "is_at_coordinator": True, **how}
        call = Call(api=api, make=make, **known)
        if api in OF_MEMBERSHIP:
            assert make is not None
            call.make, call.event = None, make(call.token, self.topics)
        return self.ask(call)

    def ask(self, call: Call) -> Call:
        self.calls.append(call)
        self.feed(Asked(call))
        return call

    def disconnect(self, call: Call) -> None:
        """The client disconnects."""
        self.feed(Gone(call))

    def join(
        self,
        member_id: str = "",
        *,
        topics: Iterable[str] = ("foo",),
        owned: Owned | None = None,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        **how: Any,
    ) -> Call:
        make = _making(
            join_received,
            member_id,
            topics=topics,
            owned=owned,
            instance_id=instance_id,
            protocol_type=protocol_type,
            session_timeout_ms=session_timeout_ms,
        )
        return self.call(GroupApi.JOIN, make, **how)

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, Owned] | None = None
    ) -> Call:
        return self.call(GroupApi.SYNC, _making(sync_received, member_id, generation, assignments))

    def beat(self, member_id: str, generation: int, **how: Any) -> Call:
        make = _making(heartbeat_received, member_id, generation)
        return self.call(GroupApi.HEARTBEAT, make, **how)

    def leave(self, member_id: str) -> Call:
        return self.call(GroupApi.LEAVE, _making(leave_received, member_id))

    def native(
        self,
        member_id: str,
        epoch: int = JOIN_EPOCH,
        *,
        owned: Owned | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        **how: Any,
    ) -> Call:
        """A ConsumerGroupHeartbeat. With epoch 0 it has all fields that joining needs."""
        api = api_of(native_request(self.group.group_id, member_id, epoch))
        make = _making(
            native_received,
            member_id,
            epoch,
            owned=owned,
            regex=regex,
            instance_id=instance_id,
            rebalance_timeout_ms=60_000 if epoch == JOIN_EPOCH else -1,
        )
        return self.call(api, make, **how)

    def commit(self, member_id: str = "", epoch: int = -1, of: Owned | None = None) -> Commits:
        """An OffsetCommit, by default of a consumer that assigns itself."""
        return self.commits((member_id, epoch, of))

    def commits(self, *requests: tuple[str, int, Owned | None], **how: Any) -> Commits:
        """OffsetCommits of one client that arrive together."""
        commits = [
            commit_of_client(member_id, epoch, of or {"foo": [0]})
            for member_id, epoch, of in requests
        ]
        known: dict[str, Any] = {"knows_topics": True, "is_at_coordinator": True, **how}
        call = Commits(
            api=GroupApi.COMMIT,
            commits={commit.token: commit for commit in commits},
            **known,
        )
        self.ask(call)
        return call

    def fetch(self, of: Owned) -> Call:
        """An OffsetFetch without a member."""
        return self.call(
            GroupApi.FETCH,
            lambda token, topics: OffsetFetchReceived(
                token=token, member_id=None, epoch=-1, partitions=topics.partitions(of.items())
            ),
        )

    def delete(self) -> Call:
        """A DeleteGroups, as far as the engine decides it."""
        return self.call(GroupApi.ADMIN, lambda token, _: DeleteGroupReceived(token=token))

    def claim(self) -> Call:
        """The command `adopt`, for a group without members in the cluster."""
        make: MakeRequest = lambda token, _: ClaimReceived(token=token)  # noqa: E731
        call = Call(api=GroupApi.ADMIN, make=make, is_placed=True, knows_topics=True)
        self.ask(call)
        return call

    def free(self) -> Call:
        """An admin's request that needs the group empty in the cluster."""
        return self.call(GroupApi.ADMIN, None)

    # -- situations ------------------------------------------------------------------------------

    def native_member(self, member_id: str = "n") -> ConsumerHeartbeatReply:
        """A member of the new protocol, which has joined."""
        reply = self.native(member_id).answer
        assert isinstance(reply, ConsumerHeartbeatReply), reply
        assert reply.error is ErrorCode.NONE
        return reply

    def classic_member(self) -> JoinGroupReply:
        """A Stable classic group with one member, which has all partitions."""
        first = self.join().answer
        assert isinstance(first, JoinGroupReply), first
        call = self.join(first.member_id)
        self.wait_until(lambda: call.answer)
        joined = call.answer
        assert isinstance(joined, JoinGroupReply), joined
        assert joined.error is ErrorCode.NONE
        member_id = joined.member_id
        self.sync(member_id, joined.generation, {member_id: {"foo": (0, 1, 2)}})
        return joined

    def events_named(self, name: str) -> list[Mapping[str, Any]]:
        """The fields of all events of this name."""
        return [event.fields for event in self.events if event.name == name]

    def log_names(self) -> list[str]:
        return [line.event for line in self.lines]


def cause_of(call: Call) -> RefusalReason:
    """Why the gateway refused the call, or its only commit."""
    answer: object = call.answer
    if isinstance(answer, Mapping):
        (outcome,) = answer.values()
        answer = outcome.refused
    assert isinstance(answer, Refused), call.answer
    return answer.cause


def error_of(call: Call) -> ErrorCode:
    """The engine's code for the call."""
    assert call.answer is not None, f"still {call.stage}"
    error = getattr(call.answer, "error", None)
    assert error is not None, call.answer
    return ErrorCode(error)


def commit_of_client(member_id: str, epoch: int, of: Owned) -> Commit:
    """An OffsetCommit of these partitions, as the gateway reads it."""
    offsets = {topic: dict.fromkeys(numbers, 0) for topic, numbers in of.items()}
    return _commit(commit_of(offsets, member_id=member_id, epoch=epoch), version=9)


def _making(make: Callable[..., Request], *values: Any, **fields: Any) -> MakeRequest:
    return lambda token, _topics: make(*values, token=token, **fields)
