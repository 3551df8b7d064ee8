"""One connection of a client: its faults, and what the gateway does with its requests.

A connection handles its requests in order, one at a time. When it breaks, the request or its answer
may be lost, or the request arrives late, after others that the client has sent on its next
connection. An error may replace the answer of an applied step. As in the gateway, a connection
makes a call of each request, and does what the group wants done for it: commits go to the cluster
on the client's own connection.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ClaimReceived,
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    HeartbeatReceived,
    InstallAssignmentReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    LeaverStayed,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, Reply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.data_path.call_times import CallTimes
from gateway.data_path.group_requests import SLOW_FROM_S
from gateway.groups.group_driver import CLOSES_WITHIN_S
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.calls import (
    AWAY,
    LOST,
    Call,
    Commit,
    Commits,
    Forwarded,
    LearnTopics,
    LocateCoordinator,
    PendingAction,
    ProbeBroker,
    StoreCommits,
)
from gateway.hosting.forwarded import Client
from gateway.hosting.identity import AnchorIds
from gateway.hosting.inputs import Done, EngineEvent, Failed, Gone, Input, Relayed
from gateway.hosting.lookup_outcome import LookupOutcome
from gateway.quotas.quota_key import QuotaKey
from gateway.requests.forwarding import shown_to_member
from gateway.requests.member_apis import why_withheld
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.cluster import GROUP, TIMEOUT_MS, TRIP_MS_MAX
from tests.simulation.cluster import Commit as CommitOnTheWay
from tests.simulation.driver import Answer
from tests.simulation.messages import VERSION, answer_message, request_message
from tests.simulation.process import Applied, Process

if TYPE_CHECKING:
    from tests.simulation.network import Line, Network

DELAY_MS_MAX = 40
LATE_MS_MAX = 8_000
"""The longest delay of a request on a connection that its client has abandoned."""
ADMIN = "admin"
"""The name of the client that is not a consumer."""
SLOW_MS_MAX = 3_000
"""The longest delay of an answer on a busy machine. Later answers wait behind it."""
NOTICE_MS_MAX = 500
"""The longest time until a client notices that its connection broke."""
GONE_MS_MAX = 2_000
"""The longest time until the gateway notices that a client has gone."""
REFUSED = "the cluster refuses it"
"""The reason in an answer that is the cluster's own."""
FORWARDED = "the cluster answers"
"""The reason in an answer of the cluster to a request that the gateway passed on."""
OWNER = QuotaKey("127.0.0.1")
"""All clients have one address."""
ERRORS_INSTEAD = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""The gateway's answers when it lost the group or the cluster after its decision."""


class Fate(Enum):
    """The fate of one request."""

    FINE = auto()
    LOST = auto()
    LATE = auto()
    ANSWER_LOST = auto()
    SLOW = auto()
    """The answer takes longer than some clients wait."""
    ERROR_INSTEAD = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Ask:
    """A request on its way; `number` counts the requests of its client."""

    request: Request
    heard: Callable[[Answer], None]
    lost: Callable[[], None]
    positions: Mapping[Partition, int] = field(default_factory=dict)
    fate: Fate = Fate.FINE
    number: int = 0
    has_arrived: bool = False
    follows_answers: bool = True
    """Whether the client had all answers of its group before when it arrived."""


class Connection:
    """One connection of a client, to the process that was there when it was opened."""

    def __init__(self, network: "Network", owner: "Line", process: Process) -> None:
        self.is_broken = False
        network.newest += 1
        self.number = network.newest
        self._network = network
        self._owner = owner
        self._process = process
        self._outstanding: dict[Ask, None] = {}
        self._inbox: deque[Ask] = deque()
        self._served: list[Ask] = []
        """The requests under way: one, or some commits."""
        self._call: Call | None = None
        self._sent: list[CommitOnTheWay] = []
        self._codes: dict[Token, int] = {}
        """The cluster's answers to commits, which the client gets."""
        self._held_up: deque[Ask] | None = None
        """The requests that the network holds up, if it does."""
        self._last_arrival_ms = self._last_answer_ms = 0
        self._member_id = ""
        """Whose heartbeats it carries, if that is a native member."""
        self._lacks_answer = False
        """Whether the client got an error in place of the answer to a heartbeat, and no assignment
        since."""
        self._is_closed = False
        self._served_ms = 0
        """Since when the requests under way are."""
        self._calls = CallTimes()

    def send(self, ask: Ask) -> None:
        """Send a request, which meets its fate."""
        network, world = self._network, self._network.world
        ask.fate = network.fate(ask.request)
        self._outstanding[ask] = None
        match ask.fate:
            case Fate.LOST:
                self.break_up()
            case Fate.LATE:
                self.break_up()
                world.counts["late requests"] += 1
                world.after(world.between(1, LATE_MS_MAX), self._arrive_late, ask)
                likely_overtaken_ms = LATE_MS_MAX // 8
                arrive = partial(self._arrive_late, ask)
                world.after(likely_overtaken_ms, network.late.append, arrive)
            case Fate.FINE | Fate.ANSWER_LOST | Fate.SLOW | Fate.ERROR_INSTEAD:
                delay_ms = world.between(1, DELAY_MS_MAX)
                arrival_ms = max(self._last_arrival_ms, world.now_ms + delay_ms)
                self._last_arrival_ms = arrival_ms
                world.after(arrival_ms - world.now_ms, self._arrive, ask)

    def break_up(self, *, by_client: bool = False) -> None:
        """Break the connection, or let its client close it. Both sides soon notice. The client
        loses all unanswered requests."""
        if self.is_broken:
            return
        self.is_broken, self._is_closed = True, by_client
        self._give_up()
        self._network.cluster.end_relayed(self._sent)
        self._expect_gone()

    def _give_up(self) -> None:
        world = self._network.world
        notice_ms = world.between(0, NOTICE_MS_MAX)
        for ask in self._outstanding:
            world.after(notice_ms, ask.lost)
        self._outstanding.clear()

    def set_aside(self, *, is_held_up: bool) -> None:
        """Stay open while the client continues on another connection. It waits for no answer here,
        but what it has sent arrives; if that `is_held_up`, perhaps much later."""
        self._give_up()
        if is_held_up and self._held_up is None:
            self._held_up = deque()
            world = self._network.world
            world.after(world.between(1, LATE_MS_MAX), self._let_through)
            self._network.late.append(self._let_through)

    def _let_through(self) -> None:
        asks, self._held_up = self._held_up or (), None
        for ask in asks:
            self._arrive(ask)

    @property
    def process(self) -> Process:
        """The process at the other end."""
        return self._process

    @property
    def calls_within_ms(self) -> int:
        """How long calls on this connection took recently, at most."""
        return self._calls.longest_ms(self._network.world.now_ms / 1_000)

    def _expect_gone(self) -> None:
        """Let the gateway notice later, once it runs."""
        world, gone = self._network.world, partial(self._on_gone, self._call)
        world.after(world.between(0, GONE_MS_MAX), self._process.when_awake, gone)

    def _on_gone(self, call: Call | None) -> None:
        """The gateway notices that the client has gone."""
        self._inbox.clear()
        if self._is_closed and self._process.spoke_on.get(self._member_id) is self:
            self._process.disconnected.add(self._member_id)
        if call is None or call is not self._call:
            return
        if call.answer is None:
            self._process.feed(Gone(call))
            self._hold(self._sent)
        else:
            self._served, self._call = [], None
            self._process.end_relayed(call)

    def _hold(self, commits: Sequence[CommitOnTheWay]) -> None:
        """Where no anchor ends commits without an answer, time does."""
        cluster = self._network.cluster
        if not cluster.holds_anchors:
            cluster.hold(commits, self._network.hold_ms)

    def _arrive_late(self, ask: Ask) -> None:
        if not ask.has_arrived and not self._network.is_calm:
            self._arrive(ask)

    def _arrive(self, ask: Ask) -> None:
        if self._held_up is not None:
            self._held_up.append(ask)
            return
        ask.has_arrived = True
        if not self._process.is_alive:
            self.break_up()
        elif not self.is_broken or ask.fate is Fate.LATE or ask.fate is Fate.ANSWER_LOST:
            is_idle = self._call is None and not self._inbox
            ask.follows_answers = is_idle and not self._lacks_answer
            self._inbox.append(ask)
            self._serve_next()

    def _serve_next(self) -> None:
        if self._call is not None or not self._inbox:
            return
        self._served = served = [self._inbox.popleft()]
        while _is_commit(served[0]) and self._inbox and _is_commit(self._inbox[0]):
            served.append(self._inbox.popleft())
        for ask in served:
            self._owner.on_arrival(ask)
        self._network.world.counts["requests"] += len(served)
        self._served_ms = self._network.world.now_ms
        self._call = call = self._call_for(served)
        if self.is_broken:
            self._expect_gone()
        if isinstance(served[0].request, OffsetFetchReceived) and self._process.is_between:
            call.end(Forwarded("it changes its coordinator"))
            self._process.when_awake(partial(self.on_answer, call))
        else:
            self._process.ask(call, self)

    def _call_for(self, served: Sequence[Ask]) -> Call:
        network, process = self._network, self._process
        request = served[0].request
        known: dict[str, Any] = {
            "api": api_of(request),
            "token": request.token,
            "connection": self.number,
            "newest_connection": network.newest,
            "owner": OWNER,
            "is_at_coordinator": None if network.cluster.fails_now() else True,
            "knows_topics": process.topics is network.cluster.topics,
        }
        if isinstance(request, OffsetCommitReceived):
            commits = [self._commit_of(ask.request) for ask in served]
            if request.is_transactional:
                known["connection"] = None
            return Commits(commits={commit.token: commit for commit in commits}, **known)
        if isinstance(request, ConsumerHeartbeatReceived):
            self._member_id = request.member_id
            process.spoke_on[request.member_id] = self
            disconnected = frozenset(process.disconnected)
            process.disconnected.discard(request.member_id)
            request = replace(
                request,
                connection=self.number,
                newest_connection=network.newest,
                follows_answers=served[0].follows_answers,
                calls_within_ms=self.calls_within_ms,
            )
            if request.member_epoch == JOIN_EPOCH and request.instance_id is not None:
                request = replace(request, disconnected=disconnected)
        is_admins = known["api"] is GroupApi.ADMIN or isinstance(request, OffsetDeleteReceived)
        is_placed_fetch = isinstance(request, OffsetFetchReceived) and process.group.is_live
        is_foreign = (
            isinstance(request, JoinGroupReceived)
            and request.protocol_type != CONSUMER_PROTOCOL_TYPE
        )
        return Call(
            event=request,
            is_placed=is_admins or is_placed_fetch,
            is_foreign=is_foreign,
            **known,
        )

    def _commit_of(self, request: Request) -> Commit:
        assert isinstance(request, OffsetCommitReceived)
        return Commit(
            token=request.token,
            make=lambda _token, _topics: request,
            topic_names=request.topic_names,
            has_member=bool(request.member_id),
            order_keys=frozenset((request.member_id,) if request.member_id else request.partitions),
        )

    # -- pending actions -------------------------------------------------------------------------

    def do(self, pending_action: PendingAction) -> None:
        """Carry out an action of the call."""
        world, cluster = self._network.world, self._network.cluster
        fails = cluster.fails_now()
        delay_ms = world.between(1, TIMEOUT_MS if fails else TRIP_MS_MAX)
        match pending_action:
            case LocateCoordinator() | LearnTopics() if fails:
                world.after(
                    delay_ms, self._report, pending_action, Failed(pending_action, "nobody answers")
                )
            case LocateCoordinator():
                world.after(delay_ms, self._report, pending_action, Done(pending_action, True))
            case LearnTopics():
                world.after(delay_ms, self._on_learned, pending_action)
            case ProbeBroker():
                world.after(delay_ms, self._report, pending_action, Done(pending_action, not fails))
            case StoreCommits(_call, tokens) if fails:
                away = Done(pending_action, dict.fromkeys(tokens, AWAY))
                world.after(delay_ms, self._report, pending_action, away)
            case StoreCommits(_call, tokens, ids):
                self._store(pending_action, tokens, ids)

    def _report(self, pending_action: PendingAction, result: Input) -> None:
        if pending_action.call.answer is None:
            self._process.feed(result)

    def _on_learned(self, pending_action: LearnTopics) -> None:
        self._report(pending_action, Done(pending_action, self._network.cluster.topics))

    def _store(
        self, pending_action: StoreCommits, tokens: Sequence[Token], ids: AnchorIds | None
    ) -> None:
        """Send commits to the cluster, one behind the other. Without an answer to one of them, the
        connection to the cluster is broken, and so are the answers to the others."""
        network = self._network
        codes: dict[Token, frozenset[int] | str] = {}
        self._sent = sent = [
            network.commit_of(ask, ids, self._owner.name, self._process.number)
            for ask in self._served
            if ask.request.token in tokens
        ]

        def on_commit_answer(commit: CommitOnTheWay, code: int | None) -> None:
            if code is None:
                self._hold(sent[len(codes) :])
                codes.update((lost.request.token, LOST) for lost in sent[len(codes) :])
            else:
                codes[commit.request.token] = frozenset({code})
                self._codes[commit.request.token] = code
            if len(codes) == len(sent):
                network.world.after(0, self._report, pending_action, Done(pending_action, codes))
                if code is None:
                    self.break_up()

        network.cluster.send(sent, on_commit_answer)

    # -- what the cluster answers ----------------------------------------------------------------

    def _relay(self, call: Call, reason: str) -> None:
        """Have the cluster answer the requests under way, on the client's own connection."""
        if self.is_broken:
            return  # nothing more is relayed until the gateway notices
        network, (first, *_) = self._network, self._served
        match first.request:
            case OffsetFetchReceived() as fetch:
                self._process.end_relayed(call)
                reply: Reply = fetch.refuse(GroupError(ErrorCode.NONE, FORWARDED))
                self._end_relayed(call, {first: (reply, None)})
            case OffsetCommitReceived():
                self._relay_commits(call)
            case PrepareAssignmentReceived() | InstallAssignmentReceived() as request:
                # No cluster has these, so `ask_cluster` refuses them.
                self._process.end_relayed(call)
                reply = request.refuse(GroupError(ErrorCode.GROUP_ID_NOT_FOUND, reason))
                self._end_relayed(call, {first: (reply, None)})
            case request:
                relayed = partial(self._on_relayed, call, first, reason)
                network.cluster.relay(request, relayed)

    def _relay_commits(self, call: Call) -> None:
        network, replies = self._network, dict[Ask, tuple[Reply, Applied | None]]()
        assert isinstance(call, Commits)
        self._process.rules.watched.record_commit(GROUP, call)
        asks = {ask.request.token: ask for ask in self._served}
        self._sent = sent = [
            network.commit_of(ask, None, self._owner.name, self._process.number, is_relayed=True)
            for ask in self._served
        ]

        def on_commit_answer(commit: CommitOnTheWay, code: int | None) -> None:
            if call is not self._call:
                return
            if code is None:
                self._process.end_relayed(call)
                self.break_up()
                return
            ask = asks[commit.request.token]
            reason = GroupError(ErrorCode(code), REFUSED if code else FORWARDED)
            replies[ask] = (ask.request.refuse(reason), None)
            if len(replies) == len(asks):
                self._process.when_awake(partial(self._commits_relayed, call, replies))

        network.cluster.send(sent, on_commit_answer)

    def _commits_relayed(
        self, call: Call, replies: Mapping[Ask, tuple[Reply, Applied | None]]
    ) -> None:
        self._process.end_relayed(call)
        self._end_relayed(call, replies)

    def _on_relayed(
        self, call: Call, ask: Ask, reason: str, reply: Reply | None, at_ms: int, topics: Topics
    ) -> None:
        """The cluster has answered a request, or closed the connection."""
        if call is self._call:
            applied = None if reply is None else (reply, Applied(at_ms, topics, 0))
            self._process.when_awake(partial(self._record_relayed, call, ask, reason, applied))

    def _record_relayed(
        self, call: Call, ask: Ask, reason: str, answered: tuple[Reply, Applied] | None
    ) -> None:
        """Do as `MemberApis` does with an answer of the cluster."""
        if call is not self._call:
            return
        process, request = self._process, ask.request
        if answered is None:
            process.end_relayed(call)
            self.break_up()
            return
        reply, applied = answered
        message = request_message(request, GROUP)
        answer = shown_to_member(message, VERSION, answer_message(reply), reason)
        code = getattr(answer, "error_code", 0)
        if code != reply.error:
            reply = request.refuse(GroupError(ErrorCode(code), reason))
        client = Client(
            client_id=getattr(request, "client_id", self._owner.name),
            client_host="/127.0.0.1",
            owner=OWNER,
            connection=self.number,
        )
        process.feed(Relayed(client, message, answer))
        process.end_relayed(call)
        cause = why_withheld(answer, is_moving=process.group.is_moving)
        if cause is RefusalReason.HOLDER_CHANGED:
            looked = partial(self._on_look, call, ask, reply, applied)
            self._network.cluster.look(lambda outcome: process.when_awake(partial(looked, outcome)))
            return
        if cause is not None:
            reply = request.refuse(GroupError(code_for(cause, call.api), cause.value))
        self._end_relayed(call, {ask: (reply, applied)})

    def _on_look(
        self, call: Call, ask: Ask, reply: Reply, applied: Applied, outcome: LookupOutcome | None
    ) -> None:
        if not self._process.is_forwarded(outcome):
            cause = RefusalReason.HOLDER_CHANGED
            error = GroupError(code_for(cause, call.api), cause.value)
            reply = ask.request.refuse(error)
        self._end_relayed(call, {ask: (reply, applied)})

    def _end_relayed(self, call: Call, replies: Mapping[Ask, tuple[Reply, Applied | None]]) -> None:
        if call is not self._call:
            return
        self._served, self._call = [], None
        for ask, (reply, applied) in replies.items():
            self._network.world.counts["requests relayed"] += 1
            self._answer(ask, reply, applied, is_groups=False, is_relayed=True)
        self._network.world.after(0, self._serve_next)

    # -- answers ---------------------------------------------------------------------------------

    def on_answer(self, call: Call) -> None:
        """The call has its answer, which the client gets unless it is lost."""
        if isinstance(call.answer, Forwarded):
            self._relay(call, call.answer.reason)
            return
        served, self._served, self._call = self._served, [], None
        now_ms = self._network.world.now_ms
        if now_ms - self._served_ms >= SLOW_FROM_S * 1_000:
            self._calls.record((now_ms - self._served_ms) / 1_000, now_ms / 1_000)
        for ask in served:
            reply = self._network.reply_to(ask.request, call, self._process)
            code = self._codes.pop(ask.request.token, 0)
            if reply is not None and not reply.error and code:
                reply = ask.request.refuse(GroupError(ErrorCode(code), REFUSED))
            if reply is None:
                self.break_up()
            else:
                applied = self._process.applied_at.pop(ask.request.token, None)
                self._answer(ask, reply, applied, is_groups=reply is call.answer)
        self._network.world.after(0, self._serve_next)

    def _answer(
        self,
        ask: Ask,
        reply: Reply,
        applied: Applied | None,
        *,
        is_groups: bool,
        is_relayed: bool = False,
    ) -> None:
        """`applied`: when the answer took effect."""
        network, world = self._network, self._network.world
        if ask.fate is Fate.ERROR_INSTEAD:
            reason = GroupError(world.dice.choice(ERRORS_INSTEAD), "its step was applied")
            reply = ask.request.refuse(reason)
            world.counts["errors instead of answers"] += 1
            is_groups = False
        if ask.fate is Fate.ANSWER_LOST:
            self.break_up()
        if self.is_broken:
            return
        if isinstance(reply, ConsumerHeartbeatReply):
            self._lacks_answer |= not is_groups
            self._lacks_answer &= reply.assignment is None
        if not is_relayed:
            network.leaves(self._owner.name, ask.request, reply, applied, self._process)
        self._watch_leaver(ask.request)
        answer = Answer(
            reply=reply,
            at_ms=applied.at_ms if applied is not None else world.now_ms,
            topics=applied.topics if applied is not None else network.cluster.topics,
        )
        if isinstance(ask.request, OffsetFetchReceived) and not reply.error:
            answer = replace(answer, offsets=network.fetch(self._owner.name, ask.request))
        is_slow = ask.fate is Fate.SLOW
        delay_ms = world.between(1, SLOW_MS_MAX if is_slow else DELAY_MS_MAX)
        arrival_ms = max(self._last_answer_ms, world.now_ms + delay_ms)
        self._last_answer_ms = arrival_ms
        world.after(arrival_ms - world.now_ms, self._hear, ask, answer)

    def _watch_leaver(self, request: Request) -> None:
        """The gateway sees whether the client of a member that has left closes its connection."""
        match request:
            case LeaveGroupReceived(members=(leaver, *_)):
                member_id = leaver.member_id
            case ConsumerHeartbeatReceived(member_epoch=epoch) if epoch == LEAVE_EPOCH:
                member_id = request.member_id
            case _:
                return
        engine = self._process.group.engine
        if engine.is_loaded and member_id in engine.core.state.member_slots:
            delay_ms = int(CLOSES_WITHIN_S * 1_000)
            self._network.world.after(delay_ms, self._end_slot, member_id)

    def _end_slot(self, member_id: str) -> None:
        if not self.is_broken and self._process.is_alive:
            self._network.world.counts["leavers that stayed connected"] += 1
            self._process.feed(EngineEvent(LeaverStayed(member_id)))

    def _hear(self, ask: Ask, answer: Answer) -> None:
        if ask in self._outstanding:
            del self._outstanding[ask]
            ask.heard(answer)


def api_of(request: Request) -> GroupApi:
    """The api of a request, as far as the gateway's errors differ."""
    match request:
        case JoinGroupReceived():
            return GroupApi.JOIN
        case SyncGroupReceived():
            return GroupApi.SYNC
        case HeartbeatReceived():
            return GroupApi.HEARTBEAT
        case LeaveGroupReceived():
            return GroupApi.LEAVE
        case ConsumerHeartbeatReceived(member_epoch=epoch):
            if epoch == JOIN_EPOCH:
                return GroupApi.CONSUMER_JOIN
            return GroupApi.CONSUMER_HEARTBEAT if epoch > 0 else GroupApi.CONSUMER_LEAVE
        case OffsetCommitReceived(is_transactional=is_transactional):
            return GroupApi.TXN_COMMIT if is_transactional else GroupApi.COMMIT
        case OffsetFetchReceived():
            return GroupApi.FETCH
        case OffsetDeleteReceived():
            return GroupApi.OFFSET_DELETE
        case DeleteGroupReceived() | ClaimReceived() | ConfigsReceived():
            return GroupApi.ADMIN
        case PrepareAssignmentReceived() | InstallAssignmentReceived():
            return GroupApi.ASSIGNMENT


def _is_commit(ask: Ask) -> bool:
    return isinstance(ask.request, OffsetCommitReceived) and not ask.request.is_transactional
