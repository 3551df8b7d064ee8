"""The gateway's reports of commits and fetches in a simulated run."""

from collections.abc import Mapping, Sequence

from coordinator.engine import Step
from coordinator.interface.events import (
    Event,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetFetchReceived,
)
from coordinator.interface.topics import Partition
from gateway.events.event import GatewayEvent
from gateway.events.offset_events import NO_MEMBER
from gateway.observers.offset_reporter import INTERVAL_S, OffsetReporter
from gateway.simulation.driver import GROUP
from gateway.simulation.run import Run
from kafka_codecs.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponseTopic
from tests.support.commits import commit_of
from tests.support.hosted_groups import lone_request


class StoringRun(Run):
    """A run that records the last stored offsets of each client."""

    def __init__(self, seed: int) -> None:
        self.stored: dict[tuple[str, Partition], int] = {}
        super().__init__(seed)

    def _stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        self.stored[name, partition] = now
        super()._stored(name, partition, before, now)


class SimulatedOffsets:
    """`note` observes each step. `take` returns the reports that precede the step's events."""

    def __init__(self, run: StoringRun) -> None:
        self._run = run
        self._told: list[GatewayEvent] = []
        self._commits: dict[int, OffsetCommitReceived] = {}
        self._flushed_ms = 0
        self.forget()

    def forget(self) -> None:
        """Drop pending reports, as the end of the process does."""
        self._costs = OffsetReporter(self._hear, lambda: self._run.world.now_ms)

    def _hear(self, event: GatewayEvent, group_id: str | None = None) -> None:
        self._told.append(event)

    def note(self, event: Event, step: Step) -> None:
        """Note a commit that was accepted or has ended, or a fetch that was answered."""
        match event:
            case OffsetCommitReceived():
                self._commits[event.token] = event
            case OffsetCommitEnded(answer_lost=False):
                self._note_commit(self._commits.pop(event.commit))
            case OffsetFetchReceived(partitions=partitions):
                _token, reply = step.replies[0]
                if not reply.error:
                    offsets = self._run.cluster.offsets
                    wanted = offsets.keys() if partitions is None else partitions
                    self._note_fetch(event, {p: offsets.get(p, -1) for p in wanted})
            case _:
                pass

    def take(self, events: Sequence[GatewayEvent]) -> Sequence[GatewayEvent]:
        """The reports that precede these events."""
        now_ms = self._run.world.now_ms
        if now_ms - self._flushed_ms >= INTERVAL_S * 1000:
            self._flushed_ms = now_ms
            self._costs.flush()
        self._costs.make_way(GROUP, events)
        told, self._told = self._told, []
        return told

    def _note_commit(self, commit: OffsetCommitReceived) -> None:
        name = self._run.network.committers[commit.token]
        stored = self._run.stored
        offsets = {p: stored[name, p] for p in commit.partitions if (name, p) in stored}
        by_topic = self._by_topic(offsets)
        request = commit_of(by_topic, group_id=GROUP, member_id=commit.member_id)
        answer = OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic,
                    partitions=tuple(
                        OffsetCommitResponsePartition(partition_index=number, error_code=0)
                        for number in partitions
                    ),
                )
                for topic, partitions in by_topic.items()
            )
        )
        self._costs.note_commit(lone_request(request, 9), answer)

    def _note_fetch(self, fetch: OffsetFetchReceived, offsets: Mapping[Partition, int]) -> None:
        topics = tuple(
            OffsetFetchResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=offset, metadata=""
                    )
                    for number, offset in partitions.items()
                ),
            )
            for topic, partitions in self._by_topic(offsets).items()
        )
        self._costs.note_fetch(GROUP, fetch.member_id or NO_MEMBER, topics)

    def _by_topic(self, offsets: Mapping[Partition, int]) -> Mapping[str, Mapping[int, int]]:
        """The offsets by topic, without deleted topics."""
        found: dict[str, dict[int, int]] = {}
        for partition, offset in offsets.items():
            topic = self._run.cluster.topics.by_id.get(partition.topic_id)
            if topic is not None:
                found.setdefault(topic.name, {})[partition.number] = offset
        return found
