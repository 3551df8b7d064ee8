"""Several processes behind one set of ports, with real clients in a dozen groups.

A process that is killed is started again in its slot. Its clients come back to the same addresses,
and no group rebalances.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.demo.borrowed_cluster import borrowed
from gateway.fleet.member import SHARDS, FleetMember
from gateway.settings import Address
from tests.e2e.test_secure_roll import USER, settings_of, shared
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.ports import HOST
from tests.support.promises import promise
from tests.support.releases import LAST_CLASSIC
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import serving

PROCESSES = 3
LIMIT_S = 420
BACK_S_MAX = 5
"""How long the groups of a killed process may be without one. Half a second on a machine that has
nothing else to do; but the clients of a dozen groups come back at the same moment."""
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
    "bravo": (NATIVE, NATIVE),
    "charlie": (Client(library="java", assignor="cooperative-sticky"), RDKAFKA),
    "delta": (Client(library="kafka-python"),),
    "echo": (Client(library="aiokafka"),),
    "foxtrot": (NATIVE,),
    "golf": (RDKAFKA,),
    "hotel": (Client(library="java", protocol="consumer"),),
    "india": (Client(library="kafka-python"),),
    "juliett": (Client(library="aiokafka"),),
    "kilo": (NATIVE,),
    "lima": (RDKAFKA,),
}
"""The clients of each group."""


def protocol_of(stage: GroupStage) -> str:
    """The protocol that the group's clients speak."""
    (protocol,) = {member.client.protocol for member in stage.members.values()}
    return protocol


async def settle(stages: list[GroupStage]) -> None:
    """Wait until every group has settled and consumes."""
    for stage in stages:
        await stage.settled("consumer" if protocol_of(stage) == "consumer" else "classic")
    for stage in stages:
        await stage.progress(50)


async def kill_one(stages: list[GroupStage], slot: int) -> float:
    """Kill the process of a slot, and wait until it serves again. Returns the seconds between."""
    gateway = stages[0].gateway
    pid = [line["pid"] for line in gateway.events("process_started") if line["slot"] == slot][-1]
    served = len(gateway.events("gateway_started"))
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    await gateway.until_event("gateway_started", served + 1)
    return time.monotonic() - began_s


def listed_groups(bootstrap: str) -> list[str]:
    """The groups as an admin client lists them, with repeats."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    groups = client.list_consumer_groups(request_timeout=20).result().valid
    return sorted(group.group_id for group in groups)


@pytest.mark.parametrize("kafka", [LAST_CLASSIC], indirect=True)
async def test_a_killed_process_harms_no_group(kafka: KafkaCluster, tmp_path: Path) -> None:
    """No record is lost, no partition has two owners, and no group rebalances, neither those of the
    killed process nor the others."""
    flags = (f"--processes={PROCESSES}", LONG_NATIVE_SESSIONS)
    async with open_groups(kafka, tuple(CLIENTS), tmp_path, *flags, limit_s=LIMIT_S) as stages:
        gateway = stages[0].gateway
        await gateway.until_event("fleet_started")
        member = FleetMember(slot=0, slots=PROCESSES, shards=SHARDS)
        assert {member.slot_of(stage.group) for stage in stages} == set(range(PROCESSES))
        for stage in stages:
            for number, client in enumerate(CLIENTS[stage.group]):
                flags_of_client = LONG_SESSIONS.get(client.library, ())
                await stage.join(f"{stage.group}-{number}", client, *flags_of_client)
        await settle(stages)
        since_s = time.monotonic()
        gaps_s = [await kill_one(stages, slot) for slot in range(PROCESSES)]
        await trio.sleep(10)  # the clients' next heartbeats
        await settle(stages)
        for stage in stages:
            moved = stage.ledger.disturbance(None, since_s, time.monotonic())
            troubles = (stage.group, stage.troubles)
            assert (moved.partitions_moved, moved.members_disturbed) == (0, 0), troubles
        listed = await trio.to_thread.run_sync(listed_groups, gateway.bootstrap)
        assert [group_id for group_id in listed if group_id in CLIENTS] == sorted(CLIENTS)
        produced = await stages[0].produced()
        for stage in stages:
            await stage.end_after(produced)
            promise(stage.ledger.held_after_fencing() == set(), stage.troubles)
        assert max(gaps_s) < BACK_S_MAX, gaps_s
        assert gateway.other_lines == []
        assert [line for line in gateway.log if line["level"] == "error"] == []
        assert await gateway.terminate() == 0


async def test_a_killed_process_harms_no_authenticated_client(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """Over TLS, with SCRAM and ACLs. Each coordinator node leads to one broker, which authenticates
    the client."""
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
            borrowed([Address(*secure_kafka.plain)], fresh_group("fleet"), PARTITIONS) as upstream,
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
                await shared(stage)
                since_s = time.monotonic()
                for slot in range(2):
                    await kill_one([stage], slot)
                    await stage.progress(200)
                moved = stage.ledger.disturbance(None, since_s, time.monotonic())
                assert (moved.partitions_moved, moved.members_disturbed) == (0, 0), stage.troubles
                await stage.end()
                nursery.cancel_scope.cancel()
