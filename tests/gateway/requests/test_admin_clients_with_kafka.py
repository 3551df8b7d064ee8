"""Real admin tools with hosted groups of every kind, in front of a cluster with and without the
native protocol."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import trio
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it does not list them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType

from tests.support.configs import HEARTBEAT, SESSION
from tests.support.gateway import QUICK, whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.kafka_release import QUICK_START, kafka_release
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

TOOLS_RELEASE = NEWEST
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_KINDS_TOOL = "org.apache.kafka.tools.GroupsCommand"
CONFIG_TOOL = "org.apache.kafka.tools.ConfigCommand"
JAVA_OPTIONS = (*QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SESSION_TIMEOUT_MS = 600_000  # longer than the tools of one test take on a busy machine
GROUPS = replace(
    QUICK,
    consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
    consumer_max_session_timeout_ms=SESSION_TIMEOUT_MS,
)
KINDS = ("classic", "mixed", "native", "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A gateway that hosts one group of each kind."""

    servers: str
    names: Mapping[str, str]
    """The group of each kind."""
    clients: Mapping[str, GroupClient]

    async def java(self, tool: str, *arguments: str) -> str:
        """The output of one of Kafka's command line tools."""
        release = kafka_release(TOOLS_RELEASE, JAVA_OPTIONS)
        command = release.command(tool, "--bootstrap-server", self.servers, *arguments)
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        return (done.stdout + done.stderr).decode()

    async def rows(self, *arguments: str, tool: str = GROUP_TOOL) -> dict[str, list[str]]:
        """The group tool's rows about the hosted groups by kind, without the group's name."""
        kinds = {name: kind for kind, name in self.names.items()}
        rows: dict[str, list[str]] = {}
        for line in (await self.java(tool, *arguments)).splitlines():
            name, *columns = line.split() or [""]
            if name in kinds:
                rows.setdefault(kinds[name], []).append(" ".join(columns))
        return rows


@asynccontextmanager
async def open_scene(kafka: KafkaCluster) -> AsyncIterator[Scene]:
    """Every group has settled, and needs no heartbeats during a test."""
    names = {kind: fresh_group(kind) for kind in KINDS}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(whole_gateway(kafka.addresses, groups=GROUPS))
        clients = {
            kind: await stack.enter_async_context(
                group_client(gateway.address, name, client_id=kind)
            )
            for kind, name in names.items()
        }
        await clients["classic"].enter(session_timeout_ms=SESSION_TIMEOUT_MS)
        await clients["native"].native("n")
        await _mix(clients["mixed"])
        joined = await clients["empty"].enter()
        await clients["empty"].leave(joined.member_id)
        yield Scene(servers=gateway.bootstrap_servers, names=names, clients=clients)
        # The next scene's tools list all groups, and Kafka 3.9 has no configs for those of another
        # gateway, so release them.
        gateway.stop.set()
        await gateway.ended.wait()


async def _mix(client: GroupClient) -> None:
    """One classic and one native member that have reached their targets."""
    joined = await client.enter(session_timeout_ms=SESSION_TIMEOUT_MS)
    await client.native("n")
    joined = await client.join(joined.member_id, session_timeout_ms=SESSION_TIMEOUT_MS)
    assert (await client.sync(joined)).error_code == 0
    epoch = (await client.native("n")).member_epoch
    assert (await client.described_as_consumer_group()).group_state == "Stable"
    assert epoch == joined.generation_id


async def test_kafkas_group_tool(kafka: KafkaCluster) -> None:
    """Lists by state and type, descriptions with members and states, deletions and resets."""
    async with open_scene(kafka) as scene:
        listed = await scene.rows("--list", "--state")
        assert {kind: rows[0] for kind, rows in listed.items()} == {
            "classic": "Stable",
            "mixed": "Stable",
            "native": "Stable",
            "empty": "Empty",
        }
        listed = await scene.rows("--list", "--type", "consumer")
        assert listed == {"mixed": ["Consumer"], "native": ["Consumer"]}
        states = await scene.rows("--describe", "--all-groups", "--state", "--verbose")
        without_coordinator = {kind: rows[0].split(" ", 2)[2] for kind, rows in states.items()}
        assert without_coordinator == {
            "classic": "range Stable - - 1",
            "mixed": "uniform Stable 2 2 2",
            "native": "uniform Stable 2 2 1",
            "empty": "- Empty - - 0",
        }
        members = await scene.rows("--describe", "--all-groups", "--members", "--verbose")
        assert "classic 3 - numbers:0,1,2 - -" in members["classic"][0]
        assert members["native"] == ["n /127.0.0.1 native 3 2 numbers:0,1,2 2 numbers:0,1,2"]
        upgraded = [row.rpartition(" ")[2] for row in members["mixed"]]
        assert sorted(upgraded) == ["false", "true"]
        for row in members["mixed"]:
            _id, _host, _client, _count, epoch, current, target_epoch, target, _ = row.split()
            assert (epoch, current) == (target_epoch, target)
        assert "empty" not in members
        empty, native = scene.names["empty"], scene.names["native"]
        reset = ("--reset-offsets", "--topic", "numbers", "--to-earliest", "--execute")
        assert len((await scene.rows(*reset, "--group", empty))["empty"]) == 3
        offsets = await scene.rows("--describe", "--group", empty, "--offsets")
        assert len(offsets["empty"]) == 3
        # One stays: without offsets, the cluster forgets the group once its anchor has left.
        gone = await scene.java(
            GROUP_TOOL, "--delete-offsets", "--group", empty, "--topic", "numbers:0,1"
        )
        assert gone.count("Successful") == 2
        deleted = await scene.java(GROUP_TOOL, "--delete", "--group", empty)
        assert "was successful" in deleted
        refused = await scene.java(GROUP_TOOL, "--delete", "--group", native)
        assert "GroupNotEmptyException" in refused
        unknown = await scene.java(GROUP_TOOL, "--describe", "--group", empty)
        assert f"GroupIdNotFoundException: Group {empty} not found." in unknown


async def test_kafkas_tool_for_groups_of_all_kinds(kafka: KafkaCluster) -> None:
    """kafka-groups.sh shows types and protocols, also with filters."""
    async with open_scene(kafka) as scene:
        assert await scene.rows("--list", tool=ALL_KINDS_TOOL) == {
            "classic": ["Classic consumer"],
            "mixed": ["Consumer consumer"],
            "native": ["Consumer consumer"],
            "empty": ["Classic consumer"],
        }
        by_type = await scene.rows("--list", "--group-type", "classic", tool=ALL_KINDS_TOOL)
        assert set(by_type) == {"classic", "empty"}
        of_consumers = await scene.rows("--list", "--consumer", tool=ALL_KINDS_TOOL)
        assert set(of_consumers) == set(KINDS)
        assert await scene.rows("--list", "--share", tool=ALL_KINDS_TOOL) == {}


async def test_kafkas_config_tool(kafka: KafkaCluster) -> None:
    """The tool sets, shows and deletes a config, which takes effect immediately, and reports a
    refusal."""
    async with open_scene(kafka) as scene:
        mixed = ("--entity-type", "groups", "--entity-name", scene.names["mixed"])
        both = f"{HEARTBEAT}=7000,{SESSION}=50000"
        await scene.java(CONFIG_TOOL, *mixed, "--alter", "--add-config", both)
        assert (await scene.clients["mixed"].native("n")).heartbeat_interval_ms == 7_000
        await scene.java(CONFIG_TOOL, *mixed, "--alter", "--delete-config", SESSION)
        # The tool fails for the set of all groups if the cluster has to answer for one of them,
        # even without groupferry, and other tests may have left some. So name the group.
        shown = await scene.java(CONFIG_TOOL, *mixed, "--describe")
        assert f"DYNAMIC_GROUP_CONFIG:{HEARTBEAT}=7000" in shown
        assert f"{SESSION}=50000" not in shown
        refused = await scene.java(CONFIG_TOOL, *mixed, "--alter", "--add-config", f"{SESSION}=1")
        assert "InvalidConfigurationException" in refused
        broker = ("--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
        assert "  listeners=null sensitive=true" in await scene.java(CONFIG_TOOL, *broker)


async def test_librdkafkas_admin_client(kafka: KafkaCluster) -> None:
    """Lists with filters, descriptions, configs and deletion."""
    async with open_scene(kafka) as scene:
        # Left open, the client would continue to ask for the gateway: errors of futures keep it
        # alive.
        with AdminClient({"bootstrap.servers": scene.servers}) as admin:
            await trio.to_thread.run_sync(_librdkafka, admin, scene.names)
        assert (await scene.clients["mixed"].native("n")).heartbeat_interval_ms == 7_000


def _librdkafka(admin: AdminClient, names: Mapping[str, str]) -> None:
    def list_group_ids(**filters: object) -> set[str]:
        result = admin.list_consumer_groups(**filters).result(10)
        assert not result.errors
        group_ids = {group.group_id for group in result.valid}
        return {kind for kind, name in names.items() if name in group_ids}

    assert list_group_ids() == set(KINDS)
    assert list_group_ids(states={ConsumerGroupState.EMPTY}) == {"empty"}
    assert list_group_ids(types={ConsumerGroupType.CONSUMER}) == {"mixed", "native"}
    both = {"states": {ConsumerGroupState.STABLE}, "types": {ConsumerGroupType.CLASSIC}}
    assert list_group_ids(**both) == {"classic"}
    described = admin.describe_consumer_groups(list(names.values()))
    groups = {kind: described[name].result(10) for kind, name in names.items()}
    assert {
        kind: (group.state, group.type, len(group.members)) for kind, group in groups.items()
    } == {
        "classic": (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC, 1),
        "mixed": (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, 2),
        "native": (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, 1),
        "empty": (ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC, 0),
    }
    for kind in ("classic", "mixed", "native"):
        owned = [
            partition for m in groups[kind].members for partition in m.assignment.topic_partitions
        ]
        assert sorted(partition.partition for partition in owned) == [0, 1, 2]
    entry = ConfigEntry(HEARTBEAT, "7000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.GROUP, names["mixed"], incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([changed]).values():
        altered.result(10)
    for shown in admin.describe_configs([changed]).values():
        assert shown.result(10)[HEARTBEAT].value == "7000"
    deleted = admin.delete_consumer_groups([names["empty"], names["mixed"]])
    deleted[names["empty"]].result(10)
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        deleted[names["mixed"]].result(10)


async def test_kafka_pythons_admin_client(kafka: KafkaCluster) -> None:
    """A tool that knows only the classic describe sees all members with their assignments."""
    async with open_scene(kafka) as scene:
        await trio.to_thread.run_sync(_kafka_python, scene.servers, scene.names)


def _kafka_python(servers: str, names: Mapping[str, str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    listed = {group["group_id"]: group["group_type"] for group in admin.list_groups()}
    assert (
        listed.items()
        >= {
            names["classic"]: "classic",
            names["mixed"]: "consumer",
            names["native"]: "consumer",
            names["empty"]: "classic",
        }.items()
    )
    groups = admin.describe_groups([names["classic"], names["mixed"], names["native"]])
    for group in groups.values():
        assert group["group_state"] == "Stable"
        owned = [
            number
            for member in group["members"]
            for topic in member["member_assignment"]["assigned_partitions"]
            for number in topic["partitions"]
        ]
        assert sorted(owned) == [0, 1, 2]
    resource = PythonConfigResource(ConfigResourceType.GROUP, names["native"], {SESSION: "50000"})
    admin.alter_configs([resource])
    (shown,) = admin.describe_configs([resource])["group"].values()
    assert shown[SESSION]["value"] == "50000"
    admin.close()
