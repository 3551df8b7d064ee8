"""A consumer of the new protocol that computes the assignment of its group when it is told to
(KIP-848, "Client Side Mode"). No released client does.

It speaks through the project's own codecs, one request after another, and reports like the demo's
own consumer, see `gateway.demo.reports`. Its assignor shares the partitions by the members'
weights: `--assignor=weights=3` gives this member three times the share of one with weight 1.
"""

import argparse
import contextlib
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import trio

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.demo.clients import StopRequest, end_now
from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ConsumedReport,
    LostReport,
    RevokedReport,
    TroubledReport,
    as_runs,
    say,
)
from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    Member,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kafka_codecs.primitives import UVARINT
from tests.support.commits import commit_of

NAME = "weights"
USER_DATA, DECIMAL = -1, 1
"""The versions of the metadata: a classic member's user data is the weight as an int32, a native
member's is the weight in decimal."""
REBALANCE_TIMEOUT_MS = 30_000
FETCH_WAIT_MS = 100
FETCH_VERSION = 12
"""The last one that names topics."""
COMMIT_INTERVAL_S = 1.0
COMMIT_VERSION = FETCH_OFFSETS_VERSION = 9
RETRY_S = 0.2
_BATCH = struct.Struct(">qiibIhiqqqhii")
_BATCH_START = 12  # before the length that the batch states
_MAGIC, _CONTROL, _COMPRESSION = 2, 0x20, 0x07
_REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Shares = dict[str, list[tuple[UUID, int]]]


def weight_in(version: int, metadata: bytes) -> int:
    """The weight that a member states."""
    return int.from_bytes(metadata, "big") if version == USER_DATA else int(metadata)


def by_weight(group: ConsumerGroupPrepareAssignmentResponse) -> Shares:
    """Each member's partitions: as many as its weight entitles it to, of those it has already as
    many as possible. All members subscribe to the same topics."""
    weights = {
        member.member_id: weight_in(
            member.assignor.metadata_version, member.assignor.metadata_bytes
        )
        for member in group.members
    }
    partitions = [
        (topic.topic_id, number) for topic in group.topics for number in range(topic.num_partitions)
    ]
    quotas = quotas_of(weights, len(partitions))
    shares: Shares = {}
    free = dict.fromkeys(partitions)
    for member in group.members:
        held = [(topic.topic_id, n) for topic in member.topic_partitions for n in topic.partitions]
        kept_partitions = [partition for partition in held if partition in free][
            : quotas[member.member_id]
        ]
        shares[member.member_id] = kept_partitions
        for partition in kept_partitions:
            del free[partition]
    rest = iter(free)
    for member_id, share in shares.items():
        share += [next(rest) for _ in range(quotas[member_id] - len(share))]
    return shares


def quotas_of(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of `count` partitions each member gets: rounded down, and one more for those with
    the largest remainders."""
    total = sum(weights.values())
    quotas = {id_: count * weight // total for id_, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda id_: (-(count * weights[id_] % total), id_))
    for id_ in by_remainder[: count - sum(quotas.values())]:
        quotas[id_] += 1
    return quotas


def records_in(batches: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the value of each record. The last batch may be incomplete."""
    start = 0
    while len(batches) - start >= _BATCH.size:
        base, length, _, magic, _, attributes, *_, count = _BATCH.unpack_from(batches, start)
        end = start + _BATCH_START + length
        if end > len(batches):
            return
        assert magic == _MAGIC
        assert not attributes & _COMPRESSION
        if not attributes & _CONTROL:
            stream = BytesIO(batches[start + _BATCH.size : end])
            for _ in range(count):
                yield _record(base, stream)
        start = end


def _record(base: int, stream: BytesIO) -> tuple[int, bytes]:
    end = _varint(stream) + stream.tell()
    stream.read(1)  # attributes
    _varint(stream)  # the time
    offset = base + _varint(stream)
    stream.read(max(_varint(stream), 0))  # the key
    value = stream.read(max(_varint(stream), 0))
    stream.seek(end)  # past the headers
    return offset, value


def _varint(stream: BytesIO) -> int:
    number = int(UVARINT.read(stream))
    return number >> 1 ^ -(number & 1)


class ReferenceConsumer:
    """Consumes one topic."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._host, _, port = options.bootstrap.rpartition(":")
        self._port = int(port)
        self._group, self._topic = options.group, options.topic
        self._client_id = options.client_id
        _, _, weight = options.assignor.partition("=")
        self._assignor = ClientAssignor(
            name=NAME,
            minimum_version=USER_DATA,
            maximum_version=DECIMAL,
            reason=0,
            metadata_version=DECIMAL,
            metadata_bytes=weight.encode(),
        )
        self._member_id = str(uuid4())
        self._epoch = 0
        self._topic_id = UUID(int=0)
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._coordinator: tuple[str, int] | None = None
        self._leaders: dict[int, tuple[str, int]] = {}
        self._positions: dict[int, int] = {}
        """The next offset to fetch, by partition that the member owns."""
        self._committed: dict[int, int] = {}
        self._beat_at_s = self._commit_at_s = 0.0
        self._is_full = True
        """Whether the next heartbeat has all fields, so that its answer has the assignment."""

    async def run(self, stop: StopRequest) -> None:
        """Consume until asked to stop, then leave."""
        while not stop:
            try:
                if time.monotonic() >= self._beat_at_s:
                    await self._beat()
                await self._fetch()
                if time.monotonic() >= self._commit_at_s:
                    self._commit_at_s = time.monotonic() + COMMIT_INTERVAL_S
                    await self._commit(list(self._positions))
            except UpstreamError as error:
                self._drop_connections()
                await self._trouble("connection", str(error))
        await self._commit(list(self._positions))
        await self._ask_coordinator(self._heartbeat(epoch=-1))
        say(ClosedReport(at_s=time.monotonic()))
        self._drop_connections()

    # -- the group -------------------------------------------------------------------------------

    def _heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        is_full = self._is_full or epoch == 0
        owned = TopicPartitions(topic_id=self._topic_id, partitions=tuple(self._positions))
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
            subscribed_topic_names=(self._topic,) if is_full else None,
            topic_partitions=(owned,) if self._positions else (),
            client_assignors=(self._assignor,) if is_full else None,
        )

    async def _beat(self) -> None:
        answer: ConsumerGroupHeartbeatResponse
        answer = await self._ask_coordinator(self._heartbeat(self._epoch))
        code = answer.error_code
        if code in _REJOIN:
            say(LostReport(at_s=time.monotonic(), partitions=tuple(sorted(self._positions))))
            self._positions.clear()
            self._epoch = 0
            return
        if code in _PASSING:
            self._drop_connections()
            await self._trouble("heartbeat", name_of(code))
            return
        if code:
            end_now(f"{name_of(code)}: {answer.error_message}")
        self._epoch, self._is_full = answer.member_epoch, False
        self._beat_at_s = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            await self._reconcile(answer.assignment)
        if answer.should_compute_assignment:
            await self._compute()

    async def _reconcile(self, assignment: Assignment) -> None:
        """Give up what is not assigned any more, take the rest, and say so in the next
        heartbeat."""
        wanted = {n for topic in assignment.topic_partitions for n in topic.partitions}
        for topic in assignment.topic_partitions:
            self._topic_id = topic.topic_id
        removed, added = self._positions.keys() - wanted, wanted - self._positions.keys()
        if removed:
            await self._commit(removed)
            for number in removed:
                del self._positions[number]
            say(RevokedReport(at_s=time.monotonic(), partitions=tuple(sorted(removed))))
        if added:
            offsets = await self._offsets(added)
            say(AssignedReport(at_s=time.monotonic(), partitions=tuple(sorted(added))))
            self._positions |= offsets
            self._committed |= offsets
        if removed or added:
            self._beat_at_s = 0.0

    async def _compute(self) -> None:
        """Compute the assignment of the group. Whatever is refused, a later heartbeat says what to
        do."""
        group: ConsumerGroupPrepareAssignmentResponse = await self._ask_coordinator(
            ConsumerGroupPrepareAssignmentRequest(
                group_id=self._group, member_id=self._member_id, member_epoch=self._epoch
            )
        )
        if group.error_code:
            await self._trouble("prepare", name_of(group.error_code))
            return
        answer: ConsumerGroupInstallAssignmentResponse = await self._ask_coordinator(
            ConsumerGroupInstallAssignmentRequest(
                group_id=self._group,
                member_id=self._member_id,
                member_epoch=self._epoch,
                group_epoch=group.group_epoch,
                members=tuple(_share(*entry) for entry in by_weight(group).items()),
            )
        )
        if answer.error_code:
            reason = f"{name_of(answer.error_code)}: {answer.error_message}"
            await self._trouble("install", reason)

    # -- offsets ---------------------------------------------------------------------------------

    async def _offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Where to begin; the epoch is current, because no other request is under way."""
        topic = OffsetFetchRequestTopic(name=self._topic, partition_indexes=tuple(partitions))
        question = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id=self._group,
                    member_id=self._member_id,
                    member_epoch=self._epoch,
                    topics=(topic,),
                ),
            ),
            require_stable=True,
        )
        while True:
            answer = await self._ask_coordinator(question, FETCH_OFFSETS_VERSION)
            (group,) = answer.groups
            answers = [partition for topic in group.topics for partition in topic.partitions]
            codes = {group.error_code, *(partition.error_code for partition in answers)} - {0}
            if not codes:
                return {
                    partition.partition_index: max(partition.committed_offset, 0)
                    for partition in answers
                }
            await self._trouble("offsets", ", ".join(map(name_of, codes)))

    async def _commit(self, partitions: Iterable[int]) -> None:
        offsets = {
            number: self._positions[number]
            for number in partitions
            if self._positions[number] != self._committed.get(number)
        }
        if not offsets:
            return
        request = commit_of(
            {self._topic: offsets},
            group_id=self._group,
            member_id=self._member_id,
            epoch=self._epoch,
        )
        answer = await self._ask_coordinator(request, COMMIT_VERSION)
        answers = [partition for topic in answer.topics for partition in topic.partitions]
        stored = {n: offsets[n] for n in (p.partition_index for p in answers if not p.error_code)}
        self._committed |= stored
        if stored:
            say(CommittedReport(at_s=time.monotonic(), offsets=tuple(stored.items())))
        for code in {partition.error_code for partition in answers} - {0}:
            await self._trouble("commit", name_of(code))

    # -- records ---------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        if not self._positions:
            await trio.sleep(FETCH_WAIT_MS / 1000)
            return
        if not self._positions.keys() <= self._leaders.keys():
            await self._find_leaders()
        for leader in {self._leaders[number] for number in self._positions}:
            numbers = [number for number in self._positions if self._leaders[number] == leader]
            await self._fetch_from(leader, numbers)

    async def _fetch_from(self, leader: tuple[str, int], partitions: list[int]) -> None:
        wanted = tuple(
            FetchPartition(
                partition=number,
                fetch_offset=self._positions[number],
                partition_max_bytes=1 << 20,
            )
            for number in partitions
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            topics=(FetchTopic(topic=self._topic, partitions=wanted),),
        )
        connection = await self._connection(leader)
        answer: FetchResponse = await connection.ask(request, FETCH_VERSION)
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.error_code:
                    self._leaders.clear()
                    await self._trouble("fetch", name_of(partition.error_code))
                    return
                self._take(partition.partition_index, partition.records or b"")

    def _take(self, partition: int, batches: bytes) -> None:
        begin = self._positions[partition]  # a batch may begin before it
        records = [(at, value) for at, value in records_in(batches) if at >= begin]
        if records:
            self._positions[partition] = records[-1][0] + 1
            runs = as_runs(int(value) for _, value in records)
            say(ConsumedReport(at_s=time.monotonic(), partition=partition, runs=runs))

    # -- connections -----------------------------------------------------------------------------

    async def _ask_coordinator(self, request: Struct, version: int | None = None) -> Any:
        while self._coordinator is None:
            bootstrap = await self._connection((self._host, self._port))
            coordinator = await bootstrap.ask(FindCoordinatorRequest(key=self._group), 3)
            if coordinator.error_code:
                await self._trouble("coordinator", name_of(coordinator.error_code))
            else:
                self._coordinator = coordinator.host, coordinator.port
        connection = await self._connection(self._coordinator)
        return await connection.ask(request, version)

    async def _find_leaders(self) -> None:
        bootstrap = await self._connection((self._host, self._port))
        answer = await bootstrap.ask(
            MetadataRequest(topics=(MetadataRequestTopic(name=self._topic),)), 9
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._leaders = {
            partition.partition_index: brokers[partition.leader_id]
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        if address not in self._connections:
            self._connections[address] = await BrokerConnection.open(
                *address, client_id=self._client_id
            )
        return self._connections[address]

    def _drop_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._coordinator, self._is_full = None, True

    async def _trouble(self, doing: str, error: str) -> None:
        say(TroubledReport(at_s=time.monotonic(), doing=doing, error=error))
        await trio.sleep(RETRY_S)


def _share(member_id: str, partitions: Iterable[tuple[UUID, int]]) -> Member:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, []).append(number)
    return Member(
        member_id=member_id,
        partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in numbers.items()
        ),
        metadata_version=DECIMAL,
        metadata_bytes=b"",
    )


def main() -> None:
    """Run as the child."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--client-id", "--protocol", "--assignor"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    with contextlib.suppress(BrokenPipeError):
        trio.run(ReferenceConsumer(options).run, StopRequest())
    sys.stdout.flush()
    end_now()


if __name__ == "__main__":
    main()
