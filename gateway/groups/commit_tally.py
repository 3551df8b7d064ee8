"""Commits that the cluster has stored, put together: one event per member and interval.

A group may commit thousands of times in a second; of each partition the first, the lowest and the
last offset are kept, so that what went back is seen. Must not know who owns a partition.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from gateway.data_path.group_apis import GroupRequest
from gateway.events.event import Tell
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

INTERVAL_S = 5.0
PARTITIONS_MAX = 50_000
"""When so many wait to be told of, the interval ends early."""


class _Committer(NamedTuple):
    group_id: str
    member_id: str
    is_transactional: bool


@dataclass(slots=True)
class _Offsets:
    first: int
    lowest: int
    last: int
    commits: int = 1

    def add(self, offset: int) -> None:
        self.lowest, self.last = min(self.lowest, offset), offset
        self.commits += 1


@dataclass(slots=True)
class _Interval:
    """What one member has committed in it."""

    from_ms: int
    to_ms: int
    topics: dict[str, dict[int, _Offsets]] = field(default_factory=dict)


class CommitTally:
    """`note` sees each commit and its answer; `run` ends the intervals."""

    def __init__(self, tell: Tell, now_ms: Callable[[], int]) -> None:
        self._tell = tell
        self._now_ms = now_ms
        self._intervals: dict[_Committer, _Interval] = {}
        self._partitions = 0

    async def run(self) -> None:
        """For ever. `flush` at the end."""
        while True:
            await trio.sleep(INTERVAL_S)
            self.flush()

    def note(self, request: GroupRequest, answer: Struct) -> None:
        """Add what the cluster has stored of a commit."""
        message = request.message
        if not isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest):
            return
        assert isinstance(answer, OffsetCommitResponse | TxnOffsetCommitResponse)
        stored = {
            (topic.name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code
        }
        if not stored:
            return
        is_transactional = isinstance(message, TxnOffsetCommitRequest)
        committer = _Committer(message.group_id, message.member_id, is_transactional)
        now_ms = self._now_ms()
        interval = self._intervals.setdefault(committer, _Interval(now_ms, now_ms))
        interval.to_ms = now_ms
        for topic in message.topics:
            for each in topic.partitions:
                if (topic.name, each.partition_index) in stored:
                    self._add(interval, topic.name, each.partition_index, each.committed_offset)
        if self._partitions >= PARTITIONS_MAX:
            self.flush()

    def _add(self, interval: _Interval, topic: str, partition: int, offset: int) -> None:
        partitions = interval.topics.setdefault(topic, {})
        if partition in partitions:
            partitions[partition].add(offset)
        else:
            partitions[partition] = _Offsets(offset, offset, offset)
            self._partitions += 1

    def flush(self) -> None:
        """Tell what was committed since the last time."""
        intervals, self._intervals, self._partitions = self._intervals, {}, 0
        for committer, interval in intervals.items():
            event = OffsetsCommitted(
                member_id=committer.member_id,
                is_transactional=committer.is_transactional,
                from_ms=interval.from_ms,
                to_ms=interval.to_ms,
                offsets={
                    topic: tuple(
                        CommittedOffsets(
                            partition=partition,
                            commits=each.commits,
                            first=each.first,
                            lowest=each.lowest,
                            last=each.last,
                        )
                        for partition, each in sorted(partitions.items())
                    )
                    for topic, partitions in interval.topics.items()
                },
            )
            self._tell(event, committer.group_id)
