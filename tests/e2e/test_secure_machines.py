"""Gateways on two machines with TLS and SASL, of a cluster with ACLs, ask each other."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.fleet.member import broker_of, is_coordinator
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.metadata import MetadataRequest
from tests.e2e.test_machines import has_owner, until_shared
from tests.gateway.cluster.test_own_permissions import documented_rules
from tests.support.certificate_authority import CertificateAuthority
from tests.support.group_client import find_coordinator, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC
from tests.support.ports import free_port
from tests.support.secure_kafka import SecureKafka
from tests.support.secure_users import PASSWORD, PREFIX, access_of, new_user
from tests.support.serve_process import ServeProcess, serving
from tests.support.until import until_answered

LIMIT_S = 120
HOSTS = ("127.0.0.1", "127.0.0.2")
SESSION_MS = 60_000
GROUPS = 8
"""Enough for each machine to have one of them."""
NONE, REFUSED = ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S),
]


async def node_without(gateway: ServeProcess, group: str, access: Access) -> tuple[str, int]:
    """A coordinator node of a gateway that does not have the group, and leads to its broker. Any
    gateway tells."""
    owner = await find_coordinator(gateway.address, group, access)
    async with await BrokerConnection.open(*gateway.address, access=access) as connection:
        metadata = await connection.ask(MetadataRequest(topics=()), 9)
    return next(
        (node.host, node.port)
        for node in metadata.brokers
        if is_coordinator(node.node_id)
        and broker_of(node.node_id) == broker_of(owner.node_id)
        and node.host != owner.host
    )


async def codes_at(node: tuple[str, int], group: str, access: Access) -> Sequence[ErrorCode]:
    """The error of each request about a group at this node."""
    kind = ConfigResourceType.GROUP
    described = DescribeConfigsResource(
        resource_type=kind, resource_name=group, configuration_keys=None
    )
    altered = AlterConfigsResource(resource_type=kind, resource_name=group, configs=())
    requests: Sequence[tuple[Struct, int]] = (
        (DescribeGroupsRequest(groups=(group,)), 5),
        (ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False), 0),
        (DescribeConfigsRequest(resources=(described,)), 4),
        (IncrementalAlterConfigsRequest(resources=(altered,), validate_only=True), 1),
        (DeleteGroupsRequest(groups_names=(group,)), 2),
    )
    codes: list[ErrorCode] = []
    async with await BrokerConnection.open(*node, access=access) as connection:
        for message, version in requests:
            answer = await connection.ask(message, version)
            names = ("groups", "results", "responses")
            ((part,),) = (getattr(answer, name) for name in names if hasattr(answer, name))
            codes.append(ErrorCode(part.error_code))
    return codes


async def group_at(host: str, gateway: ServeProcess, access: Access) -> str:
    """A group that this machine has, as another gateway says; empty if it has none."""
    for number in range(GROUPS):
        owner = await find_coordinator(gateway.address, f"group-{number}", access)
        if owner.host == host:
            return f"group-{number}"
    return ""


async def code_of_join(gateway: ServeProcess, group: str, access: Access) -> int:
    """The answer to a new member where this gateway sends it."""
    async with group_client(gateway.address, group, access=access) as client:
        return (await client.join(protocol="range")).error_code


async def test_machines_ask_each_other_with_tls_and_sasl(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """The documented rights suffice. A client learns at any machine what the cluster lets it see,
    whatever the gateway's own user may see. A gateway with a foreign certificate is
    not asked."""
    group, topic = ResourceType.GROUP, ResourceType.TOPIC
    rules = (*documented_rules(in_fleet=False), *documented_rules(in_fleet=True))
    user = await new_user(secure_kafka, *rules)
    client = await new_user(
        secure_kafka, (group, "*", AclOperation.ALL), (topic, TOPIC, AclOperation.READ)
    )
    stranger = await new_user(secure_kafka, (group, "others", AclOperation.ALL))
    known, unknown = access_of(secure_kafka, client), access_of(secure_kafka, stranger)
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    host, upstream_port = secure_kafka.sasl_ssl
    state_topic, port = f"{PREFIX}{fresh_group('state')}", free_port()
    foreign = CertificateAuthority.in_folder(tmp_path / "foreign")

    def flags(authority: CertificateAuthority, address: str) -> Sequence[str]:
        listener = authority.issue(f"gateway-{address}", address)
        return (
            "--state=kafka",
            f"--state-topic={state_topic}",
            "--fleet=true",
            "--upstream-security-protocol=sasl_ssl",
            f"--upstream-tls-ca={secure_kafka.authority.ca}",
            "--upstream-sasl-mechanism=SCRAM-SHA-256",
            f"--upstream-sasl-username={user}",
            f"--upstream-sasl-password-file={password}",
            f"--tls-cert={listener.cert}",
            f"--tls-key={listener.key}",
        )

    async def start(
        stack: AsyncExitStack, address: str, authority: CertificateAuthority
    ) -> ServeProcess:
        return await stack.enter_async_context(
            serving(
                f"{host}:{upstream_port}",
                tmp_path / address,
                *flags(authority, address),
                bootstrap=f"{address}:{port}",
            )
        )

    group_id = fresh_group("asked")
    with trio.fail_after(LIMIT_S):
        async with AsyncExitStack() as stack:
            first, second = [
                await start(stack, address, secure_kafka.authority) for address in HOSTS
            ]
            await until_shared([first, second])
            for gateway in (first, second):
                assert gateway.events("permission_missing") == []
            await until_answered(partial(code_of_join, first, group_id, known), has_owner)
            async with group_client(first.address, group_id, access=known) as member:
                await member.enter(session_timeout_ms=SESSION_MS)
            node = await node_without(first, group_id, known)
            expected = [NONE, ErrorCode.GROUP_ID_NOT_FOUND, NONE, NONE, ErrorCode.NON_EMPTY_GROUP]
            assert await codes_at(node, group_id, known) == expected
            assert await codes_at(node, group_id, unknown) == [REFUSED] * len(expected)
            assert await second.terminate() == 0
            await start(stack, HOSTS[1], foreign)
            theirs = await until_answered(partial(group_at, HOSTS[1], first, known))
            away = [LOADING] * len(expected)
            node = await node_without(first, theirs, known)
            assert await codes_at(node, theirs, known) == away
            assert await codes_at(node, theirs, unknown) == [REFUSED] * len(expected)
