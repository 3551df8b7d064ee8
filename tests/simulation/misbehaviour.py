"""Clients that break the protocol: each kind breaks one rule, the vandal all of them.

The ownership checks ignore their claims, and the cluster stores none of their offsets. They must
not harm honest clients. The exception is a lying leader, whose assignments the protocol trusts: the
simulator records them, and exempts the claims of members that follow them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator.interface.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from coordinator.interface.topics import Partition
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, Subscription, encode_subscription
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import leader
from tests.simulation.classic_client import ClassicClient
from tests.simulation.client import Client, ClientContext, Spec
from tests.simulation.driver import Answer
from tests.simulation.native_client import NativeClient
from tests.simulation.world import World

EPOCH_OFFSETS = (-3, -1, -1, 1, 100)
PAUSE_MS_MAX = 1_500


class HoardingNative(NativeClient):
    """Never gives up a partition: its revoke callback does not return."""

    is_honest = False

    def revoke(self, partitions: Iterable[Partition], done: Callable[[], None]) -> None:
        if not self.claims.keys() & set(partitions):
            super().revoke(partitions, done)


class HoardingClassic(ClassicClient):
    """Never gives up a partition, but still rejoins when the group asks for it."""

    is_honest = False

    def revoke(self, partitions: Iterable[Partition], done: Callable[[], None]) -> None:
        super().revoke(set(partitions) - self.claims.keys(), done)


class LyingNative(NativeClient):
    """States random owned partitions."""

    is_honest = False

    def stated_owned(self) -> frozenset[Partition]:
        if self.member_epoch == JOIN_EPOCH:
            return frozenset()
        return frozenset(some_partitions(self))


class LyingClassic(ClassicClient):
    """States random owned partitions in a random generation."""

    is_honest = False

    def stated_owned(self) -> list[leader.Name]:
        names = self.context.network.cluster.names
        return [(names[p.topic_id], p.number) for p in some_partitions(self)]

    def metadata(self) -> bytes:
        generation, self.generation = self.generation, self.world.between(-1, 50)
        try:
            return super().metadata()
        finally:
            self.generation = generation


class StaleNative(NativeClient):
    """Often states a wrong epoch."""

    is_honest = False

    def stated_epoch(self) -> int:
        return wrong_epoch(self.world, self.member_epoch)


class StaleClassic(ClassicClient):
    """Often states a wrong generation."""

    is_honest = False

    def stated_epoch(self) -> int:
        return wrong_epoch(self.world, self.generation)


class Dawdler(ClassicClient):
    """Often omits SyncGroup after a join, or dies after it received a member id."""

    is_honest = False

    def send_sync(self, assignments: Mapping[str, bytes]) -> None:
        if self.world.chance(0.5):
            super().send_sync(assignments)

    def hear_join(self, answer: Answer) -> None:
        if answer.reply.error == ErrorCode.MEMBER_ID_REQUIRED and self.world.chance(0.5):
            self.die("got its member id")
        else:
            super().hear_join(answer)


class LyingLeader(ClassicClient):
    """Assigns random partitions to each member, and sometimes omits a member."""

    is_honest = False

    def assignments(self, reply: JoinGroupReply) -> dict[str, bytes]:
        given = {}
        for member in reply.members:
            if self.world.chance(0.05):
                continue
            names = self.context.network.cluster.names
            partitions = [(names[p.topic_id], p.number) for p in some_partitions(self)]
            given[member.member_id] = leader.write_assignment(partitions)
        self.context.lies.update(given.values())
        return given


class Vandal(Client):
    """Sends random requests, under its own ids, invented ones, or those of other members.

    It does not state partitions or send SyncGroup for another member, because the engine could not
    tell such a request from the member's own.
    """

    kind = "vandal"
    is_honest = False

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        super().__init__(context, name, spec)
        self._ids = ["", name, "made-up"]

    def start(self) -> None:
        self._act()

    def close(self) -> None:
        self.die("closed")

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics

    def stall(self, length_ms: int) -> None:
        """Continue as before: no application polls."""

    @property
    def epoch(self) -> int:
        return self.world.between(-3, 20)

    @property
    def is_settled(self) -> bool:
        return False

    @property
    def member_ids(self) -> Sequence[str]:
        return self._ids

    def _act(self) -> None:
        requests = (
            self._some_heartbeat,
            self._some_join,
            self._some_sync,
            self._some_classic_heartbeat,
            self._some_leave,
            self._some_commit,
            self._some_fetch,
        )
        request = self.world.dice.choice(requests)()
        self.ask(request, self._hear, lambda: None)
        self.later(self.world.between(1, PAUSE_MS_MAX), self._act)

    def _hear(self, answer: Answer) -> None:
        reply = answer.reply
        if isinstance(reply, JoinGroupReply | ConsumerHeartbeatReply) and reply.member_id:
            self._ids.append(reply.member_id)

    def _own_id(self) -> str:
        return self.world.dice.choice(self._ids)

    def _any_id(self) -> str:
        others = [member_id for member_id in self.context.known_ids() if member_id]
        return self.world.dice.choice([*self._ids, *others])

    def _instance_id(self) -> str | None:
        return self.world.dice.choice([None, None, self.spec.instance_id, "i1", "i2", ""])

    def _metadata(self) -> bytes:
        if self.world.chance(0.1):
            return self.world.dice.randbytes(self.world.between(0, 12))
        names = self.context.network.cluster.names
        partitions = [(names[p.topic_id], p.number) for p in some_partitions(self)]
        subscription = Subscription(
            topics=(*self.topics, "none"),
            owned_partitions=leader.partitions_by_topic(partitions),
            generation_id=self.epoch,
        )
        return encode_subscription(subscription, self.world.between(0, 3))

    def _some_heartbeat(self) -> Request:
        epoch = self.world.dice.choice(
            [JOIN_EPOCH, JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, self.epoch]
        )
        owned = None if self.world.chance(0.3) else frozenset(some_partitions(self))
        return ConsumerHeartbeatReceived(
            token=self.token(),
            version=self.world.between(0, 1),
            member_id=self._own_id(),
            member_epoch=epoch,
            client_id=self.name,
            client_host="/127.0.0.1",
            instance_id=self._instance_id(),
            rebalance_timeout_ms=self.world.dice.choice([-1, 3_000]),
            topic_names=self.world.dice.choice([None, (), self.topics]),
            topic_regex=self.world.dice.choice([None, None, "", "ba.", "("]),
            server_assignor=self.world.dice.choice([None, None, "uniform", "none"]),
            owned=frozenset() if epoch == JOIN_EPOCH and self.world.chance(0.9) else owned,
            fresh_id=self.fresh_id(),
        )

    def _some_join(self) -> Request:
        name = self.world.dice.choice([*self.spec.protocols, "other"])
        return JoinGroupReceived(
            token=self.token(),
            version=self.world.dice.choice([0, 3, 5, 9]),
            member_id=self._own_id(),
            instance_id=self._instance_id(),
            client_id=self.name,
            client_host="/127.0.0.1",
            protocol_type=self.world.dice.choice([CONSUMER_PROTOCOL_TYPE] * 4 + ["connect"]),
            protocols=((name, self._metadata()),),
            session_timeout_ms=self.world.dice.choice([10, 4_000, 4_000]),
            rebalance_timeout_ms=3_000,
            fresh_id=self.fresh_id(),
        )

    def _some_sync(self) -> Request:
        return SyncGroupReceived(
            token=self.token(),
            version=self.world.dice.choice([3, 5]),
            member_id=self._own_id(),
            instance_id=self._instance_id(),
            generation=self.epoch,
            protocol_type=self.world.dice.choice([None, CONSUMER_PROTOCOL_TYPE]),
            protocol_name=self.world.dice.choice([None, *self.spec.protocols]),
        )

    def _some_classic_heartbeat(self) -> Request:
        return HeartbeatReceived(
            token=self.token(),
            member_id=self._any_id(),
            instance_id=self._instance_id(),
            generation=self.epoch,
        )

    def _some_leave(self) -> Request:
        leavers = [
            Leaver(
                member_id=self._any_id() if self.world.chance(0.1) else self._own_id(),
                instance_id=self._instance_id(),
            )
            for _ in range(self.world.between(0, 3))
        ]
        return LeaveGroupReceived(token=self.token(), members=tuple(leavers))

    def _some_commit(self) -> Request:
        return OffsetCommitReceived(
            token=self.token(),
            version=self.world.dice.choice([2, 8, 9]),
            member_id=self._any_id(),
            instance_id=self._instance_id(),
            epoch=self.epoch,
            partitions=frozenset(some_partitions(self)),
            is_transactional=self.world.chance(0.2),
        )

    def _some_fetch(self) -> Request:
        return OffsetFetchReceived(
            token=self.token(),
            member_id=self.world.dice.choice([None, self._any_id()]),
            epoch=self.epoch,
            partitions=self.world.dice.choice([None, frozenset(some_partitions(self))]),
        )


DISHONEST: tuple[type[Client], ...] = (
    HoardingNative,
    HoardingClassic,
    LyingNative,
    LyingClassic,
    StaleNative,
    StaleClassic,
    Dawdler,
    LyingLeader,
    Vandal,
    Vandal,
)


def some_partitions(client: Client) -> list[Partition]:
    """Random partitions of existing and deleted topics."""
    everything = [
        Partition(topic_id, number)
        for topic_id in client.context.network.cluster.names
        for number in range(4)
    ]
    return [partition for partition in everything if client.world.chance(0.3)]


def wrong_epoch(world: World, epoch: int) -> int:
    """A random epoch, often near the right one; never one that means join or leave."""
    if epoch <= 0 or world.chance(0.5):
        return epoch
    return max(1, epoch + world.dice.choice(EPOCH_OFFSETS))
