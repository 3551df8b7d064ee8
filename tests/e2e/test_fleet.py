"""Several processes behind one set of ports, with real clients in seven groups.

While a process ends, others serve its groups; once it is back, it gets them back. No group
rebalances.
"""

import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from gateway.addresses import Address
from gateway.cluster.broker_connection import BrokerConnection
from gateway.control.client import give
from gateway.control.messages import RestartCommand
from gateway.demo.borrowed_cluster import borrow_cluster
from gateway.demo.group_view import Protocol
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.fleet.member import SHARDS, FleetMember, broker_of, coordinator_id
from gateway.pipeline.quick_verdict import quick_verdict
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.describe_log_dirs import DescribeLogDirsRequest
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.list_config_resources import ListConfigResourcesRequest
from kafka_codecs.list_transactions import ListTransactionsRequest
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.e2e.test_secure_roll import USER, settings_of, wait_until_shared
from tests.support.clients import Client
from tests.support.group_client import find_coordinator, fresh_group, group_client
from tests.support.group_stage import PARTITIONS, GroupStage, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.ports import HOST
from tests.support.promises import promise
from tests.support.releases import LAST_CLASSIC
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import ServeProcess, serving
from tests.support.wire import open_wire

PROCESSES = 3
LIMIT_S = 420
LONG_SESSIONS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("librdkafka", "java"), ("--session-timeout-ms=45000",)
)
"""The flags of the clients that can set it."""
LONG_NATIVE_SESSIONS = "--group-consumer-session-timeout-ms=45000"

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

RDKAFKA = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")
CLIENTS: Mapping[str, tuple[Client, ...]] = {
    "alfa": (RDKAFKA, RDKAFKA),
    "charlie": (Client(library="java", assignor="cooperative-sticky"), RDKAFKA),
    "delta": (Client(library="kafka-python"),),
    "echo": (Client(library="aiokafka"),),
    "foxtrot": (NATIVE,),
    "golf": (Client(library="franz-go"),),
    "hotel": (Client(library="java", protocol="consumer"),),
}
"""The clients of each group."""


MAY_REJOIN = {"golf"}
"""The groups of franz-go, which joins again if its coordinator's port refuses for some seconds, as
on a busy machine while shards are opened in Kafka. It keeps its partitions."""


def protocol_of(stage: GroupStage) -> Protocol:
    """The protocol that the group's clients speak."""
    (protocol,) = {member.client.protocol for member in stage.members.values()}
    return protocol


async def settle(stages: list[GroupStage]) -> None:
    """Wait until every group has settled and consumes."""
    for stage in stages:
        await stage.wait_until_settled(protocol_of(stage))
    for stage in stages:
        await stage.progress(50)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A gateway of several processes, and its state folder."""

    gateway: ServeProcess
    folder: Path
    processes: int = PROCESSES


async def kill_each(fleet: Fleet) -> None:
    """Kill the process of each slot in turn. Others take its shards, and it gets them back."""
    gateway, processes = fleet.gateway, fleet.processes
    for slot in range(processes):
        taken = shards_taken(gateway)
        lines = gateway.events("process_started")
        pid = [line["pid"] for line in lines if line["slot"] == slot][-1]
        own = len(range(slot, SHARDS, processes))
        os.kill(pid, signal.SIGKILL)
        await until_taken(gateway, taken + 2 * own)


async def restart_each(fleet: Fleet) -> None:
    """Have an operator restart each process in turn."""
    taken = shards_taken(fleet.gateway)
    outcome = await give(fleet.folder, RestartCommand())
    assert len(outcome.processes) == fleet.processes
    await until_taken(fleet.gateway, taken + 2 * SHARDS)


def shards_taken(gateway: ServeProcess) -> int:
    """How many shards processes have taken from others."""
    return sum(len(line["shards"]) for line in gateway.events("shards_taken"))


async def until_taken(gateway: ServeProcess, count: int) -> None:
    """Wait until processes have taken this many shards from others."""
    while shards_taken(gateway) < count:
        await gateway.until_event("shards_taken", len(gateway.events("shards_taken")) + 1)


async def answers_about(gateway: ServeProcess, group_id: str, topic: str) -> list[list[str]]:
    """The answers of every process to an admin client that asks for a group, by process."""
    deleted = OffsetDeleteRequestTopic(
        name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
    )
    requests = (
        (DescribeGroupsRequest(groups=(group_id,)), 5),
        (
            ConsumerGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=False
            ),
            0,
        ),
        (DeleteGroupsRequest(groups_names=(group_id,)), 2),
        (OffsetDeleteRequest(group_id=group_id, topics=(deleted,)), 0),
        (ListConfigResourcesRequest(), 1),
    )
    broker = broker_of((await find_coordinator(gateway.address, group_id)).node_id)
    async with open_wire(gateway.address) as client:
        nodes = {
            node.node_id: node for node in (await client.ask(MetadataRequest(topics=()), 9)).brokers
        }
    answers: list[list[str]] = []
    for slot in range(PROCESSES):
        node = nodes[coordinator_id(slot, broker)]
        async with await BrokerConnection.open(node.host, node.port) as connection:
            answers.append([str(await connection.ask(*request)) for request in requests])
            fetched = await connection.ask(OffsetFetchRequest(group_id=group_id, topics=None), 7)
            answers[-1].append(f"{fetched.error_code} {len(fetched.topics)}")
            assert (await connection.ask(DescribeLogDirsRequest(topics=None), 4)).results == ()
            transactions = await connection.ask(
                ListTransactionsRequest(state_filters=(), producer_id_filters=()), 0
            )
            assert transactions.transaction_states == ()
    return answers


def seen_groups(bootstrap: str) -> list[str]:
    """The groups of the test as an admin client lists them, with repeats."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    groups = client.list_consumer_groups(request_timeout=20).result().valid
    return sorted(group.group_id for group in groups if group.group_id in CLIENTS)


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
@pytest.mark.parametrize(
    ("disturb", "state"),
    [(kill_each, "kafka"), (restart_each, "sqlite"), (restart_each, "kafka")],
)
async def test_an_ending_process_harms_no_group(
    disturb: Callable[[Fleet], Awaitable[None]], state: str, kafka: KafkaCluster, tmp_path: Path
) -> None:
    """No record is lost, no partition has two owners, and no group rebalances, neither those of the
    process nor the others, whether it is killed or restarted."""
    topic = f"--state-topic={fresh_group('state-of-all')}"  # others have groups of these names
    flags = (f"--processes={PROCESSES}", f"--state={state}", topic, LONG_NATIVE_SESSIONS)
    async with open_groups(kafka, tuple(CLIENTS), tmp_path, *flags, limit_s=LIMIT_S) as stages:
        gateway = stages[0].gateway
        await gateway.until_event("fleet_started")
        member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
        assert {member.slot_of(stage.group) for stage in stages} == set(range(PROCESSES))
        for stage in stages:
            for number, client in enumerate(CLIENTS[stage.group]):
                if number:  # so that partitions change hands, which a verdict compares
                    await stage.wait_until_settled(protocol_of(stage))
                flags_of_client = LONG_SESSIONS.get(client.library, ())
                await stage.join(f"{stage.group}-{number}", client, *flags_of_client)
        await settle(stages)
        since_s = time.monotonic()
        await disturb(Fleet(gateway, tmp_path))
        await settle(stages)
        for stage in stages:
            moved = stage.ledger.disturbance(None, since_s, time.monotonic())
            troubles = (stage.group, stage.troubles)
            assert moved.partitions_moved == 0, troubles
            may_rejoin = state == "kafka" and stage.group in MAY_REJOIN
            assert moved.members_disturbed == 0 or may_rejoin, troubles
        assert await trio.to_thread.run_sync(seen_groups, gateway.bootstrap) == sorted(CLIENTS)
        for stage in stages:
            first, *others = await answers_about(gateway, stage.group, stage.topic)
            assert all(answers == first for answers in others)
        produced = await stages[0].stop_producer()
        for stage in stages:
            await stage.end_after(produced)
            promise(stage.ledger.held_after_fencing() == set(), stage.troubles)
        assert gateway.other_lines == []
        assert [line for line in gateway.log if line["level"] == "error"] == []
        assert await gateway.terminate() == 0
    folders = [str(tmp_path / SLOTS_FOLDER / str(slot) / "events") for slot in range(PROCESSES)]
    verdict = await trio.to_thread.run_sync(quick_verdict, folders)
    print(*verdict.lines, sep="\n")
    assert verdict.is_safe or disturb is kill_each, verdict.lines


def state_flags(topic: str, *flags: str) -> tuple[str, ...]:
    """The flags of a gateway with its state in this topic, in several processes or not."""
    return ("--state=kafka", f"--state-topic={topic}", "--groups-host=*", *flags)


def upstream_of(cluster: KafkaCluster) -> str:
    """The value of `--upstream`."""
    return ",".join(f"{host}:{port}" for host, port in cluster.addresses)


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_another_machine_takes_the_state_of_all_processes(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The other machine continues with every group. The processes that had the groups end, and none
    is started again, because it would take the state back."""
    upstream = upstream_of(kafka)
    flags = state_flags(fresh_group("state-of-two"), "--processes=2")
    groups = [fresh_group("taken") for _ in range(6)]
    joined: dict[str, JoinGroupResponse] = {}
    with trio.fail_after(LIMIT_S):
        async with serving(upstream, tmp_path / "one", *flags) as first:
            await first.until_event("fleet_started")
            for group in groups:
                async with group_client(first.address, group) as client:
                    joined[group] = await client.enter(session_timeout_ms=120_000)
            async with serving(upstream, tmp_path / "two", *flags) as second:
                await second.until_event("fleet_started")
                assert await first.wait_until_ended() == 1
                (line,) = first.other_lines
                assert "has taken the state log" in line
                assert len(first.events("process_started")) == 2
                for group, member in joined.items():
                    async with group_client(second.address, group) as client:
                        assert (await client.beat(member)).error_code == 0
                assert second.other_lines == []
                assert await second.terminate() == 0


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_a_fleet_whose_state_topic_is_deleted_ends(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A line says what happened and what to do. The topic is not made again by accident."""
    topic = fresh_group("state-deleted")
    flags = state_flags(topic, "--processes=2")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    with trio.fail_after(LIMIT_S):
        async with serving(upstream_of(kafka), tmp_path, *flags) as gateway:
            await gateway.until_event("fleet_started")
            await trio.to_thread.run_sync(admin.delete_topics([topic])[topic].result)
            assert await gateway.wait_until_ended() == 1
            (line,) = gateway.other_lines
            assert line.startswith(f"groupferry: topic {topic} was deleted while a gateway ran")
            assert len(gateway.events("process_started")) == 2
    topics = await trio.to_thread.run_sync(lambda: admin.list_topics(timeout=20).topics)
    assert topic not in topics


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_a_process_that_cannot_use_the_state_topic_does_not_end_the_fleet(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A setting of the topic was changed. The other process continues, and that one as soon as the
    setting is right again."""
    topic = fresh_group("state-changed")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    async def set_policy(policy: str) -> None:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        altered = admin.incremental_alter_configs([resource])[resource]
        await trio.to_thread.run_sync(altered.result)

    flags = state_flags(topic, "--processes=2")
    with trio.fail_after(LIMIT_S):
        async with serving(upstream_of(kafka), tmp_path, *flags) as gateway:
            await gateway.until_event("fleet_started")
            await set_policy("delete")
            os.kill(gateway.events("process_started")[-1]["pid"], signal.SIGKILL)
            assert "cleanup.policy=delete" in await gateway.last_line()
            await set_policy("compact")
            taken = shards_taken(gateway)
            await until_taken(gateway, taken + SHARDS // 2)
            assert await gateway.terminate() == 0


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_several_processes_continue_with_the_topic_of_one_and_one_with_theirs(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Members keep their places, whether the processes have the same folder or none."""
    topic = fresh_group("state-of-one")
    groups = [fresh_group("kept") for _ in range(6)]
    joined: dict[str, JoinGroupResponse] = {}
    with trio.fail_after(LIMIT_S):
        async with serving(upstream_of(kafka), tmp_path / "a", *state_flags(topic)) as gateway:
            for group in groups:
                async with group_client(gateway.address, group) as client:
                    joined[group] = await client.enter(session_timeout_ms=120_000)
            assert await gateway.terminate() == 0
        for folder, flags in (("b", ("--processes=2",)), ("b", ()), ("c", ("--processes=2",))):
            async with serving(
                upstream_of(kafka), tmp_path / folder, *state_flags(topic, *flags)
            ) as gateway:
                if flags:
                    await gateway.until_event("fleet_started")
                for group, member in joined.items():
                    async with group_client(gateway.address, group) as client:
                        assert (await client.beat(member)).error_code == 0
                assert gateway.other_lines == []
                assert await gateway.terminate() == 0


async def test_a_killed_process_harms_no_authenticated_client(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """The clients use TLS, SCRAM and ACLs. Each coordinator node leads to one broker, which
    authenticates the client."""
    listener = secure_kafka.authority.issue("fleet", HOST)
    (tmp_path / "password").write_text(USERS["gateway"])
    security = tmp_path / "security"
    lines = [f"{name}={value}" for name, value in settings_of(secure_kafka)["librdkafka"].items()]
    security.write_text("\n".join(lines))
    flags = (
        "--processes=2",
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=gateway",
        f"--upstream-sasl-password-file={tmp_path / 'password'}",
        f"--tls-cert={listener.cert}",
        f"--tls-key={listener.key}",
    )
    host, port = secure_kafka.sasl_ssl
    with trio.fail_after(LIMIT_S):
        async with (
            borrow_cluster(
                [Address(*secure_kafka.plain)], fresh_group("fleet"), PARTITIONS
            ) as upstream,
            trio.open_nursery() as nursery,
        ):
            rule = Rule(USER, ResourceType.TOPIC, upstream.topic, AclOperation.READ)
            await trio.to_thread.run_sync(secure_kafka.rule, [rule])
            async with serving(f"{host}:{port}", tmp_path / "state", *flags) as gateway:
                await gateway.until_event("fleet_started")
                stage = GroupStage(nursery, upstream, gateway)
                await stage.produce(beside=True)
                for name, client in (("a", RDKAFKA), ("b", RDKAFKA)):
                    await stage.join(
                        name, client, f"--security={security}", *LONG_SESSIONS["librdkafka"]
                    )
                await wait_until_shared(stage)
                since_s = time.monotonic()
                await kill_each(Fleet(gateway, tmp_path / "state", 2))
                await stage.progress(200)
                moved = stage.ledger.disturbance(None, since_s, time.monotonic())
                assert (moved.partitions_moved, moved.members_disturbed) == (0, 0), stage.troubles
                await stage.end()
                nursery.cancel_scope.cancel()
