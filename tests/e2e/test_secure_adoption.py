"""A live group is adopted on a cluster with TLS, SASL and ACLs."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourceType

from gateway.addresses import Address
from gateway.demo.borrowed_cluster import borrow_cluster
from tests.e2e.adopted_groups import LONG_SESSIONS, begin_in_cluster
from tests.e2e.test_adoption import command
from tests.e2e.test_secure_roll import USER, settings_of, wait_until_shared
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import PARTITIONS, GroupStage
from tests.support.ports import HOST
from tests.support.secure_kafka import USERS, Rule, SecureKafka
from tests.support.serve_process import serving

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LIMIT_S = 240
CLIENT = Client(library="librdkafka")


async def test_a_group_is_adopted_where_the_gateways_user_may_read_it(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """The gateway's user may not read one of two groups. The command says so in one line, and the
    group continues; no consumer of the other one notices anything."""
    password = tmp_path / "password"
    password.write_text(USERS["gateway"])
    security = tmp_path / "librdkafka"
    settings = settings_of(secure_kafka)["librdkafka"]
    security.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))
    listener = secure_kafka.authority.issue("adopted", HOST)
    host, port = secure_kafka.sasl_ssl
    state = tmp_path / "state"
    flags = (
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=gateway",
        f"--upstream-sasl-password-file={password}",
        f"--tls-cert={listener.cert}",
        f"--tls-key={listener.key}",
    )
    denied = fresh_group("denied")
    with trio.fail_after(LIMIT_S):
        async with (
            borrow_cluster(
                [Address(*secure_kafka.plain)], fresh_group("secure"), PARTITIONS
            ) as upstream,
            trio.open_nursery() as nursery,
            serving(f"{host}:{port}", state, *flags) as gateway,
        ):
            read, group = AclOperation.READ, ResourceType.GROUP
            rules = [
                Rule(USER, ResourceType.TOPIC, upstream.topic, read),
                Rule("gateway", group, denied, read, AclPermissionType.DENY),
            ]
            await trio.to_thread.run_sync(secure_kafka.rule, rules)
            stages = [
                GroupStage(nursery, cluster, gateway)
                for cluster in (upstream, replace(upstream, group=denied))
            ]
            await stages[0].produce(beside=True)
            for stage in stages:
                await begin_in_cluster(
                    secure_kafka.cluster,
                    stage,
                    {"a": CLIENT, "b": CLIENT},
                    f"--security={security}",
                    LONG_SESSIONS,
                )
                await wait_until_shared(stage)
            refused = await command(denied, f"--state-dir={state}")
            (line,) = refused.stderr.decode().splitlines()
            assert refused.returncode == 1
            assert line == (
                f"groupferry: {denied} is not adopted: undone: the gateway's user may not read the"
                " group: grant it READ"
            )
            adopted = await command(upstream.group, f"--state-dir={state}")
            assert (adopted.returncode, adopted.stderr) == (0, b"")
            print(adopted.stdout.decode())
            for stage in stages:
                await wait_until_shared(stage)
                assert stage.troubles == []
            produced = await stages[0].stop_producer()
            for stage in stages:
                await stage.end_after(produced)
            nursery.cancel_scope.cancel()
