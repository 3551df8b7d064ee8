"""Reports where members start and what they commit, at a rate fit for people.

Commits arrive thousands of times a second, so each member's are combined into one event per
interval, with the first, lowest and last offset of each partition: a step backwards stays visible.
The first fetch of a partition is reported immediately, because the member starts there. A change of
a member's partitions ends both: open commits are reported before the change, and later fetches
count as new starts. The cluster's own coordinator tells of no change, so a commit also ends those
of other members for the same partition. A commit from outside the group may be an admin's reset. It
is reported immediately, because a process that is killed reports nothing, and a forgotten reset
looks like a lost commit.

Commits in a transaction count only once it is committed. The transactions of one producer that were
committed within an interval are summed up as well; one that was aborted is reported by itself.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from gateway.data_path.group_apis import GroupRequest
from gateway.events.event import EventSink, GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupDeleted,
    GroupStateChanged,
    TopicsDeleted,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
)
from gateway.events.offset_events import (
    NO_MEMBER,
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
    TransactionEnded,
)
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_codecs.offset_fetch import OffsetFetchResponseTopic
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

INTERVAL_S = 5.0
PARTITIONS_MAX = 50_000
"""At this many unreported partitions all intervals end early. At this many remembered starts all
are forgotten, and may be reported again."""

TRANSACTIONS_MAX = 10_000
"""Transactions under way that are remembered. The ends of any further ones are not reported."""
GROUPS_PER_TRANSACTION_MAX = 100

_Partition = tuple[str, int]
_COMMITS = (OffsetCommitRequest, TxnOffsetCommitRequest)
_ANSWERS = (OffsetCommitResponse, TxnOffsetCommitResponse)


class _Committer(NamedTuple):
    member_id: str
    transactional_id: str | None
    is_settled: bool = True
    """False for the commits of a transaction under way."""


_OUTSIDER = _Committer(NO_MEMBER, transactional_id=None)


@dataclass(slots=True)
class _Offsets:
    first: int
    lowest: int
    last: int
    commits: int = 1

    def add(self, offset: int) -> None:
        self.lowest, self.last = min(self.lowest, offset), offset
        self.commits += 1

    def append(self, later: "_Offsets") -> None:
        self.lowest, self.last = min(self.lowest, later.lowest), later.last
        self.commits += later.commits


@dataclass(slots=True)
class _Interval:
    """The commits of one member since `from_ms`. An outsider's begins without those that were
    reported immediately."""

    from_ms: int
    to_ms: int
    requested_ms: int
    """When the first one was requested."""
    first_sequence: int
    """The group's last sequence number when the first one was stored."""
    last_sequence: int
    topics: dict[str, dict[int, _Offsets]] = field(default_factory=dict)
    owner: QuotaKey | None = None
    """The member that has committed."""

    @property
    def size(self) -> int:
        return sum(map(len, self.topics.values()))


class OffsetReporter:
    """`record_commit`, `record_fetch` and `record_delete` see every answer, and `make_way` the
    events that groups are about to emit. `run` ends the intervals that last too long."""

    def __init__(
        self,
        emit: EventSink,
        now_ms: Callable[[], int],
        *,
        time_s: Callable[[], float] = trio.current_time,
        sequence_of: Callable[[str], int] = lambda _group_id: 0,
        topic_ids: Callable[[Iterable[str]], Mapping[str, str]] = lambda _: {},
        names: ShareRule | None = None,
    ) -> None:
        """`time_s`: the clock of `GroupRequest.at_s`. `sequence_of`: a group's last sequence
        number. `topic_ids`: the ids of topics, as far as they are known."""
        self._emit = emit
        self._now_ms = now_ms
        self._time_s = time_s
        self._sequence_of = sequence_of
        self._topic_ids = topic_ids
        self._groups: dict[str, dict[_Committer, _Interval]] = {}
        self._holders: dict[str, dict[_Partition, str]] = {}
        """The member that committed last for each partition, in groups with open intervals."""
        self._partitions = 0
        self._transactions: QuotaCache[str, dict[str, str]] = QuotaCache(
            TRANSACTIONS_MAX, names or ShareRule()
        )
        """The groups with offsets in the transaction under way, by transactional id, and the
        members that have committed them."""
        self._starts: dict[str, dict[str, set[_Partition]]] = {}
        """The partitions whose start was reported, per group and member."""
        self._starts_count = 0

    async def run(self) -> None:
        """Report regularly until cancelled; then report the rest."""
        try:
            while True:
                await trio.sleep(INTERVAL_S)
                self.flush()
        finally:
            self.flush()

    def record_commit(self, request: GroupRequest, answer: Struct) -> None:
        """Count the offsets that the cluster has stored, if the request is a commit."""
        message = request.message
        if not isinstance(message, _COMMITS):
            return
        assert isinstance(answer, _ANSWERS)
        stored = {
            (topic.name, partition.partition_index)
            for topic in answer.topics
            for partition in topic.partitions
            if not partition.error_code
        }
        if not stored:
            return
        now_ms = self._now_ms()
        committer = _Committer(message.member_id, None)
        if isinstance(message, TxnOffsetCommitRequest):
            committer = self._begin_transaction(message, request.owner)
        if message.member_id != NO_MEMBER:
            self._pass_on(message.group_id, stored, message.member_id)
        intervals = self._groups.setdefault(message.group_id, {})
        is_first = (interval := intervals.get(committer)) is None
        sequence = self._sequence_of(message.group_id)
        if interval is None or not interval.topics:
            requested_ms = now_ms - round((self._time_s() - request.at_s) * 1000)
            interval = intervals[committer] = _Interval(
                now_ms, now_ms, requested_ms, sequence, sequence, owner=request.owner
            )
        interval.to_ms, interval.last_sequence = now_ms, sequence
        for topic in message.topics:
            for partition in topic.partitions:
                number, offset = partition.partition_index, partition.committed_offset
                if (topic.name, number) in stored:
                    self._add(interval, topic.name, number, offset)
        if is_first and committer == _OUTSIDER:
            for event in self._cut(committer, interval):
                self._emit(event, message.group_id, request.owner)
        if self._partitions >= PARTITIONS_MAX:
            self.flush()

    def record_transaction_end(self, transactional_id: str, *, is_committed: bool) -> None:
        """The cluster has committed or aborted a transaction. Report an aborted one, and one whose
        commits are reported already; the others are reported with the interval."""
        groups = self._transactions.get(transactional_id) or {}
        self._transactions.pop(transactional_id)
        for group_id, member_id in groups.items():
            settled = _Committer(member_id, transactional_id)
            intervals = self._groups.get(group_id, {})
            under_way = intervals.pop(settled._replace(is_settled=False), None)
            ended = TransactionEnded(
                transactional_id=transactional_id, is_committed=is_committed, member_id=member_id
            )
            if is_committed and under_way is not None:
                self._settle(intervals, settled, under_way)
                continue
            events: list[GatewayEvent] = []
            if not is_committed and (before := intervals.pop(settled, None)) is not None:
                events += self._cut(settled, before)
            if under_way is not None:
                events += self._cut(settled._replace(is_settled=False), under_way)
            for event in (*events, ended):
                self._emit(event, group_id)

    def record_fetch(
        self,
        group_id: str,
        member_id: str,
        topics: Iterable[OffsetFetchResponseTopic],
        owner: QuotaKey | None = None,
    ) -> None:
        """Report the fetched offsets of a member, or of NO_MEMBER, except those reported before.
        `owner`: who has fetched them."""
        known = self._starts.get(group_id, {}).get(member_id, set())
        fetched = {
            topic.name: {
                partition.partition_index: partition.committed_offset
                for partition in topic.partitions
                if not partition.error_code and (topic.name, partition.partition_index) not in known
            }
            for topic in topics
        }
        new = {(topic, partition) for topic, offsets in fetched.items() for partition in offsets}
        if not new:
            return
        self._starts.setdefault(group_id, {}).setdefault(member_id, set()).update(new)
        self._starts_count += len(new)
        if self._starts_count > PARTITIONS_MAX:
            self._starts, self._starts_count = {}, 0
        event = OffsetsFetched(
            member_id=member_id,
            starts={
                topic: tuple(
                    FetchedOffset(partition=partition, offset=offset)
                    for partition, offset in sorted(offsets.items())
                )
                for topic, offsets in fetched.items()
                if offsets
            },
            topic_ids=self._topic_ids(topic for topic, offsets in fetched.items() if offsets),
        )
        self._emit(event, group_id, owner)

    def record_delete(self, request: GroupRequest, answer: Struct) -> None:
        """Report the offsets that the cluster has deleted, if the request is an OffsetDelete."""
        message = request.message
        if not isinstance(message, OffsetDeleteRequest):
            return
        assert isinstance(answer, OffsetDeleteResponse)
        partitions = {
            topic.name: tuple(
                sorted(
                    partition.partition_index
                    for partition in topic.partitions
                    if not partition.error_code
                )
            )
            for topic in answer.topics
        }
        deleted = {topic: numbers for topic, numbers in partitions.items() if numbers}
        if deleted and not answer.error_code:
            event = OffsetsDeleted(partitions=deleted, topic_ids=self._topic_ids(deleted))
            self._emit(event, message.group_id)

    def make_way(self, group_id: str, events: Iterable[GatewayEvent]) -> Sequence[GatewayEvent]:
        """The commits to report before the group emits `events`: those of members whose partitions
        the events change."""
        ended: list[GatewayEvent] = []
        if group_id not in self._groups and group_id not in self._starts:
            return ended
        for event in events:
            match event:
                case (
                    PartitionsAssigned(member_id=member_id)
                    | GrantEnded(member_id=member_id)
                    | MemberLeft(member_id=member_id)
                    | MemberFenced(member_id=member_id)
                    | MemberReplaced(member_id=member_id)
                ):
                    for former_id in (member_id, NO_MEMBER):
                        ended += (commits for commits, _owner in self._end(group_id, former_id))
                        self._forget_starts(group_id, former_id)
                case GroupConverted() | GroupDeleted() | GroupStateChanged() | TopicsDeleted():
                    ended += (commits for commits, _owner in self._end(group_id))
                    for former_id in list(self._starts.get(group_id, ())):
                        self._forget_starts(group_id, former_id)
                case _:
                    pass
        return ended

    def find_unreported(self, group_id: str) -> Mapping[_Partition, int]:
        """The offsets of a group that are committed, and not reported yet."""
        offsets: dict[_Partition, int] = {}
        settled = (
            interval
            for committer, interval in self._groups.get(group_id, {}).items()
            if committer.is_settled
        )
        for interval in sorted(settled, key=lambda interval: interval.to_ms):
            for topic, partitions in interval.topics.items():
                offsets.update(
                    ((topic, partition), committed.last)
                    for partition, committed in partitions.items()
                )
        return offsets

    def flush(self) -> None:
        """Report all open intervals."""
        for group_id in list(self._groups):
            for event, owner in self._end(group_id):
                self._emit(event, group_id, owner)

    def _pass_on(self, group_id: str, partitions: Collection[_Partition], member_id: str) -> None:
        """Report the commits of members that committed for these partitions before."""
        holders = self._holders.get(group_id, {})
        for partition in partitions:
            if holders.get(partition) != member_id:
                break
        else:
            return  # nearly always
        former = {holders.get(partition, member_id) for partition in partitions} - {member_id}
        for holder_id in sorted(former):
            for event, owner in list(self._end(group_id, holder_id)):
                self._emit(event, group_id, owner)
        self._holders.setdefault(group_id, {}).update(dict.fromkeys(partitions, member_id))

    def _add(self, interval: _Interval, topic: str, partition: int, offset: int) -> None:
        partitions = interval.topics.setdefault(topic, {})
        if partition in partitions:
            partitions[partition].add(offset)
        else:
            partitions[partition] = _Offsets(offset, offset, offset)
            self._partitions += 1

    def _end(
        self, group_id: str, member_id: str | None = None
    ) -> Iterator[tuple[GatewayEvent, QuotaKey | None]]:
        """End the intervals of this member, or of all members. Yields the commits, and whose they
        are."""
        intervals = self._groups.get(group_id, {})
        for committer in list(intervals):
            if member_id in (None, committer.member_id):
                interval = intervals.pop(committer)
                for event in self._cut(committer, interval):
                    yield event, interval.owner
        if not intervals:
            self._groups.pop(group_id, None)
            self._holders.pop(group_id, None)

    def _cut(self, committer: _Committer, interval: _Interval) -> Iterator[GatewayEvent]:
        """Report the commits so far. The interval is empty afterwards."""
        if not interval.topics:
            return
        self._partitions -= interval.size
        event = self._describe_commits(committer, interval)
        interval.topics = {}
        yield event
        if committer.transactional_id is not None and committer.is_settled:
            yield TransactionEnded(
                transactional_id=committer.transactional_id,
                is_committed=True,
                member_id=committer.member_id,
            )

    def _begin_transaction(self, message: TxnOffsetCommitRequest, owner: QuotaKey) -> _Committer:
        """Note that a group has offsets in a transaction."""
        groups = self._transactions.get(message.transactional_id) or {}
        if message.group_id in groups or len(groups) < GROUPS_PER_TRANSACTION_MAX:
            groups[message.group_id] = message.member_id
        self._transactions.put(message.transactional_id, groups, owner)
        return _Committer(message.member_id, message.transactional_id, is_settled=False)

    def _settle(
        self, intervals: dict[_Committer, _Interval], settled: _Committer, ended: _Interval
    ) -> None:
        """Add the commits of a committed transaction to those of earlier ones."""
        interval = intervals.setdefault(settled, ended)
        if interval is ended:
            return
        interval.to_ms, interval.last_sequence = ended.to_ms, ended.last_sequence
        self._partitions -= ended.size
        for topic, partitions in ended.topics.items():
            known = interval.topics.setdefault(topic, {})
            for partition, offsets in partitions.items():
                if partition in known:
                    known[partition].append(offsets)
                else:
                    known[partition] = offsets
                    self._partitions += 1

    def _describe_commits(self, committer: _Committer, interval: _Interval) -> OffsetsCommitted:
        return OffsetsCommitted(
            member_id=committer.member_id,
            is_transactional=committer.transactional_id is not None,
            transactional_id=committer.transactional_id,
            requested_ms=interval.requested_ms,
            first_sequence=interval.first_sequence,
            last_sequence=interval.last_sequence,
            topic_ids=self._topic_ids(interval.topics),
            from_ms=interval.from_ms,
            to_ms=interval.to_ms,
            offsets={
                topic: tuple(
                    CommittedOffsets(
                        partition=partition,
                        commits=committed.commits,
                        first=committed.first,
                        lowest=committed.lowest,
                        last=committed.last,
                    )
                    for partition, committed in sorted(partitions.items())
                )
                for topic, partitions in interval.topics.items()
            },
        )

    def _forget_starts(self, group_id: str, member_id: str) -> None:
        """Count the member's next fetches as new starts."""
        members = self._starts.get(group_id, {})
        self._starts_count -= len(members.pop(member_id, ()))
        if not members:
            self._starts.pop(group_id, None)
