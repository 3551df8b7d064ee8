"""The start finds out what the gateway may not do, at a real broker with ACLs."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

import gateway
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_permissions import missing_permissions, other_writers
from tests.support.kafka_broker import TOPIC
from tests.support.secure_kafka import SecureKafka
from tests.support.secure_users import PREFIX, access_of, new_user

pytestmark = pytest.mark.kafka

OWN, ID = "own-state", "own-state-0"
STATE = "groupferry-unmade"
DOCUMENT = Path(gateway.__file__).parent / "docs" / "security.md"
COMMAND = "grant --"
FLEET_TITLE, OPTIONAL_TITLE = "With `fleet`, also:", "And for the optional ones:"
FLEET_GROUP = "groupferry-fleet-own"
OPTIONAL = ("--cluster", "groupferry-demo-")
KINDS = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {operation.name.replace("_", ""): operation for operation in AclOperation}


def documented_rules(*, in_fleet: bool) -> Sequence[tuple[ResourceType, str, AclOperation]]:
    """What the commands in `security.md` allow the gateway, or one in a fleet in addition. What is
    optional is left out."""
    text = DOCUMENT.read_text().replace("\\\n", "")
    before, _, text_of_fleet = text.partition(FLEET_TITLE)
    text_of_fleet, end, after = text_of_fleet.partition(OPTIONAL_TITLE)
    assert end
    text = text_of_fleet if in_fleet else before + after
    rules = []
    for line in text.splitlines():
        if line.startswith(COMMAND) and not any(title in line for title in OPTIONAL):
            words = shlex.split(line)[1:]
            options = list(zip(words[::2], words[1::2], strict=True))
            (named,) = [option for option in options if option[0] in KINDS]
            rules += [
                (KINDS[named[0]], named[1], OPERATIONS[value.upper()])
                for option, value in options
                if option == "--operation"
            ]
    return rules


async def missing_to(
    secure: SecureKafka, user: str, topic: str = OWN, fleet_group: str | None = None
) -> Collection[tuple[str, str]]:
    """The operations and resources that this user lacks for a state topic."""
    access = access_of(secure, user)
    async with await BrokerConnection.open(*secure.sasl_ssl, access=access) as connection:
        missing = await missing_permissions(connection, [topic], [f"{topic}-0"], fleet_group)
    return {(permission.operation, permission.resource) for permission in missing}


async def test_each_missing_permission_is_named(secure_kafka: SecureKafka) -> None:
    """The documented ones suffice."""
    nothing = await new_user(secure_kafka)
    own = f"topic {OWN}"
    assert await missing_to(secure_kafka, nothing) == {
        ("DESCRIBE", "all topics"),
        ("READ", "all groups"),
        ("DESCRIBE", "all groups"),
        ("WRITE", f"transactional id {ID}"),
        *((name, own) for name in ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")),
    }
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    rules = (
        (topic, "*", AclOperation.DESCRIBE),
        (group, "*", AclOperation.READ),
        (topic, OWN, AclOperation.WRITE),
        (topic, OWN, AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.TRANSACTIONAL_ID, ID, AclOperation.WRITE),
    )
    user = await new_user(secure_kafka, *rules)
    assert await missing_to(secure_kafka, user) == {("READ", own), ("CREATE", own)}
    rest = ((topic, OWN, AclOperation.READ), (topic, OWN, AclOperation.CREATE))
    everything = await new_user(secure_kafka, *rules, *rest)
    assert await missing_to(secure_kafka, everything) == set()


async def test_each_documented_permission_is_checked(secure_kafka: SecureKafka) -> None:
    """The documented permissions are those of the commands in `security.md`, with prefixed names.
    No warning is needed for what another one implies, or for CREATE of a topic that exists."""
    documented = documented_rules(in_fleet=False)
    state, transactional_id = f"topic {STATE}", f"transactional id {STATE}-0"
    expected = {
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE): {("DESCRIBE", "all topics")},
        (ResourceType.GROUP, "*", AclOperation.READ): {("READ", "all groups")},
        (ResourceType.TOPIC, PREFIX, AclOperation.READ): {("READ", state)},
        (ResourceType.TOPIC, PREFIX, AclOperation.WRITE): {("WRITE", state)},
        (ResourceType.TOPIC, PREFIX, AclOperation.DESCRIBE_CONFIGS): {("DESCRIBE_CONFIGS", state)},
        (ResourceType.TOPIC, PREFIX, AclOperation.CREATE): {("CREATE", state)},
        (ResourceType.TRANSACTIONAL_ID, PREFIX, AclOperation.WRITE): {("WRITE", transactional_id)},
    }
    assert expected.keys() <= set(documented)
    for left_out in documented:
        user = await new_user(secure_kafka, *(rule for rule in documented if rule != left_out))
        assert await missing_to(secure_kafka, user, STATE) == expected.get(left_out, set())


async def test_each_documented_permission_of_a_fleet_is_checked(secure_kafka: SecureKafka) -> None:
    """Some imply another one. Without a fleet none of them is needed."""
    alone, of_fleet = documented_rules(in_fleet=False), documented_rules(in_fleet=True)
    user = await new_user(secure_kafka, *alone)
    assert await missing_to(secure_kafka, user, STATE) == set()
    group, missing = ResourceType.GROUP, {("READ", "all topics")}
    missing |= {(name, "all groups") for name in ("DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")}
    assert await missing_to(secure_kafka, user, STATE, FLEET_GROUP) == missing
    expected = {
        (group, "*", AclOperation.DELETE): {("DELETE", "all groups")},
        (group, "*", AclOperation.DESCRIBE_CONFIGS): set(),
        (group, "*", AclOperation.ALTER_CONFIGS): {("ALTER_CONFIGS", "all groups")},
        (ResourceType.TOPIC, "*", AclOperation.READ): {("READ", "all topics")},
    }
    assert expected.keys() == set(of_fleet)
    for left_out, lacking in expected.items():
        rest = (rule for rule in of_fleet if rule != left_out)
        user = await new_user(secure_kafka, *alone, *rest)
        assert await missing_to(secure_kafka, user, STATE, FLEET_GROUP) == lacking


async def test_other_writers_of_a_topic_are_named(secure_kafka: SecureKafka) -> None:
    """ACLs with a prefix count as well."""
    config = client_config([secure_kafka.plain], "groupferry-test")
    assert await other_writers(config, [TOPIC], "User:gateway") == {TOPIC: {"User:alice"}}
    assert await other_writers(config, [TOPIC], "User:alice") == {TOPIC: frozenset()}
