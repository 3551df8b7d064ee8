"""After a kill or a pause, a gateway returns with its groups without a rebalance."""

from functools import partial
from pathlib import Path

import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from gateway.demo import mock_cluster
from gateway.events.event import Envelope
from gateway.events.member_events import ClientSeen
from gateway.events.offset_events import OffsetsCommitted, OffsetsFetched
from gateway.state_log.sqlite_reader import read_state
from kafka_codecs.error_codes import ErrorCode
from tests.support.event_lines import check_gaps, read_events
from tests.support.group_client import group_client
from tests.support.ports import free_port
from tests.support.serve_process import ServeProcess, serving
from tests.support.until import until

TOPIC = "numbers"
PARTITIONS = 4
LIMIT_S = 90
REST_S = 1.5
"""A few heartbeats, after which the group has settled."""
UNDISTURBED_S = 3
"""Long enough for members that have to rejoin."""
PAUSE_S = 10
"""Longer than a native member's session of 6 s."""


class Member:
    """A real consumer that only polls, and counts its rebalances."""

    def __init__(self, bootstrap: str, protocol: str) -> None:
        self.owned: set[int] = set()
        self.disturbances: list[str] = []
        self.read: list[int] = []
        self._is_leaving = False
        self._left = trio.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "mixed",
                "client.id": protocol,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                # The group tells a native member its heartbeat interval.
                **({"heartbeat.interval.ms": 500} if protocol == "classic" else {}),
            }
        )
        self._consumer.subscribe([TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {partition.partition for partition in partitions}
        self.disturbances.append("assigned")

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {partition.partition for partition in partitions}
        self.disturbances.append("revoked")

    async def run(self) -> None:
        """Poll until it must leave, then leave its group."""
        while not self._is_leaving:
            message = await trio.to_thread.run_sync(self._consumer.poll, 0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value() or b""))
        await trio.to_thread.run_sync(self._consumer.close)
        self._left.set()

    async def leave(self) -> None:
        """Close it while the gateway runs, because `close` would wait for it."""
        self._is_leaving = True
        await self._left.wait()


def produce(bootstrap: str, numbers: range) -> None:
    """Write numbered records."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def are_settled(members: list[Member]) -> bool:
    """Whether each partition has one owner, and each member some partitions."""
    owned = sorted(partition for member in members for partition in member.owned)
    return all(member.owned for member in members) and owned == list(range(PARTITIONS))


def have_read(members: list[Member], count: int) -> bool:
    """Whether this many different records were read."""
    return len({number for member in members for number in member.read}) >= count


async def at_rest(nursery: trio.Nursery, members: list[Member]) -> list[list[str]]:
    """Start members, and wait until they share the partitions and have read all records. Returns
    the rebalances of each so far."""
    for member in members:
        nursery.start_soon(member.run)
    await until(lambda: are_settled(members))
    await until(lambda: have_read(members, 100))
    await trio.sleep(REST_S)
    return [list(member.disturbances) for member in members]


async def test_real_consumers_do_not_notice_a_killed_gateway(tmp_path: Path) -> None:
    """A classic and a native consumer share a group. Neither is assigned or revoked partitions."""
    bootstrap = f"127.0.0.1:{free_port()}"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            upstream: str = await nursery.start(
                partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
            )
            await trio.to_thread.run_sync(produce, upstream, range(100))
            members = [Member(bootstrap, "classic"), Member(bootstrap, "consumer")]
            async with serving(upstream, tmp_path, bootstrap=bootstrap) as gateway:
                before = await at_rest(nursery, members)
                await gateway.kill()
            async with serving(upstream, tmp_path, bootstrap=bootstrap) as gateway:
                await trio.to_thread.run_sync(produce, upstream, range(100, 300))
                await until(lambda: have_read(members, 300))
                await trio.sleep(UNDISTURBED_S)
                assert [member.disturbances for member in members] == before
                assert gateway.events("groups_resumed")[0]["groups"] == 1
                for unwanted in ("member_joined", "member_fenced", "group_epoch_bumped"):
                    assert gateway.events(unwanted) == []
                for member in members:
                    await member.leave()
                await gateway.terminate()
            check_events(read_events(tmp_path / "events"))
            nursery.cancel_scope.cancel()


async def test_real_consumers_do_not_notice_a_paused_gateway(tmp_path: Path) -> None:
    """Two native consumers and a classic one sent heartbeats throughout the pause, so the gateway
    must not consider them silent."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            upstream: str = await nursery.start(
                partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
            )
            await trio.to_thread.run_sync(produce, upstream, range(100))
            async with serving(upstream, tmp_path) as gateway:
                protocols = ("classic", "consumer", "consumer")
                members = [Member(gateway.bootstrap, protocol) for protocol in protocols]
                before = await at_rest(nursery, members)
                gateway.pause()
                await trio.sleep(PAUSE_S)
                gateway.go_on()
                await gateway.until_event("gateway_paused")
                await trio.to_thread.run_sync(produce, upstream, range(100, 300))
                await until(lambda: have_read(members, 300))
                await trio.sleep(UNDISTURBED_S)
                assert [member.disturbances for member in members] == before
                assert gateway.events("member_fenced") == []
                for member in members:
                    await member.leave()
                await gateway.terminate()
            nursery.cancel_scope.cancel()


def check_events(events: list[Envelope]) -> None:
    """Two processes wrote them, the first of which was killed."""
    check_gaps(events)
    names = [envelope.event for envelope in events]
    assert names.count("gateway_started") == 2
    assert names.count("gateway_ended") == 1
    assert names.count("group_created") == 1
    seen = [envelope.fields for envelope in events if isinstance(envelope.fields, ClientSeen)]
    assert {client.protocol for client in seen} == {"classic", "consumer"}
    assert {client.software_name for client in seen} == {"confluent-kafka-python"}
    fetches = [
        envelope.fields for envelope in events if isinstance(envelope.fields, OffsetsFetched)
    ]
    assert {fetch.member_id for fetch in fetches} == {client.member_id for client in seen}
    assert {start.partition for event in fetches for start in event.starts[TOPIC]} == set(
        range(PARTITIONS)
    )
    commits = [
        envelope.fields for envelope in events if isinstance(envelope.fields, OffsetsCommitted)
    ]
    last = {commit.partition: commit.last for event in commits for commit in event.offsets[TOPIC]}
    assert sum(last.values()) == 300
    assert not [
        commit
        for event in commits
        for commit in event.offsets[TOPIC]
        if commit.lowest < commit.first
    ]


async def expect_refusal(gateway: ServeProcess) -> None:
    """A new member must retry."""
    host, _, port = gateway.bootstrap.rpartition(":")
    async with group_client((host, int(port)), "mixed") as client:
        assert (await client.native("late")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_full_disk_only_prevents_changes(tmp_path: Path) -> None:
    """Members continue, joiners retry, and once space is free they succeed."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            upstream: str = await nursery.start(
                partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
            )
            async with serving(upstream, tmp_path) as gateway:
                host, _, port = gateway.bootstrap.rpartition(":")
                async with group_client((host, int(port)), "mixed") as client:
                    joined = await client.native("early")
                    assert joined.error_code == 0
                    gateway.limit_files(1)
                    await expect_refusal(gateway)
                    again = await client.native("early", joined.member_epoch)
                    assert again.error_code == 0
                    failed = await gateway.until_event("state_log_failed")
                    assert "state.sqlite" in failed["reason"]
                    on_disk = read_state(tmp_path)
                    assert on_disk is not None
                    assert b"late" not in b"".join(row.entry.key for row in on_disk.rows)
                    gateway.limit_files(-1)
                    assert (await client.native("late")).error_code == 0
            nursery.cancel_scope.cancel()
