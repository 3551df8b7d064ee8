"""The demo on an existing cluster keeps the same guarantees, and leaves nothing behind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from operator import not_
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from coordinator.interface.config import GroupConfig
from gateway.addresses import Address
from gateway.cluster.broker_connection import BrokerConnection
from gateway.data_path.errors import ListenError
from gateway.demo import borrowed_cluster
from gateway.demo.borrowed_cluster import borrow_cluster
from gateway.demo.errors import DemoError
from gateway.demo.gateway import run_demo_gateway
from gateway.demo.outcome import DemoOutcome, Options
from gateway.demo.run import RunGateway, run
from gateway.events.event import Listener
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.header import RequestHeader
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.metadata import MetadataRequest
from tests.support.fake_broker import KAFKA_3, FakeBroker, running_fake_broker
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster, running_kafka
from tests.support.ports import free_port
from tests.support.releases import NEWEST, on_release
from tests.support.until import until_answered
from tests.support.wire import Wire

pytestmark = pytest.mark.timeout(FETCH_TIMEOUT_S)

PROGRAM = "import sys; from gateway.cli import main; sys.exit(main())"
LIMIT_S = 90
OPTIONS = Options(consumers=2, partitions=PARTITIONS)
EVERYBODY = "User:*"
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


def addresses_of(kafka: KafkaCluster) -> tuple[Address, ...]:
    return tuple(Address(*address) for address in kafka.addresses)


async def left_in(kafka: KafkaCluster, prefix: str) -> set[str]:
    """The topics and groups with this prefix."""
    names = set()
    for address in kafka.addresses:
        async with await BrokerConnection.open(*address) as connection:
            listed = await connection.ask(ListGroupsRequest())
            known = await connection.ask(MetadataRequest(topics=None))
        names |= {group.group_id for group in listed.groups}
        names |= {topic.name for topic in known.topics}
    return {name for name in names if name.startswith(prefix)}


async def until_nothing_left_in(kafka: KafkaCluster, prefix: str) -> None:
    """Wait until every broker has learned of the removal."""
    await until_answered(partial(left_in, kafka, prefix), not_)


async def roll(kafka: KafkaCluster, prefix: str, run_gateway: RunGateway) -> DemoOutcome:
    with trio.fail_after(LIMIT_S):
        return await run(OPTIONS, run_gateway, partial(borrow_cluster, addresses_of(kafka), prefix))


@pytest.mark.kafka
async def test_consumers_roll_there_and_back(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The demo's guarantees hold: no record is lost, no partition has two owners, the group
    converts live in both directions, and the offsets come directly from the cluster. Afterwards the
    cluster is as before."""
    prefix = fresh_group("rolled")
    outcome = await roll(kafka, prefix, partial(run_demo_gateway, state_dir=tmp_path))
    assert outcome.reason is None
    assert set(outcome.conversions.values()) == {"live"}
    assert outcome.totals is not None
    assert (outcome.totals.lost, outcome.totals.partitions_with_two_owners) == (0, 0)
    assert outcome.totals.committed_offsets == outcome.totals.end_offsets
    assert outcome.totals.consumed > 0
    await until_nothing_left_in(kafka, prefix)


@pytest.mark.kafka
async def test_a_failed_run_leaves_nothing_behind(kafka: KafkaCluster) -> None:
    """Neither topic nor group is left, although a member was still in the group."""
    prefix = fresh_group("failed")

    async def fail(
        upstream: str,
        group_config: GroupConfig,
        listener: Listener,
        *,
        task_status: trio.TaskStatus[str],
    ) -> None:
        async with group_client(kafka.addresses[0], f"{prefix}-group") as client:
            assert (await client.join(instance_id="static")).error_code == 0
        raise ListenError("no port")

    outcome = await roll(kafka, prefix, fail)
    assert outcome.reason == "the gateway did not start: no port"
    await until_nothing_left_in(kafka, prefix)


@pytest.mark.kafka
@on_release(NEWEST)
async def test_ctrl_c_leaves_nothing_behind(kafka: KafkaCluster) -> None:
    """The signal comes during the roll."""
    prefix = fresh_group("interrupted")
    command = [
        *(sys.executable, "-P", "-c", PROGRAM, "demo", "--consumers=2", "--log-format=json"),
        *(f"--upstream={kafka.bootstrap_servers}", f"--prefix={prefix}"),
    ]
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stderr=subprocess.PIPE, check=False)
            process: trio.Process = await nursery.start(run)
            assert process.stderr is not None
            output = b""
            while b"step_settled" not in output:
                more = await process.stderr.receive_some()
                assert more, output
                output += more
            assert await left_in(kafka, prefix) >= {f"{prefix}-numbers"}
            process.send_signal(signal.SIGINT)
            async for chunk in process.stderr:
                output += chunk
    assert process.returncode == 130
    assert output.endswith(b"groupferry: demo ended by SIGINT\n")
    assert b"Traceback" not in output
    await until_nothing_left_in(kafka, prefix)


@pytest.mark.kafka
async def test_existing_topics_and_groups_are_neither_used_nor_removed(kafka: KafkaCluster) -> None:
    """Their names are the demo's, and they may be empty."""
    prefix = fresh_group("taken")
    async with borrow_cluster(addresses_of(kafka), prefix, 1):
        with pytest.raises(DemoError, match="TOPIC_ALREADY_EXISTS"):
            async with borrow_cluster(addresses_of(kafka), prefix, 1):
                pass
        assert await left_in(kafka, prefix) == {f"{prefix}-numbers"}
        async with group_client(kafka.addresses[0], f"{prefix}-group") as client:
            await client.commit({0: 1})
        with pytest.raises(DemoError, match="-group exists already, choose another --prefix"):
            async with borrow_cluster(addresses_of(kafka), prefix, 1):
                pass
        assert await left_in(kafka, prefix) == {f"{prefix}-numbers", f"{prefix}-group"}
    await until_nothing_left_in(kafka, prefix)


@pytest.fixture
def strict_kafka() -> Iterator[KafkaCluster]:
    """A cluster that denies creating topics with the prefix "refused", describing those with
    "hidden", and deleting groups with "kept"."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    allow, deny, any_host = AclPermissionType.ALLOW, AclPermissionType.DENY, "*"
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    rules = []
    for kind, name, pattern, denied in (
        (
            ResourceType.BROKER,
            "kafka-cluster",
            literal,
            AclOperation.CREATE,
        ),  # otherwise any topic may be described
        (ResourceType.TOPIC, "refused", prefixed, AclOperation.CREATE),
        (ResourceType.TOPIC, "hidden", prefixed, AclOperation.DESCRIBE),
        (ResourceType.GROUP, "kept", prefixed, AclOperation.DELETE),
    ):
        for operation, permission in ((AclOperation.ALL, allow), (denied, deny)):
            rule = AclBinding(kind, name, pattern, EVERYBODY, any_host, operation, permission)
            rules.append(rule)
    with running_kafka(NEWEST, brokers=1, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for done in admin.create_acls(rules).values():
            done.result(LIMIT_S)
        yield cluster


@pytest.mark.kafka
async def test_a_refusal_by_the_cluster_is_reported_in_its_words(
    strict_kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start nothing was created. At the end the leftovers are named."""
    monkeypatch.setattr(borrowed_cluster, "SPREAD_LIMIT_S", 1)
    addresses = addresses_of(strict_kafka)
    refused = "the cluster refused to create topic refused-numbers: TOPIC_AUTHORIZATION_FAILED: "
    with pytest.raises(DemoError, match=refused):
        async with borrow_cluster(addresses, "refused", 1):
            pass
    hidden = "topic hidden-numbers is not on every broker after 1 s: TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(DemoError, match=hidden):
        async with borrow_cluster(addresses, "hidden", 1):
            pass
    refusal = (
        r"^could not be removed, please remove by hand: group kept-group "
        r"\(deleting the group was refused: GROUP_AUTHORIZATION_FAILED\)$"
    )
    with pytest.raises(DemoError, match=refusal):
        async with borrow_cluster(addresses, "kept", 1):
            pass
    with pytest.raises(ZeroDivisionError):  # then it is only logged
        async with borrow_cluster(addresses, "kept-too", 1):
            raise ZeroDivisionError


async def test_an_unusable_cluster_is_one_line() -> None:
    """The cluster is unreachable, or requires TLS or SASL."""

    async def alert(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(TLS_ALERT)

    async def close(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.lowlevel.checkpoint()
        raise EOFError

    async def reason(port: int) -> str:
        command = [*(sys.executable, "-P", "-c", PROGRAM), "demo", f"--upstream=127.0.0.1:{port}"]
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, b"")
        (line,) = done.stderr.decode().splitlines()
        start = "groupferry: demo failed: "
        assert line.startswith(start)
        return line.removeprefix(start).replace(f"127.0.0.1:{port}", "it")

    closed = free_port()
    wants_sasl = FakeBroker(
        versions={**KAFKA_3, ApiKey.SASL_HANDSHAKE: (0, 1)}, handlers={ApiKey.METADATA: close}
    )
    with trio.fail_after(LIMIT_S):
        assert await reason(closed) == "cannot connect to it: Connection refused"
        async with trio.open_nursery() as nursery, running_fake_broker(wants_sasl):
            tls = await nursery.start(trio.serve_tcp, alert, 0)
            message = await reason(tls[0].socket.getsockname()[1])
            assert message == "it: it wants TLS: set upstream_security_protocol to ssl or sasl_ssl"
            message = await reason(wants_sasl.address[1])
            assert message.endswith("set upstream_security_protocol to sasl_plaintext or sasl_ssl")
            nursery.cancel_scope.cancel()
