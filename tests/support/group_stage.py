"""One group of real clients behind a real gateway, with a ledger of their reports.

The cluster, `groupferry serve`, the producer and the clients are separate processes, as for users.
The ledger is the demo's. The clients' own reports fill it, not the gateway's.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import trio
from confluent_kafka import Consumer, TopicPartition

from gateway.addresses import Address
from gateway.demo import mock_cluster, reports
from gateway.demo.borrowed_cluster import borrow_cluster
from gateway.demo.child import Child, run_child
from gateway.demo.group_description import GroupDescription
from gateway.demo.group_view import ObservedGroup, Protocol, disagreement
from gateway.demo.ledger import End, Ledger, Process
from gateway.demo.reports import ProducedReport, TroubledReport
from gateway.demo.upstream import DemoCluster, OpenUpstream
from tests.support.clients import Client, ClientProcess, run_client
from tests.support.freed_partitions import freed_before_taken
from tests.support.group_client import fresh_group
from tests.support.kafka_broker import KafkaCluster
from tests.support.promises import promise
from tests.support.serve_process import PROGRAM, ServeProcess, serving
from tests.support.until import until, until_answered

PARTITIONS = 8
"""The most members of a group. kafkajs's assignor omits members without partitions, and the Java
client ends when it gets no assignment."""
RATE = 200
SETTLE_LIMIT_S = 90
DRAIN_LIMIT_S = 60
LOOK_INTERVAL_S = 0.1
STAGE_LIMIT_S = 170


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of the group, run by one client process."""

    client: Client
    process: Process
    child: ClientProcess


class GroupStage:
    """The group. Its members come and go while a producer writes."""

    def __init__(self, nursery: trio.Nursery, upstream: DemoCluster, gateway: ServeProcess) -> None:
        self.gateway = gateway
        self.group = upstream.group
        self.topic = upstream.topic
        self.ledger = Ledger(PARTITIONS)
        self.troubles: list[str] = []
        """The clients' complaints, for the message of a failing test."""
        self.members: dict[str, Member] = {}
        self._nursery = nursery
        self._upstream = upstream
        self._heard = trio.Event()
        self._incarnations = 0
        self._produced: ProducedReport | None = None
        self._producer: Child | None = None

    async def produce(self, *, beside: bool = False, settings: Path | None = None) -> None:
        """Start the producer, behind the gateway or bypassing it, with a file of librdkafka's
        settings if there is one."""
        bootstrap = self._upstream.bootstrap if beside else self.gateway.bootstrap
        arguments = [
            f"--bootstrap={bootstrap}",
            f"--topic={self._upstream.topic}",
            f"--partitions={PARTITIONS}",
            f"--rate={RATE}",
            *([f"--security={settings}"] if settings else []),
        ]
        self._producer = await self._nursery.start(
            partial(
                run_child,
                "gateway.demo.producer",
                arguments,
                name="producer",
                on_line=self._hear_producer,
            )
        )

    async def join(
        self,
        name: str,
        client: Client,
        *flags: str,
        beside: bool = False,
        behind: ServeProcess | None = None,
        bootstrap: str = "",
        within: Sequence[str] = (),
    ) -> None:
        """Start a client as this member, behind the gateway or bypassing it, behind another one, or
        with another name in `bootstrap.servers`. `wait_until_settled` waits for it."""
        gateway = behind or self.gateway
        bootstrap = bootstrap or (self._upstream.bootstrap if beside else gateway.bootstrap)
        self._incarnations += 1
        process = Process(member=name, incarnation=self._incarnations)
        child = await self._nursery.start(
            partial(
                run_client,
                client,
                [
                    f"--bootstrap={bootstrap}",
                    f"--topic={self._upstream.topic}",
                    f"--group={self.group}",
                    *flags,
                ],
                name=name,
                on_line=self._listener(process),
                within=within,
            )
        )
        self.members[name] = Member(client=client, process=process, child=child)

    async def leave(self, name: str) -> None:
        """Let a member leave the group, and wait for its process to end."""
        member = self.members.pop(name)
        await member.child.close()
        self.ledger.process_ended(member.process, member.child.ended_s)

    async def kill(self, name: str) -> None:
        """Kill a member with SIGKILL. It owns its partitions until its process is dead."""
        member = self.members.pop(name)
        await member.child.kill()
        self.ledger.process_ended(member.process, member.child.ended_s)

    async def wait_until_settled(self, protocol: Protocol) -> ObservedGroup:
        """Wait until gateway and clients agree on the assignment, in a group of this protocol.

        The group has exactly these members, each with its protocol. Every partition is assigned to
        one member, which owns it.
        """
        problem = "the group has not been seen"
        with contextlib.closing(
            GroupDescription(self.gateway.bootstrap, self.group)
        ) as description:
            with trio.move_on_after(SETTLE_LIMIT_S):
                while True:
                    view = await description.fetch()
                    problem = self._problem(view, protocol)
                    if not problem and isinstance(view, ObservedGroup):
                        return view
                    await trio.sleep(LOOK_INTERVAL_S)
        raise AssertionError(f"{problem}; {self._client_warnings()}")

    def _problem(self, view: ObservedGroup | str, protocol: Protocol) -> str:
        dead = [
            member.child.fate for member in self.members.values() if member.child.ended.is_set()
        ]
        assert not dead, dead
        if isinstance(view, str):
            return view
        if view.protocol != protocol:
            return f"it is a {view.protocol} group"
        expected = {name: member.client.protocol for name, member in self.members.items()}
        return disagreement(view, expected=expected, owners=self.ledger.owners()) or ""

    def shares(self) -> Counter[str]:
        return Counter(name for names in self.ledger.owners().values() for name in names)

    async def progress(self, records: int = 100) -> None:
        """Wait for the delivery of this many more records."""
        wanted = self.ledger.delivered_numbers() + records
        with trio.move_on_after(DRAIN_LIMIT_S):
            while self.ledger.delivered_numbers() < wanted:
                await self._heard.wait()
            return
        raise AssertionError(f"nothing moves; {self._client_warnings()}")

    async def end(self) -> int:
        """Stop the producer, and check everything as `end_after` does. Returns the number of
        produced records."""
        produced = await self.stop_producer()
        await self.end_after(produced)
        assert self.gateway.other_lines == []
        assert [line for line in self.gateway.log if line["level"] == "error"] == []
        return produced.acknowledged

    async def stop_producer(self) -> ProducedReport:
        """Stop the producer, and return what it has produced."""
        assert self._producer is not None
        await self._producer.finish(DRAIN_LIMIT_S)
        assert self._produced is not None
        return self._produced

    async def end_after(self, produced: ProducedReport) -> None:
        """Let the members read everything and leave, and check the ledger.

        No record is lost, no partition had two owners, no consumer went back behind a commit, and
        the cluster has every committed offset.
        """
        await self._drain(produced)
        for name in list(self.members):
            await self.leave(name)
        client_warnings = self._client_warnings()
        assert produced.failed == 0
        promise(self.ledger.never_delivered(produced.acknowledged) == 0, client_warnings)
        owned_twice = self.owned_twice()
        wrong = owned_twice | self.ledger.went_back()
        if wrong:  # data was lost: print everything that may explain it
            booked = [entry for partition in wrong for entry in self.ledger.history(partition)]
            print(*booked, *self.gateway.log, sep="\n")
        promise(owned_twice == set(), client_warnings)
        promise(self.ledger.went_back() == set(), client_warnings)
        promise(await self._fetch_committed() == produced.end_offsets, client_warnings)

    def owned_twice(self) -> set[int]:
        """The partitions that had two owners. Left out is who had stated that it did not own them
        before it took them, and read nothing, as far as a log on level debug tells."""
        freed = freed_before_taken(self.gateway.log)
        return {
            first.partition
            for first, later in self.ledger.overlaps()
            if first.end is not End.LOST
            and not any(
                (ownership.process.member, ownership.partition) in freed
                and ownership.lowest_offset is None
                for ownership in (first, later)
            )
        }

    async def _drain(self, produced: ProducedReport) -> None:
        """Let the members read and commit everything, as far as the time allows."""
        with trio.move_on_after(DRAIN_LIMIT_S):
            await until(lambda: self.ledger.delivered_numbers() >= produced.acknowledged)
            await until_answered(
                self._fetch_committed, lambda offsets: offsets == produced.end_offsets
            )

    async def _fetch_committed(self) -> tuple[int, ...]:
        """The offsets in the cluster, fetched without the gateway."""
        return await trio.to_thread.run_sync(_committed_offsets, self._upstream)

    def conversions(self) -> list[str]:
        """The group's conversions with members, in order."""
        conversions = self.gateway.events("group_converted")
        return [line["direction"] for line in conversions if line["is_live"]]

    def _hear_producer(self, line: str) -> None:
        report = reports.decode(line)
        if isinstance(report, ProducedReport):
            self._produced = report

    def _listener(self, process: Process) -> Callable[[str], None]:
        def hear(line: str) -> None:
            report = reports.decode(line)
            assert not isinstance(report, ProducedReport)
            self.ledger.record(process, report)
            self._heard.set()
            self._heard = trio.Event()
            if isinstance(report, TroubledReport):
                self.troubles.append(f"{process.member}: {report.doing}: {report.error}")

        return hear

    def _client_warnings(self) -> str:
        last_words = {
            name: list(member.child.client_warnings) for name, member in self.members.items()
        }
        refused = [line["reason"] for line in self.gateway.events("request_refused")]
        return f"troubles {self.troubles[-20:]}, refused {refused[-20:]}, stderr {last_words}"


@asynccontextmanager
async def open_group(
    state_folder: Path,
    *flags: str,
    open_upstream: OpenUpstream = mock_cluster.embed_cluster,
    bootstrap: str | None = None,
    produces_beside: bool = False,
    producer_settings: Path | None = None,
    limit_s: float = STAGE_LIMIT_S,
) -> AsyncIterator[GroupStage]:
    """Run cluster, gateway (with these flags) and producer. The block's end stops all of them."""
    with trio.fail_after(limit_s):
        async with open_upstream(PARTITIONS) as upstream, trio.open_nursery() as nursery:
            async with serving(
                upstream.bootstrap, state_folder, *flags, bootstrap=bootstrap
            ) as gateway:
                stage = GroupStage(nursery, upstream, gateway)
                await stage.produce(beside=produces_beside, settings=producer_settings)
                yield stage
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_groups(
    kafka: KafkaCluster,
    group_ids: Sequence[str],
    state_folder: Path,
    *flags: str,
    program: str = PROGRAM,
    limit_s: float = STAGE_LIMIT_S,
) -> AsyncIterator[list[GroupStage]]:
    """Several groups that read the same records, behind one gateway. The first one produces."""
    with trio.fail_after(limit_s):
        async with on_kafka(kafka)(PARTITIONS) as upstream, trio.open_nursery() as nursery:
            async with serving(
                upstream.bootstrap, state_folder, *flags, program=program
            ) as gateway:
                stages = [
                    GroupStage(nursery, replace(upstream, group=group_id), gateway)
                    for group_id in group_ids
                ]
                await stages[0].produce()
                yield stages
                nursery.cancel_scope.cancel()


def on_kafka(kafka: KafkaCluster) -> OpenUpstream:
    """A new topic and a new group in a real cluster."""
    addresses = [Address(*address) for address in kafka.addresses]
    return partial(borrow_cluster, addresses, fresh_group("stage"))


def _committed_offsets(upstream: DemoCluster) -> tuple[int, ...]:
    reader = Consumer({"bootstrap.servers": upstream.bootstrap, "group.id": upstream.group})
    wanted = [TopicPartition(upstream.topic, number) for number in range(PARTITIONS)]
    try:
        stored = reader.committed(wanted, timeout=10)
    finally:
        reader.close()
    return tuple(
        partition.offset for partition in sorted(stored, key=lambda partition: partition.partition)
    )
