"""`groupferry offsets reset` and `delete`: the committed offsets of a group without members.

The command is an ordinary admin client of the gateway: it sends OffsetCommit and OffsetDelete as
the cluster's own tools do, so the same rules and permissions hold. A group with members is refused
before anything is sent, and by the coordinator if one joins meanwhile.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from gateway.addresses import Address
from gateway.board.terminal import PlainTable, console
from gateway.cluster.access import Access
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError, UpstreamRefused
from gateway.commands.offset_target import Target
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.hosting.lookup_outcome import BrokerTooOld, LookupFailed, NoMembers
from gateway.readable import escape
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafka_codecs.offset_fetch import OffsetFetchRequest

LAST_FETCH_OF_ONE_GROUP = 7
"""The last version of OffsetFetch for a single group, which every broker has."""
LAST_COMMIT_BY_NAME = 9
"""The last version of OffsetCommit that names topics."""
LAST_DELETE = 0
"""The only version of OffsetDelete."""
NO_RECORD = -1
"""ListOffsets of a time after the last record."""

Partition = tuple[str, int]


class OffsetsRefused(Exception):
    """The command was refused and nothing has changed. The message says why, in one line."""


class OffsetsInDoubt(Exception):
    """A change was sent, and not all of it is done, or not known to be. The message says what is
    known, in one line."""


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """What becomes of one offset. None is no offset."""

    topic: str
    partition: int
    committed: int | None
    new: int | None


async def reset(
    addresses: Sequence[Address],
    access: Access,
    group_id: str,
    target: Target,
    topics: Collection[str],
    *,
    dry_run: bool,
) -> None:
    """Reset the offsets of a group, of all topics with one if none are named. Raises
    OffsetsRefused, OffsetsInDoubt, UpstreamError."""
    offsets = await _open(addresses, access, group_id)
    committed = await offsets.fetch_committed()
    partitions = await offsets.partitions_of(topics or {topic for topic, _number in committed})
    if not partitions:
        raise OffsetsRefused("it has no committed offsets: name its topics with --topic")
    changes = await offsets.plan_reset(partitions, committed, target)
    _print_changes(changes)
    if not dry_run:
        await offsets.commit(changes)
    _print_summary(group_id, changes, "would be reset" if dry_run else "reset")


async def delete(
    addresses: Sequence[Address],
    access: Access,
    group_id: str,
    topics: Collection[str],
    *,
    dry_run: bool,
) -> None:
    """Delete the offsets of a group in these topics. Raises OffsetsRefused,
    OffsetsInDoubt, UpstreamError."""
    offsets = await _open(addresses, access, group_id)
    committed = await offsets.fetch_committed()
    changes = [
        OffsetChange(topic, number, offset, None)
        for (topic, number), offset in sorted(committed.items())
        if topic in topics
    ]
    if not changes:
        raise OffsetsRefused("it has no committed offsets in these topics: nothing to do")
    _print_changes(changes)
    if not dry_run:
        await offsets.delete(changes)
    _print_summary(group_id, changes, "would be deleted" if dry_run else "deleted")


async def _open(addresses: Sequence[Address], access: Access, group_id: str) -> "_GroupOffsets":
    """The offsets of a group that has no members. Raises OffsetsRefused, UpstreamError."""
    cluster = Cluster(addresses, access=access)
    await cluster.refresh()
    match await ClusterGroupReader(cluster).look_up(group_id):
        case NoMembers() | BrokerTooOld():  # of an old cluster, the coordinator itself refuses
            return _GroupOffsets(cluster, group_id, await cluster.coordinator_of(group_id))
        case LookupFailed(reason):
            raise OffsetsRefused(f"the cluster does not say who is in it: {reason}: try again")
        case members:
            raise OffsetsRefused(f"it has {members}: stop its consumers first")


class _GroupOffsets:
    """The committed offsets of one group, through its coordinator."""

    def __init__(self, cluster: Cluster, group_id: str, node_id: int) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._node_id = node_id

    async def fetch_committed(self) -> Mapping[Partition, int]:
        """Raises OffsetsRefused, UpstreamError."""
        version = min(LAST_FETCH_OF_ONE_GROUP, await self._highest(ApiKey.OFFSET_FETCH))
        request = OffsetFetchRequest(group_id=self._group_id, topics=None)
        answer = await self._cluster.ask(self._node_id, request, version)
        _check(answer.error_code)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    async def partitions_of(self, topics: Iterable[str]) -> Mapping[Partition, int]:
        """The partitions of these topics, each with its leader. Raises OffsetsRefused,
        UpstreamError."""
        wanted = tuple(MetadataRequestTopic(name=name) for name in sorted(topics))
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = await self._cluster.ask(self._node_id, request)
        leaders: dict[Partition, int] = {}
        for topic in answer.topics:
            if topic.error_code:
                raise OffsetsRefused(f"topic {topic.name}: {name_of(topic.error_code)}")
            for partition in topic.partitions:
                leaders[topic.name, partition.partition_index] = partition.leader_id
        return leaders

    async def plan_reset(
        self, leaders: Mapping[Partition, int], committed: Mapping[Partition, int], target: Target
    ) -> Sequence[OffsetChange]:
        """What a reset changes. Offsets beyond a partition's ends become that end. Raises
        OffsetsRefused, UpstreamError."""
        first = await self._find_offsets(leaders, EARLIEST)
        last = await self._find_offsets(leaders, LATEST)
        wanted: dict[Partition, int | None] = dict.fromkeys(leaders, target.offset)
        if target.timestamp_ms is not None:
            at_time = await self._find_offsets(leaders, target.timestamp_ms)
            wanted |= {
                partition: None if offset == NO_RECORD else offset
                for partition, offset in at_time.items()
            }
        elif target.shift is not None:
            wanted = {
                partition: committed[partition] + target.shift
                for partition in leaders
                if partition in committed
            }
        return [
            OffsetChange(
                *partition, committed.get(partition), _clamp(offset, first, last, partition)
            )
            for partition, offset in sorted(wanted.items())
        ]

    async def _find_offsets(
        self, leaders: Mapping[Partition, int], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        by_leader: defaultdict[int, defaultdict[str, list[ListOffsetsPartition]]]
        by_leader = defaultdict(lambda: defaultdict(list))
        for (topic, number), node_id in leaders.items():
            wanted = ListOffsetsPartition(partition_index=number, timestamp=timestamp_ms)
            by_leader[node_id][topic].append(wanted)
        offsets: dict[Partition, int] = {}
        for node_id, topics in by_leader.items():
            request = ListOffsetsRequest(
                topics=tuple(
                    ListOffsetsTopic(name=name, partitions=tuple(partitions))
                    for name, partitions in topics.items()
                )
            )
            answer = await self._cluster.ask(node_id, request)
            for answered in answer.topics:
                for partition in answered.partitions:
                    _check(partition.error_code, f"{answered.name}:{partition.partition_index}: ")
                    offsets[answered.name, partition.partition_index] = partition.offset
        return offsets

    async def commit(self, changes: Iterable[OffsetChange]) -> None:
        """Raises OffsetsRefused, OffsetsInDoubt, UpstreamError."""
        by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for change in changes:
            assert change.new is not None
            by_topic[change.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=change.partition,
                    committed_offset=change.new,
                    committed_metadata="",
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
                for name, partitions in by_topic.items()
            ),
        )
        version = min(LAST_COMMIT_BY_NAME, await self._highest(ApiKey.OFFSET_COMMIT))
        _check_all(await self._send(request, version, "reset"), "reset")

    async def delete(self, changes: Iterable[OffsetChange]) -> None:
        """Raises OffsetsRefused, OffsetsInDoubt, UpstreamError."""
        by_topic: defaultdict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
        for change in changes:
            wanted = OffsetDeleteRequestPartition(partition_index=change.partition)
            by_topic[change.topic].append(wanted)
        request = OffsetDeleteRequest(
            group_id=self._group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(name=name, partitions=tuple(partitions))
                for name, partitions in by_topic.items()
            ),
        )
        version = min(LAST_DELETE, await self._highest(ApiKey.OFFSET_DELETE))
        answer = await self._send(request, version, "deleted")
        _check(answer.error_code)
        _check_all(answer, "deleted")

    async def _send(
        self, request: OffsetCommitRequest | OffsetDeleteRequest, version: int, done: str
    ) -> Any:
        """The answer to a change. Raises OffsetsInDoubt, UpstreamRefused."""
        try:
            return await self._cluster.ask(self._node_id, request, version)
        except UpstreamRefused:  # the connection is refused, so nothing is sent
            raise
        except UpstreamError as error:
            raise OffsetsInDoubt(
                f"it is not known whether they are {done}, look with --dry-run: {error}"
            ) from None

    async def _highest(self, key: ApiKey) -> int:
        versions = await self._cluster.versions_of(self._node_id)
        if key not in versions:
            raise UpstreamError(f"the cluster has no {key.name}")
        return versions[key][1]


_MEMBERS = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION}
)
"""What a coordinator says to an admin's commit in a group with members."""


def _check(error_code: int, where: str = "") -> None:
    """Raises OffsetsRefused for an error."""
    if error_code in _MEMBERS:
        raise OffsetsRefused("it has members now: stop its consumers first")
    if error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        raise OffsetsRefused(f"{where}its members subscribe to it: stop its consumers first")
    if error_code:
        raise OffsetsRefused(f"{where}{name_of(error_code)}")


def _check_all(answer: OffsetCommitResponse | OffsetDeleteResponse, done: str) -> None:
    """Raises OffsetsRefused if no partition is done, OffsetsInDoubt if only some are."""
    partitions = [(topic.name, part) for topic in answer.topics for part in topic.partitions]
    refused = [(name, part) for name, part in partitions if part.error_code]
    if not refused:
        return
    name, first = refused[0]
    try:
        _check(first.error_code, f"{name}:{first.partition_index}: ")
    except OffsetsRefused as error:
        if len(refused) == len(partitions):
            raise
        count = len(partitions) - len(refused)
        raise OffsetsInDoubt(f"{count} of {len(partitions)} are {done}; {error}") from None


def _clamp(
    offset: int | None,
    first: Mapping[Partition, int],
    last: Mapping[Partition, int],
    partition: Partition,
) -> int:
    """The offset within its partition. Behind the last record there is none of a later time."""
    wanted = last[partition] if offset is None else offset
    return max(first[partition], min(last[partition], wanted))


def _print_changes(changes: Iterable[OffsetChange]) -> None:
    table = PlainTable("TOPIC", "PARTITION", "COMMITTED", "NEW")
    for change in changes:
        committed, new = (
            "-" if offset is None else str(offset) for offset in (change.committed, change.new)
        )
        table.add_row(Text(escape(change.topic)), str(change.partition), committed, new)
    console().print(table)


def _print_summary(group_id: str, changes: Sequence[OffsetChange], done: str) -> None:
    noun = "offset" if len(changes) == 1 else "offsets"
    sys.stdout.write(f"{escape(group_id)}: {len(changes)} {noun} {done}\n")
