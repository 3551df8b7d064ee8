"""The consumers of a small world: one request about the group at a time, and one commit.

They follow the protocol as Kafka's Java client does, without callbacks: a consumer gives up
partitions in the step in which it learns that it must. `simulation/native_client.py` and
`classic_client.py` have the richer habits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from coordinator.interface.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topic, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import leader
from tests.simulation.client import RETRIABLE

HEARTBEAT_INTERVAL_MS = 3_000
"""Equal to the anchor's, so that few different times occur."""
SESSION_TIMEOUT_MS = 9_000
REBALANCE_TIMEOUT_MS = 12_000
"""Longer than the session: a consumer that misses it has not heard from the group for a session."""
LIBRDKAFKA_REBALANCE_TIMEOUT_MS = 60_000
"""Several sessions, like the default of librdkafka."""

EMBEDDED_VERSION = 1
"""Without a generation, which is not needed: no two consumers state the same partition. The
canonical form does not look into bytes."""

TOPIC = "orders"
TOPIC_ID = UUID(int=0x0BDE_25)


class Kind(StrEnum):
    """The protocol that a consumer speaks."""

    NATIVE = "native"
    EAGER = "eager"
    COOPERATIVE = "cooperative"
    LIBRDKAFKA = "librdkafka"
    """A cooperative consumer of librdkafka."""


class Phase(StrEnum):
    """A classic consumer's next request."""

    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


def small_topics(partition_count: int) -> Topics:
    """The topics of a world: one."""
    topic = Topic(name=TOPIC, topic_id=TOPIC_ID, partition_count=partition_count)
    return Topics({TOPIC: topic}, version=1, names_version=1)


@dataclass(slots=True, eq=False, kw_only=True)
class Consumer(ABC):
    """One process, from its start to its end."""

    name: str
    kind: Kind
    member_id: str = ""
    epoch: int = -1
    claims: set[Partition] = field(default_factory=set)
    """The partitions that it consumes."""
    lease_over_ms: int = 0
    """From when on the group may take a silent consumer's partitions."""
    beat_due_ms: int = 0
    """When it sends its next request at the latest."""
    is_closing: bool = False
    is_over: bool = False
    """Whether the consumer has left, or an error has ended it."""
    is_fine: bool = False
    """Whether its latest heartbeat succeeded, and there was nothing to do since."""
    asked_ms: int = 0
    """When it sent the request that is unanswered."""
    died_of: str = ""
    is_fenced: bool = False
    """Whether the group has removed it for not giving up partitions in time. As with Kafka it
    learns that with its next heartbeat, and owns nothing in between."""
    has_lost_group: bool = False
    """Whether another party has had the group since it joined, so that no heartbeat may succeed."""

    @abstractmethod
    def has_something_to_say(self) -> bool:
        """Whether it sends a request before its next heartbeat is due."""

    @abstractmethod
    def ask(self, token: Token, fresh_id: UUID, now_ms: int) -> tuple[GroupApi, Request]:
        """Its next request."""

    @abstractmethod
    def hear(self, reply: Reply, now_ms: int) -> None:
        """The answer to that request."""

    @abstractmethod
    def miss(self, now_ms: int) -> None:
        """There is no answer."""

    @property
    @abstractmethod
    def may_commit(self) -> bool:
        """Whether it consumes as a member."""

    def retry(self, now_ms: int) -> None:
        """Send the request again, soon or late."""
        self.is_fine = False
        self.beat_due_ms = now_ms + HEARTBEAT_INTERVAL_MS

    def go_on(self, now_ms: int) -> None:
        """Send the next request immediately."""
        self.is_fine = False
        self.beat_due_ms = now_ms

    def close(self, now_ms: int) -> None:
        """Give up all partitions, and leave."""
        self.is_closing = True
        self.claims.clear()
        self.go_on(now_ms)

    def rest(self) -> None:
        """Send a heartbeat after the interval. The group keeps the session at least until a session
        timeout after the sending of a heartbeat that it answers."""
        self.beat_due_ms = self.asked_ms + HEARTBEAT_INTERVAL_MS
        self.lease_over_ms = 0 if self.is_fenced else self.asked_ms + SESSION_TIMEOUT_MS

    def die(self, error: ErrorCode) -> None:
        """End because of an error that is fatal to real clients."""
        self.is_over, self.died_of = True, error.name
        self.claims.clear()


@dataclass(slots=True, eq=False, kw_only=True)
class NativeConsumer(Consumer):
    """Speaks KIP-848. After an error or a lost answer its heartbeat is full."""

    kind: Kind = Kind.NATIVE
    epoch: int = JOIN_EPOCH
    states_all: bool = True
    states_owned: bool = False

    def __post_init__(self) -> None:
        self.member_id = self.name

    def has_something_to_say(self) -> bool:
        return self.is_closing or self.states_all or self.states_owned

    def ask(self, token: Token, fresh_id: UUID, now_ms: int) -> tuple[GroupApi, Request]:
        self.asked_ms = now_ms
        if self.is_closing:
            self.epoch = LEAVE_EPOCH
        api = {JOIN_EPOCH: GroupApi.CONSUMER_JOIN, LEAVE_EPOCH: GroupApi.CONSUMER_LEAVE}.get(
            self.epoch, GroupApi.CONSUMER_HEARTBEAT
        )
        is_full = self.states_all and not self.is_closing
        states_owned = (is_full or self.states_owned) and not self.is_closing
        self.states_all = self.states_owned = False
        return api, ConsumerHeartbeatReceived(
            token=token,
            version=1,
            member_id=self.member_id,
            member_epoch=self.epoch,
            client_id=self.name,
            client_host="/127.0.0.1",
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
            topic_names=(TOPIC,) if is_full else None,
            topic_regex="" if is_full else None,
            owned=frozenset(self.claims) if states_owned else None,
            fresh_id=fresh_id,
        )

    def hear(self, reply: Reply, now_ms: int) -> None:
        assert isinstance(reply, ConsumerHeartbeatReply)
        if self.is_closing:
            self.is_over = True
            return
        match reply.error:
            case ErrorCode.NONE:
                self.has_lost_group &= self.epoch > JOIN_EPOCH
                self.epoch, self.is_fine = reply.member_epoch, True
                self.rest()
                if reply.assignment is not None and reply.assignment != self.claims:
                    self.claims = set(reply.assignment)
                    self.states_owned, self.is_fine = True, False
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self.epoch, self.states_all = JOIN_EPOCH, True
                self.is_fenced = self.has_lost_group = False
                self.claims.clear()
                self.go_on(now_ms)
            case error if error in RETRIABLE:
                self.miss(now_ms)
            case error:
                self.die(error)

    def miss(self, now_ms: int) -> None:
        self.is_over = self.is_closing
        self.states_all = True
        self.retry(now_ms)

    @property
    def may_commit(self) -> bool:
        return self.epoch > 0 and not self.is_closing


@dataclass(slots=True, eq=False, kw_only=True)
class ClassicConsumer(Consumer):
    """Speaks the classic protocol, eager or cooperative."""

    topics: Topics
    instance_id: str | None = None
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    phase: Phase = Phase.JOINING
    joins_twice: bool = False
    """Whether the next JoinGroup is sent a second time before the first one is answered."""
    protocol: str | None = None
    leads_with: tuple[tuple[str, bytes], ...] = ()
    """The assignments that it made as the leader."""

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions during a rebalance."""
        return self.kind in (Kind.COOPERATIVE, Kind.LIBRDKAFKA)

    def has_something_to_say(self) -> bool:
        return self.is_closing or self.phase is not Phase.STABLE

    def ask(self, token: Token, fresh_id: UUID, now_ms: int) -> tuple[GroupApi, Request]:
        self.asked_ms = now_ms
        if self.is_closing:
            leaver = Leaver(member_id=self.member_id, instance_id=self.instance_id)
            return GroupApi.LEAVE, LeaveGroupReceived(token=token, members=(leaver,))
        match self.phase:
            case Phase.JOINING:
                return GroupApi.JOIN, self._join(token, fresh_id)
            case Phase.SYNCING:
                return GroupApi.SYNC, SyncGroupReceived(
                    token=token,
                    version=5,
                    member_id=self.member_id,
                    instance_id=self.instance_id,
                    generation=self.epoch,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocol_name=self.protocol,
                    assignments=self.leads_with,
                )
            case Phase.STABLE:
                return GroupApi.HEARTBEAT, HeartbeatReceived(
                    token=token,
                    member_id=self.member_id,
                    instance_id=self.instance_id,
                    generation=self.epoch,
                )

    def _join(self, token: Token, fresh_id: UUID) -> JoinGroupReceived:
        owned = leader.partitions_by_topic((TOPIC, partition.number) for partition in self.claims)
        subscription = Subscription(
            topics=(TOPIC,), owned_partitions=owned, generation_id=-1, rack_id=None
        )
        name = leader.STICKY if self.is_cooperative else "range"
        return JoinGroupReceived(
            token=token,
            version=9,
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.name,
            client_host="/127.0.0.1",
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=((name, encode_subscription(subscription, EMBEDDED_VERSION)),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            fresh_id=fresh_id,
        )

    def hear(self, reply: Reply, now_ms: int) -> None:
        if self.is_closing:
            self.is_over = True
            return
        match reply:
            case JoinGroupReply(error=ErrorCode.NONE):
                self._on_joined(reply)
                self.go_on(now_ms)
            case JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = reply.member_id
                self.go_on(now_ms)
            case SyncGroupReply(error=ErrorCode.NONE):
                self._install(reply.assignment)
                self.rest()
                if self.phase is Phase.JOINING:
                    self.go_on(now_ms)
            case HeartbeatReply(error=ErrorCode.NONE):
                self.is_fine = True
                self.rest()
            case _:
                self._on_refused(reply, now_ms)

    def _on_refused(self, reply: Reply, now_ms: int) -> None:
        match reply.error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin()
                self.go_on(now_ms)
            case ErrorCode.ILLEGAL_GENERATION:
                self._reset(now_ms)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                self._reset(now_ms)
            case error if error in RETRIABLE:
                self.miss(now_ms)
            case error:
                self.die(error)

    def _on_joined(self, reply: JoinGroupReply) -> None:
        self.member_id, self.epoch = reply.member_id, reply.generation
        self.protocol, self.phase = reply.protocol_name, Phase.SYNCING
        self.leads_with, self.has_lost_group = (), False
        if reply.leader == reply.member_id and not reply.skip_assignment:
            given = leader.assign(reply.protocol_name or "", reply.members, self.topics)
            self.leads_with = tuple(sorted(given.items()))

    def _install(self, assignment: bytes) -> None:
        """Give up partitions, then take new ones. A cooperative consumer that gave some up
        rejoins."""
        _version, decoded = decode_assignment(assignment)
        granted = self.topics.partitions(
            (e.topic, e.partitions) for e in decoded.assigned_partitions
        )
        is_short = bool(self.claims - granted)
        self.claims = set(granted)
        self.phase = Phase.JOINING if is_short else Phase.STABLE
        self.leads_with = ()

    def rejoin(self) -> None:
        """Begin a JoinGroup; an eager consumer first gives up its partitions."""
        self.phase, self.leads_with = Phase.JOINING, ()
        if not self.is_cooperative:
            self.claims.clear()

    def _reset(self, now_ms: int) -> None:
        self.epoch, self.is_fenced, self.has_lost_group = -1, False, False
        self.claims.clear()
        self.rejoin()
        self.go_on(now_ms)

    def miss(self, now_ms: int) -> None:
        self.is_over = self.is_closing
        if self.phase is Phase.SYNCING:
            self.rejoin()
        self.retry(now_ms)

    @property
    def may_commit(self) -> bool:
        return self.phase is Phase.STABLE and not self.is_closing


@dataclass(slots=True, eq=False, kw_only=True)
class LibrdkafkaConsumer(ClassicConsumer):
    """Keeps its partitions if its JoinGroup is refused, and claims them again in the next one.
    Without its member id, it sends that twice."""

    rebalance_timeout_ms: int = LIBRDKAFKA_REBALANCE_TIMEOUT_MS

    def hear(self, reply: Reply, now_ms: int) -> None:
        is_refusal = isinstance(reply, JoinGroupReply) and not self.is_closing
        match reply.error if is_refusal else ErrorCode.NONE:
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.epoch, self.joins_twice = "", -1, True
                self.go_on(now_ms)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.retry(now_ms)
            case _:
                ClassicConsumer.hear(self, reply, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeCommit:
    """Makes the engine's event of a commit."""

    member_id: str
    epoch: int
    numbers: tuple[int, ...]
    instance_id: str | None = None

    def __call__(self, token: Token, topics: Topics) -> OffsetCommitReceived:
        return OffsetCommitReceived(
            token=token,
            version=9,
            member_id=self.member_id,
            instance_id=self.instance_id,
            epoch=self.epoch,
            topic_names=frozenset((TOPIC,)),
            partitions=topics.partitions([(TOPIC, self.numbers)]),
        )


def start(
    name: str, kind: Kind, topics: Topics, now_ms: int, *, is_static: bool = False
) -> Consumer:
    """A new process. `is_static`: whether a classic one has an instance id."""
    instance_id = name if is_static else None
    made: Consumer
    match kind:
        case Kind.NATIVE:
            made = NativeConsumer(name=name)
        case Kind.LIBRDKAFKA:
            made = LibrdkafkaConsumer(name=name, kind=kind, topics=topics, instance_id=instance_id)
        case _:
            made = ClassicConsumer(name=name, kind=kind, topics=topics, instance_id=instance_id)
    made.go_on(now_ms)
    return made


def positions_of(
    consumer: Consumer | None, before: Mapping[int, int], offsets: Sequence[int]
) -> dict[int, int]:
    """Where the consumer reads on in each partition that it claims: where it was, or in a new one
    at the committed offset."""
    claims = consumer.claims if consumer is not None else ()
    numbers = sorted(partition.number for partition in claims)
    return {number: before.get(number, offsets[number]) for number in numbers}


def shares_are_fair(consumers: Iterable[Consumer], partition_count: int) -> bool:
    """Whether the consumers have all partitions, and none has two more than another."""
    sizes = [len(consumer.claims) for consumer in consumers]
    return not sizes or (sum(sizes) == partition_count and max(sizes) - min(sizes) <= 1)
