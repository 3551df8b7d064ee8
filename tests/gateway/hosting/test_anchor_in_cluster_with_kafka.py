"""What brokers, and tools that bypass the gateway, make of an anchor: its bytes, its type, and its
partitions. test_promises_with_kafka.py has what it is for."""

import pytest
import trio
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from kafka import KafkaAdminClient

from gateway.hosting.identity import INSTANCE_ID, AnchorJoinMetadata, unreadable_subscription
from gateway.state_log.memory import MemoryLog
from kafka_codecs.consumer_protocol import Subscription, encode_subscription
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from tests.simulation.subscription_reading import Reading, read
from tests.support.client_programs import program
from tests.support.direct_clients import anchor_in, delete_offsets, remove_anchor, until_anchored
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster, running_kafka
from tests.support.kafka_release import kafka_release
from tests.support.releases import LAST_CLASSIC, NEWEST, release_number, with_anchors
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

SESSION_TIMEOUT_MS = 60_000
NO_ANSWER_S = 2.0
FIRST_THAT_NEVER_CRASHES = release_number("4.4")
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


async def join_as(direct: GroupClient, join_metadata: AnchorJoinMetadata) -> JoinGroupResponse:
    """Join the group in the cluster."""
    joined: JoinGroupResponse = await direct.connection.ask(
        JoinGroupRequest(
            group_id=direct.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id="",
            group_instance_id=join_metadata.instance_id,
            protocol_type=join_metadata.protocol_type,
            protocols=(
                JoinGroupProtocol(name=join_metadata.protocol, metadata=join_metadata.metadata),
            ),
        )
    )
    return joined


async def hold_as(direct: GroupClient, join_metadata: AnchorJoinMetadata) -> str:
    """Join and sync as another process would. Returns the member id."""
    joined = await join_as(direct, join_metadata)
    assert joined.error_code == 0
    synced: SyncGroupResponse = await direct.connection.ask(
        SyncGroupRequest(
            group_id=direct.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=join_metadata.instance_id,
            protocol_type=join_metadata.protocol_type,
            protocol_name=join_metadata.protocol,
            assignments=(SyncGroupAssignment(member_id=joined.member_id, assignment=b""),),
        )
    )
    assert synced.error_code == 0
    return joined.member_id


def with_metadata(metadata: bytes) -> AnchorJoinMetadata:
    return AnchorJoinMetadata(
        protocol_type="consumer",
        protocol="groupferry-log",
        metadata=metadata,
        instance_id=INSTANCE_ID,
    )


# -- the bytes -------------------------------------------------------------------------------------


@with_anchors()
@pytest.mark.parametrize("run_id", [0, 7, 12_345_678_901, 2**63 - 1])
async def test_no_bytes_of_an_anchor_hang_a_coordinator(kafka: KafkaCluster, run_id: int) -> None:
    """The bytes do not count as a subscription: the cluster keeps the offsets of the group."""
    async with group_client(kafka.addresses[0], fresh_group("bytes")) as direct:
        assert await direct.commit({0: 7}, version=8) == {0: 0}
        await hold_as(direct, with_metadata(unreadable_subscription(run_id)))
        assert (await direct.describe()).group_state == "Stable"
        assert await delete_offsets(direct) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize(
    ("metadata", "reading"),
    [
        (b"", Reading.UNREADABLE),
        (b"\0\0\0\0\0\1\0\1x\0\0", Reading.UNREADABLE),
        (encode_subscription(Subscription(topics=()), 0), Reading.SUBSCRIPTION),
        (encode_subscription(Subscription(topics=("other",)), 1), Reading.SUBSCRIPTION),
        (b"0af7651916cd43dd8448eb211c80319c", Reading.CRASH),
        (b"\0\0\0\0\0\1\0\5x", Reading.CRASH),
        (b"\xff\xff\0\0\0\0\xff\xff\xff\xff", Reading.SUBSCRIPTION),
    ],
)
async def test_coordinators_read_subscriptions_as_our_port_does(
    kafka: KafkaCluster, metadata: bytes, reading: Reading
) -> None:
    """The property test of the anchor's bytes relies on it. A group without a readable subscription
    keeps all offsets; one that crashed its coordinator never gets an answer. Since Kafka 4.4 no
    bytes crash it."""
    assert read(metadata) is reading
    async with group_client(kafka.addresses[0], fresh_group("bytes")) as direct:
        assert await direct.commit({0: 7}, version=8) == {0: 0}
        if reading is Reading.CRASH and release_number(kafka.release) < FIRST_THAT_NEVER_CRASHES:
            with trio.move_on_after(NO_ANSWER_S):
                joined = await join_as(direct, with_metadata(metadata))
                assert joined.error_code
            return
        await hold_as(direct, with_metadata(metadata))
        is_readable = reading is Reading.SUBSCRIPTION
        code = 0 if is_readable else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await delete_offsets(direct) == code


# -- tools that bypass the gateway -----------------------------------------------------------------


@with_anchors()
async def test_tools_that_bypass_the_gateway_show_the_group_with_its_lag(
    kafka: KafkaCluster,
) -> None:
    """Kafka's own tool, librdkafka and kafka-python see a Stable consumer group."""
    group = fresh_group("shown")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.native("n")
        await client.commit({0: 0, 1: 0}, member_id="n", epoch=joined.member_epoch)
        await until_answered(
            direct.describe, lambda held: b"numbers" in held.members[0].member_assignment
        )
        assert await trio.to_thread.run_sync(_seen_by_librdkafka, kafka, group) == {
            ("numbers", number) for number in range(PARTITIONS)
        }
        await trio.to_thread.run_sync(_check_with_kafka_python, kafka, group)
        await _check_with_kadm(kafka, group)
        rows = await _rows_of_kafkas_tool(kafka, group)
        assert [row[:2] for row in rows] == [["numbers", f"{n}"] for n in range(PARTITIONS)]
        for row in rows[:2]:  # offset, end of the log, lag
            assert row[2] == "0"
            assert row[3] == row[4]
        assert (await client.native("n", joined.member_epoch)).error_code == 0


def _seen_by_librdkafka(kafka: KafkaCluster, group: str) -> set[tuple[str, int]]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert described.state is ConsumerGroupState.STABLE
    listed = admin.list_consumer_groups().result(30)
    assert group in {
        listing.group_id for listing in listed.valid if not listing.is_simple_consumer_group
    }
    (stored,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert {partition.partition for partition in stored.result(30).topic_partitions} == {0, 1}
    (member,) = described.members
    return {
        (partition.topic, partition.partition) for partition in member.assignment.topic_partitions
    }


def _check_with_kafka_python(kafka: KafkaCluster, group: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        assert "Stable" in str(admin.describe_groups([group]))
    finally:
        admin.close()


async def _check_with_kadm(kafka: KafkaCluster, group: str) -> None:
    """franz-go's admin client, with which lag exporters in Go are written."""
    kadm = await trio.to_thread.run_sync(program, "kadm")
    command = [*kadm.command, kafka.bootstrap_servers, group]
    done = await trio.run_process(command, capture_stdout=True)
    first, *rows = done.stdout.decode().splitlines()
    assert first == "Stable consumer 1"
    assert [row.split()[:3] for row in rows] == [
        ["numbers", f"{number}", "true"] for number in range(PARTITIONS)
    ]
    assert [row.split()[3] for row in rows[:2]] == ["0", "0"]


async def _rows_of_kafkas_tool(kafka: KafkaCluster, group: str) -> list[list[str]]:
    """The columns after the group's name, sorted by partition."""
    release = kafka.release if kafka.has_new_protocol else LAST_CLASSIC
    command = kafka_release(release).command(GROUP_TOOL)
    command += ["--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", group]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    return sorted(line[1:] for line in lines if line[:1] == [group])


async def test_a_topic_that_grows_is_shown_with_all_its_partitions(
    one_broker: KafkaCluster,
) -> None:
    """Commits continue meanwhile. Some may be asked to wait, as with any rebalance of the
    anchor."""
    group = fresh_group("grown")
    async with (
        group_client(one_broker.addresses[0], group) as direct,
        whole_gateway(one_broker.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.native("n")
        before = await until_answered(
            direct.describe, lambda held: b"numbers" in held.members[0].member_assignment
        )
        await trio.to_thread.run_sync(_grow, one_broker)
        epoch, offset = joined.member_epoch, 0

        async def is_shown() -> bool:
            nonlocal epoch, offset
            beat = await client.native("n", epoch)
            epoch = beat.member_epoch
            offset += 1
            assert await client.commit({0: offset}, member_id="n", epoch=epoch) == {0: 0}
            held = await direct.describe()
            return held.members[0].member_assignment > before.members[0].member_assignment

        await until_answered(is_shown)
        after = await anchor_in(direct)
        assert after.members[0].member_id == before.members[0].member_id
        assert (await direct.fetch_offsets())[0] == offset


def _grow(kafka: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    (done,) = admin.create_partitions([NewPartitions("numbers", PARTITIONS + 2)]).values()
    done.result(30)


# -- anchors of version 0.2 ------------------------------------------------------------------------


@with_anchors()
async def test_a_group_with_an_anchor_of_version_0_2_waits_until_that_has_left(
    kafka: KafkaCluster,
) -> None:
    """Its consumers retry meanwhile."""
    group, log = fresh_group("older"), MemoryLog()
    older = AnchorJoinMetadata(
        protocol_type="groupferry", protocol=log.id, metadata=b"run 1", instance_id="groupferry"
    )
    async with group_client(kafka.addresses[0], group) as direct:
        await hold_as(direct, older)
        async with (
            whole_gateway(kafka.addresses, state_log=log) as gateway,
            group_client(gateway.address, group) as client,
        ):
            refused = await client.native("n")
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert "0.2" in (refused.error_message or "")
            assert await remove_anchor(direct, older.instance_id) == 0
            await until_answered(lambda: client.native("n"), lambda it: not it.error_code)
            assert (await anchor_in(direct)).protocol_type == "consumer"


# -- weak moments of Kafka 4 -----------------------------------------------------------------------


@pytest.mark.long
def test_an_anchor_gets_in_although_a_native_consumer_tries_while_it_waits() -> None:
    """In the initial delay of a new group, the attempt fails, and with it the anchor's JoinGroup,
    which is repeated."""

    async def race(cluster: KafkaCluster) -> None:
        group = fresh_group("raced")
        async with (
            group_client(cluster.addresses[0], group) as direct,
            whole_gateway(cluster.addresses) as gateway,
            group_client(gateway.address, group) as client,
            trio.open_nursery() as nursery,
        ):
            codes = set()

            async def outsider() -> None:
                await until_answered(direct.describe, lambda group: group.members)
                for _ in range(3):
                    codes.add((await direct.native("outsider")).error_code)
                    await trio.sleep(0.2)

            nursery.start_soon(outsider)
            joined = await until_answered(lambda: client.native("n"), lambda it: not it.error_code)
            assert joined.member_epoch
            await until_anchored(direct)
            assert 0 not in codes

    settings = {"group.initial.rebalance.delay.ms": 2_000}
    with running_kafka(NEWEST, brokers=1, settings=settings) as cluster:
        trio.run(race, cluster)
