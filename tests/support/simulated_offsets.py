"""The gateway's reports of commits and fetches in a simulated run."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from coordinator.interface.events import OffsetCommitReceived, OffsetFetchReceived, Request
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition
from gateway.events.event import GatewayEvent
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted
from gateway.hosting.inputs import Damage
from gateway.observers.offset_reporter import INTERVAL_S, OffsetReporter
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import OffsetCommitResponse
from kafka_codecs.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponseTopic
from tests.simulation.cluster import GROUP
from tests.simulation.connection import ADMIN
from tests.simulation.plan import draw_plan
from tests.simulation.process import Applied, Process
from tests.simulation.run import Run
from tests.simulation.state_log import Batch
from tests.simulation.world import World
from tests.support.commits import answer_commit, commit_of
from tests.support.hosted_groups import lone_request


class StoringRun(Run):
    """A run that records the last stored offsets of each client."""

    def __init__(self, seed: int) -> None:
        self.stored: dict[tuple[str, Partition], int] = {}
        self.untold_resets: set[tuple[Partition, int]] = set()
        """Offsets that an admin has set, but whose answer it did not wait for, or whose report was
        lost with its process."""
        plan = draw_plan(World(seed))
        # The events do not contain what the log has of a process that did not see it any more, nor
        # commits of consumers that bypass the gateway, nor owners in the cluster. A partition that
        # a lying leader has assigned twice has no owner to agree on.
        super().__init__(
            seed,
            replace(
                plan,
                has_pauses=False,
                has_misbehaviour=False,
                log_doubt_rate=0.0,
                has_takeovers=False,
                has_two_gateways=False,
                has_moves=False,
                hosts_all=True,
                has_outsiders=False,
            ),
        )
        log = self.driver.log
        append = log.append

        def append_if_alive(writer: int, batches: Iterable[Batch]) -> Damage | None:
            return append(writer, batches) if self.driver.process.is_alive else Damage.NONE

        log.delay_ms = lambda: 0  # type: ignore[method-assign]
        log.append = append_if_alive  # type: ignore[method-assign]

    def _on_stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        self.stored[name, partition] = now
        if name == ADMIN:
            self.untold_resets.add((partition, now))
        super()._on_stored(name, partition, before, now)


class SimulatedOffsets:
    """Reports commits and fetches whose answers leave the gateway. `take` returns the reports that
    precede the events of a step."""

    def __init__(self, run: StoringRun) -> None:
        self._run = run
        self._told: list[tuple[int, GatewayEvent]] = []
        self._flushed_ms = 0
        self._costs = self._reporter()
        check, fetch = run.network.leaves, run.network.fetch

        def leaves(
            who: str, request: Request, reply: Reply, applied: Applied | None, process: Process
        ) -> None:
            check(who, request, reply, applied, process)
            if isinstance(request, OffsetCommitReceived) and not reply.error:
                self._record_commit(who, request)

        def fetch_and_record(who: str, request: OffsetFetchReceived) -> Mapping[Partition, int]:
            offsets = fetch(who, request)
            wanted = offsets.keys() if request.partitions is None else request.partitions
            self._record_fetch(request, {p: offsets.get(p, -1) for p in wanted})
            return offsets

        run.network.leaves = leaves
        run.network.fetch = fetch_and_record  # type: ignore[method-assign]

    def forget(self) -> None:
        """Drop pending reports, as the end of the process does."""
        reported, self._told = self._told, []
        self._costs.flush()
        lost, self._told = self._told, reported
        topics = self._run.cluster.topics.by_name
        self._run.untold_resets |= {
            (Partition(topics[name].topic_id, offset.partition), offset.last)
            for _at_ms, event in lost
            if isinstance(event, OffsetsCommitted) and event.member_id == NO_MEMBER
            for name, offsets in event.offsets.items()
            if name in topics
            for offset in offsets
        }
        self._costs = self._reporter()

    def _reporter(self) -> OffsetReporter:
        return OffsetReporter(
            self._hear, lambda: self._run.world.now_ms, time_s=lambda: self._run.world.now_ms / 1000
        )

    def _hear(
        self, event: GatewayEvent, group_id: str | None = None, owner: Hashable | None = None
    ) -> None:
        self._told.append((self._run.world.now_ms, event))

    def take(self, events: Sequence[GatewayEvent]) -> Sequence[tuple[int, GatewayEvent]]:
        """The reports that precede these events, with the times of telling."""
        now_ms = self._run.world.now_ms
        if now_ms - self._flushed_ms >= INTERVAL_S * 1000:
            self._flushed_ms = now_ms
            self._costs.flush()
        ended = self._costs.make_way(GROUP, events)
        reported, self._told = self._told, []
        return [*reported, *((now_ms, event) for event in ended)]

    def _record_commit(self, name: str, commit: OffsetCommitReceived) -> None:
        stored = self._run.stored
        offsets = {p: stored[name, p] for p in commit.partitions if (name, p) in stored}
        self._run.untold_resets.difference_update(offsets.items())
        by_topic = self._by_topic(offsets)
        request = commit_of(by_topic, group_id=GROUP, member_id=commit.member_id)
        answer = answer_commit(request, lambda _topic: ErrorCode.NONE)
        assert isinstance(answer, OffsetCommitResponse)
        self._costs.record_commit(lone_request(request, 9), answer)

    def _record_fetch(self, fetch: OffsetFetchReceived, offsets: Mapping[Partition, int]) -> None:
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
        self._costs.record_fetch(GROUP, fetch.member_id or NO_MEMBER, topics)

    def _by_topic(self, offsets: Mapping[Partition, int]) -> Mapping[str, Mapping[int, int]]:
        """The offsets by topic, without deleted topics."""
        by_topic: dict[str, dict[int, int]] = {}
        for partition, offset in offsets.items():
            topic = self._run.cluster.topics.by_id.get(partition.topic_id)
            if topic is not None:
                by_topic.setdefault(topic.name, {})[partition.number] = offset
        return by_topic
