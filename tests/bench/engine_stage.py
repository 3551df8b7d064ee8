"""Drives the engine of one group at full speed, for the benchmarks."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from coordinator.engine import GroupEngine
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.interface.records import (
    Assignment,
    ClassicMetadata,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, Reply
from coordinator.interface.topics import Topics
from tests.support.engine_requests import heartbeat_received, join_received, native_received
from tests.support.group_values import make_topics, subscription

PARTITIONS_PER_MEMBER = 10
TOPIC_NAMES = ("orders", "payments", "prices", "returns", "stock")
CLASSIC = ClassicMetadata(
    session_timeout_ms=45_000, protocols=(("range", subscription(TOPIC_NAMES)),)
)
FRESH_ID = UUID(int=1)


def seconds(work: Callable[[], object]) -> float:
    """The processor time of the work, independent of the machine's other load."""
    started = time.process_time()
    work()
    return time.process_time() - started


def members_of(size: int) -> list[str]:
    """Ids for new members."""
    return [f"member-{n:05}" for n in range(size)]


def member_metadata(member_id: str, classic: ClassicMetadata | None = None) -> MemberMetadata:
    """The durable record of a member, native unless `classic` is given."""
    member = Member(
        member_id=member_id,
        client_id="bench",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        topic_names=TOPIC_NAMES,
        classic=classic,
    )
    return MemberMetadata(member_id=member_id, value=member)


class Stage:
    """One group with topics for `size` members. Each step is decided and applied, as in a gateway.
    `settle` makes every member act like a client. The policy keeps a group with only classic
    members a consumer group."""

    def __init__(self, size: int, *, assignor: str = "uniform", interval_ms: int = 0) -> None:
        count = size * PARTITIONS_PER_MEMBER // len(TOPIC_NAMES)
        self.topics: Topics = make_topics(**dict.fromkeys(TOPIC_NAMES, count))
        config = GroupConfig(
            consumer_assignors=(assignor,),
            consumer_assignment_interval_ms=interval_ms,
            consumer_migration_policy=MigrationPolicy.UPGRADE,
        )
        self.engine = GroupEngine("bench", config)
        self.now_ms = 1_000_000
        self.answers: dict[int, Reply] = {}
        self._tokens = itertools.count(1)

    @property
    def group(self) -> ConsumerGroup:
        assert isinstance(self.engine.state.group, ConsumerGroup)
        return self.engine.state.group

    def feed(self, event: Event) -> None:
        """Handle one event, and query what a gateway queries after it."""
        step = self.engine.handle(event, now_ms=self.now_ms, topics=self.topics)
        for record in step.records:
            self.engine.apply(record)
        self.answers.update(step.replies)
        self.engine.next_deadline_ms()

    def wait(self, length_ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now_ms + length_ms
        while (at_ms := self.engine.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.feed(TimePassed())
        self.now_ms = end_ms

    def native(self, member_id: str, epoch: int) -> ConsumerHeartbeatReply:
        """Send a ConsumerGroupHeartbeat with the fields that a client would set."""
        topics = TOPIC_NAMES if epoch == JOIN_EPOCH else None
        token = self._send(native_received, member_id, epoch, topics=topics, fresh_id=FRESH_ID)
        reply = self.answers.pop(token)
        assert isinstance(reply, ConsumerHeartbeatReply)
        assert not reply.error, reply
        return reply

    def acknowledge(self, member_id: str) -> None:
        """Send a heartbeat that acknowledges the member's assignment."""
        current = self.group.assignments[member_id]
        token = self._send(
            ConsumerHeartbeatReceived,
            version=1,
            member_id=member_id,
            member_epoch=current.member_epoch,
            client_id="bench",
            client_host="/127.0.0.1",
            owned=frozenset(current.assigned),
            fresh_id=FRESH_ID,
        )
        assert not self.answers.pop(token).error

    def join(self, member_id: str) -> int:
        """Send a JoinGroup and return its token."""
        return self._send(
            join_received,
            member_id,
            protocols=CLASSIC.protocols,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
        )

    def sync(
        self, member_id: str, generation: int, assignments: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        """Send a SyncGroup; the leader's has assignments."""
        self._send(
            SyncGroupReceived,
            version=4,
            member_id=member_id,
            instance_id=None,
            generation=generation,
            assignments=assignments,
        )

    def beat(self, member_id: str, generation: int) -> None:
        """Send a classic Heartbeat."""
        assert not self.answers.pop(self._send(heartbeat_received, member_id, generation)).error

    def _send(self, make: Callable[..., Event], *values: Any, **fields: Any) -> int:
        token = next(self._tokens)
        self.feed(make(*values, token=token, **fields))
        return token

    def settle(self) -> int:
        """Send heartbeats until every member has its share. Return the number of rounds."""
        for rounds in itertools.count(1):
            for member_id in list(self.group.members):
                self.acknowledge(member_id)
            self.wait(1_000)
            if self.group.state == "Stable":
                return rounds
        raise AssertionError

    def load_without_target(self, size: int, classic: ClassicMetadata | None = None) -> None:
        """Load a group whose members have no assignment yet."""
        self.engine.load(self._members(size, classic), now_ms=self.now_ms)

    def _members(self, size: int, classic: ClassicMetadata | None) -> Iterator[DurableRecord]:
        for member_id in members_of(size):
            yield member_metadata(member_id, classic)
            value = Assignment(member_epoch=1, previous_epoch=1)
            yield CurrentAssignment(member_id=member_id, value=value)
        metadata_hash = self.topics.metadata_hash(TOPIC_NAMES)
        yield GroupEpoch(epoch=2, metadata_hash=metadata_hash, cause=EpochCause.MEMBER_JOINED)
