"""Users of different rights get the same codes from the gateway as from the broker."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourceType

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.security import Security
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.commits import commit_of, transactional_commit_of
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.group_requests import join_request
from tests.support.kafka_broker import TOPIC
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Address, Rule, SecureKafka
from tests.support.until import until_answered

pytestmark = pytest.mark.kafka

LIMIT_S = 60
PASSWORD = "case-secret-5a90"
NOBODY = "nobody"
CLASSIC, NATIVE = "classic", "native"

RIGHTS = (
    (ResourceType.GROUP, AclOperation.READ),
    (ResourceType.GROUP, AclOperation.DESCRIBE),
    (ResourceType.GROUP, AclOperation.DELETE),
    (ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, AclOperation.ALTER_CONFIGS),
    (ResourceType.TOPIC, AclOperation.READ),
    (ResourceType.TOPIC, AclOperation.DESCRIBE),
    (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
)
_IN_MID_ROLL = (0, ErrorCode.REBALANCE_IN_PROGRESS)
Right = tuple[ResourceType, AclOperation]


def access(secure: SecureKafka, user: str, password: str) -> Access:
    """A user's access with TLS and SCRAM, to the broker and to the gateway alike."""
    tls = certificates.for_brokers(CertificateFiles(ca=secure.authority.ca), check_host=True)
    credentials = Credentials(mechanism="SCRAM-SHA-256", username=user, password=Secret(password))
    return Access(tls=tls, credentials=credentials)


@asynccontextmanager
async def gateway_before(
    secure: SecureKafka, permission_lifetime_s: float = 120.0
) -> AsyncIterator[Address]:
    """A gateway with TLS on both sides, whose clients authenticate at the cluster."""
    own = access(secure, "gateway", USERS["gateway"])
    listener = secure.authority.issue("listener", HOST)
    security = Security(
        own=own,
        client_access=Access(tls=own.tls),
        listening=certificates.for_clients(CertificateFiles(cert=listener.cert, key=listener.key)),
    )
    async with whole_gateway(
        [secure.sasl_ssl], security=security, permission_lifetime_s=permission_lifetime_s
    ) as gateway:
        yield gateway.address


def script(classic: str, native: str) -> Mapping[str, tuple[Struct, int]]:
    """Requests of a user who is in neither group, by name."""
    nobody: dict[str, object] = {"member_id": NOBODY, "generation_id": 1}
    stranger: dict[str, Any] = {"member_id": NOBODY, "epoch": 1}
    deleted = OffsetDeleteRequestTopic(
        name=TOPIC, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
    )
    fetched = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
    configs = AlterConfigsResource(
        resource_type=ConfigResourceType.GROUP,
        resource_name=native,
        configs=(
            AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="45000"),
        ),
    )
    described = DescribeConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=native
    )
    return {
        "join": (join_request(classic, [TOPIC], member_id=NOBODY), 5),
        "sync": (SyncGroupRequest(group_id=classic, **nobody, assignments=()), 3),  # type: ignore[arg-type]
        "heartbeat": (HeartbeatRequest(group_id=classic, **nobody), 4),  # type: ignore[arg-type]
        "leave": (
            LeaveGroupRequest(group_id=classic, members=(MemberIdentity(member_id=NOBODY),)),
            5,
        ),
        "native heartbeat": (
            ConsumerGroupHeartbeatRequest(group_id=native, member_id=NOBODY, member_epoch=3),
            0,
        ),
        "native heartbeat with topics": (
            ConsumerGroupHeartbeatRequest(
                group_id=native,
                member_id=NOBODY,
                member_epoch=3,
                subscribed_topic_names=(TOPIC, "no-such-topic"),
            ),
            0,
        ),
        "commit": (commit_of({TOPIC: {0: 7}}, group_id=f"{classic}-alone"), 8),
        "commit of a stranger": (
            commit_of({"no-such-topic": {0: 7}, TOPIC: {0: 7}}, group_id=classic, **stranger),
            9,
        ),
        "native commit of a stranger": (
            commit_of({"no-such-topic": {0: 7}, TOPIC: {0: 7}}, group_id=native, **stranger),
            9,
        ),
        "transactional commit of a stranger": (
            transactional_commit_of(
                {"no-such-topic": {0: 7}}, group_id=classic, member_id=NOBODY, generation=1
            ),
            3,
        ),
        "transactional commit": (transactional_commit_of({TOPIC: {0: 7}}, group_id=classic), 3),
        "fetch": (
            OffsetFetchRequest(
                groups=tuple(
                    OffsetFetchRequestGroup(group_id=group_id, topics=(fetched,))
                    for group_id in (classic, native, f"{classic}-alone")
                )
            ),
            8,
        ),
        "describe": (DescribeGroupsRequest(groups=(classic,)), 5),
        "describe natives": (
            ConsumerGroupDescribeRequest(group_ids=(native,), include_authorized_operations=False),
            0,
        ),
        "delete": (DeleteGroupsRequest(groups_names=(classic, native)), 2),
        "delete offsets": (OffsetDeleteRequest(group_id=classic, topics=(deleted,)), 0),
        "describe configs": (DescribeConfigsRequest(resources=(described,)), 4),
        "alter configs": (
            IncrementalAlterConfigsRequest(resources=(configs,), validate_only=True),
            1,
        ),
    }


def codes_in(message: object) -> list[int]:
    """All error codes of an answer, in order."""
    if isinstance(message, tuple):
        return [code for part in message for code in codes_in(part)]
    if not isinstance(message, Struct):
        return []
    names = [field.name for field in fields(message)]
    codes = [getattr(message, "error_code", None)]
    below = [codes_in(getattr(message, name)) for name in names]
    return [code for code in codes if code is not None] + [
        code for codes_below in below for code in codes_below
    ]


@dataclass(frozen=True, slots=True)
class Side:
    """The broker or the gateway, with a classic group and a native group of alice."""

    address: Address
    secure: SecureKafka
    classic: str
    native: str

    async def codes(self, user: str) -> dict[str, list[int]]:
        """The codes that a user gets."""
        answers: dict[str, list[int]] = {}
        who = access(self.secure, user, PASSWORD)
        async with await BrokerConnection.open(*self.address, access=who) as connection:
            for name, (message, version) in script(self.classic, self.native).items():
                answers[name] = codes_in(await connection.ask(message, version))
            listed: ListGroupsResponse = await connection.ask(ListGroupsRequest(), 4)
            seen = {group.group_id for group in listed.groups}
            answers["list"] = [listed.error_code, self.classic in seen, self.native in seen]
        return answers


@asynccontextmanager
async def with_groups(address: Address, secure: SecureKafka) -> AsyncIterator[Side]:
    """A side with both groups."""
    side = Side(address, secure, f"c-{uuid4().hex[:8]}", f"n-{uuid4().hex[:8]}")
    alice = access(secure, "alice", USERS["alice"])
    async with await BrokerConnection.open(*address, access=alice) as connection:
        await GroupClient(connection, side.classic).enter(session_timeout_ms=60_000)
        joined = await GroupClient(connection, side.native).native(f"{uuid4()}", version=0)
        assert joined.error_code == 0
        yield side


def without(user: str, missing: Right) -> Iterable[Rule]:
    """Every right but one, which is denied: some rights imply others."""
    for kind, operation in RIGHTS:
        is_missing = (kind, operation) == missing
        permission = AclPermissionType.DENY if is_missing else AclPermissionType.ALLOW
        yield Rule(user, kind, "*", operation, permission)


def cases() -> dict[str, list[Rule]]:
    """The rules of each user: all rights, none, each one alone, and all but one."""
    rules = {"everything": [Rule("everything", k, "*", o) for k, o in RIGHTS], "nothing": []}
    for kind, operation in RIGHTS:
        name = f"{kind.name}-{operation.name}".lower()
        rules[f"only-{name}"] = [Rule(f"only-{name}", kind, "*", operation)]
        rules[f"no-{name}"] = list(without(f"no-{name}", (kind, operation)))
    return rules


async def test_each_right_counts_as_at_the_broker(secure_kafka: SecureKafka) -> None:
    """The same requests of the same users, with the gateway and without it."""
    users = cases()
    await trio.to_thread.run_sync(secure_kafka.add_users, dict.fromkeys(users, PASSWORD))
    rules = [rule for rules in users.values() for rule in rules]
    await trio.to_thread.run_sync(secure_kafka.rule, rules)
    with trio.fail_after(LIMIT_S):
        async with (
            gateway_before(secure_kafka) as address,
            with_groups(secure_kafka.sasl_ssl, secure_kafka) as broker,
            with_groups(address, secure_kafka) as gateway,
        ):
            expected = {user: await broker.codes(user) for user in users}
            answered = {user: await gateway.codes(user) for user in users}
    differences = {
        (user, name): (expected[user][name], codes)
        for user, answers in answered.items()
        for name, codes in answers.items()
        if codes != expected[user][name]
    }
    # DEV D48: the cluster does not say whether a user may read a topic without describing it.
    assert differences == {
        ("no-topic-describe", "delete offsets"): ([0, 86], [0, 29]),
    }
    assert expected["everything"]["commit of a stranger"] == [3, 25]
    assert expected["no-topic-describe"]["commit of a stranger"] == [3, 25]
    assert expected["no-topic-read"]["transactional commit of a stranger"] == [29]
    assert expected["nothing"]["join"] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert expected["everything"]["heartbeat"] == [ErrorCode.UNKNOWN_MEMBER_ID]


async def new_user(secure_kafka: SecureKafka) -> str:
    """A user who may read the topic, in any group."""
    user = f"reader-{uuid4().hex[:8]}"
    await trio.to_thread.run_sync(secure_kafka.add_users, {user: PASSWORD})
    allow = [
        Rule(user, ResourceType.GROUP, "*", AclOperation.READ),
        Rule(user, ResourceType.TOPIC, TOPIC, AclOperation.READ),
    ]
    await trio.to_thread.run_sync(secure_kafka.rule, allow)
    return user


@pytest.mark.parametrize("protocol", [CLASSIC, NATIVE])
async def test_a_right_that_is_taken_away_ends_a_membership(
    secure_kafka: SecureKafka, protocol: str
) -> None:
    """The next heartbeat after the permission's lifetime is refused."""
    user, group = await new_user(secure_kafka), f"g-{uuid4().hex[:8]}"
    deny = Rule(user, ResourceType.GROUP, group, AclOperation.READ, AclPermissionType.DENY)
    who = access(secure_kafka, user, PASSWORD)
    with trio.fail_after(LIMIT_S):
        async with (
            gateway_before(secure_kafka, permission_lifetime_s=0.5) as address,
            await BrokerConnection.open(*address, access=who) as connection,
        ):
            client = GroupClient(connection, group)
            beat: Callable[[], Awaitable[HeartbeatResponse | ConsumerGroupHeartbeatResponse]]
            if protocol == CLASSIC:
                beat = partial(client.beat, await client.enter())
            else:
                joined = await client.native("m")
                assert joined.error_code == 0
                beat = partial(client.native, "m", joined.member_epoch)
            assert (await beat()).error_code == 0
            await trio.to_thread.run_sync(secure_kafka.rule, [deny])

            async def code_of_beat() -> int:
                return (await beat()).error_code

            code = await until_answered(code_of_beat)
    assert code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_right_that_is_taken_away_in_mid_roll_ends_one_membership(
    secure_kafka: SecureKafka,
) -> None:
    """The mixed group's classic member is refused. Its native member, another user, continues."""
    user, group = await new_user(secure_kafka), f"g-{uuid4().hex[:8]}"
    deny = Rule(user, ResourceType.GROUP, group, AclOperation.READ, AclPermissionType.DENY)
    who, alice = access(secure_kafka, user, PASSWORD), access(secure_kafka, "alice", USERS["alice"])
    with trio.fail_after(LIMIT_S):
        async with (
            gateway_before(secure_kafka, permission_lifetime_s=0.5) as address,
            await BrokerConnection.open(*address, access=who) as theirs,
            await BrokerConnection.open(*address, access=alice) as hers,
        ):
            classic, native = GroupClient(theirs, group), GroupClient(hers, group)
            joined = await classic.enter()
            epoch = (await native.native("n")).member_epoch
            assert (await classic.beat(joined)).error_code in _IN_MID_ROLL
            await trio.to_thread.run_sync(secure_kafka.rule, [deny])

            async def beat_both() -> int:
                nonlocal epoch
                beaten = await native.native("n", epoch)
                assert beaten.error_code == 0
                epoch = beaten.member_epoch
                return (await classic.beat(joined)).error_code

            code = await until_answered(beat_both, lambda code: code not in _IN_MID_ROLL)
    assert code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_regular_expression_matches_what_the_member_may_describe(
    secure_kafka: SecureKafka,
) -> None:
    """The gateway may describe every topic."""
    await secure_kafka.cluster.make_topic("hidden")
    user, group = await new_user(secure_kafka), f"g-{uuid4().hex[:8]}"
    who = access(secure_kafka, user, PASSWORD)
    join = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"{uuid4()}",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=".*",
        topic_partitions=(),
    )
    with trio.fail_after(LIMIT_S):
        async with (
            gateway_before(secure_kafka) as address,
            await BrokerConnection.open(*address, access=who) as connection,
        ):
            joined: ConsumerGroupHeartbeatResponse = await connection.ask(join, 1)
            beat = replace(
                join,
                member_epoch=joined.member_epoch,
                rebalance_timeout_ms=-1,
                subscribed_topic_regex=None,
                topic_partitions=None,
            )

            async def fetch_assignment() -> tuple[TopicPartitions, ...]:
                nonlocal beat
                answer: ConsumerGroupHeartbeatResponse = await connection.ask(beat, 1)
                assert answer.error_code == 0
                beat = replace(beat, member_epoch=answer.member_epoch)
                return answer.assignment.topic_partitions if answer.assignment else ()

            (given,) = await until_answered(fetch_assignment)
            assert given.topic_id == await GroupClient(connection, group).topic_id(TOPIC)
