"""`groupferry demo` on a cluster with TLS, SCRAM and ACLs."""

import json
import os
import sys
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.support.command_lines import all_command_lines
from tests.support.group_client import fresh_group
from tests.support.secure_kafka import Rule, SecureKafka
from tests.support.serve_process import PROGRAM

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

LIMIT_S = 180
LOOK_INTERVAL_S = 0.2
USER, PASSWORD = "demonstrator", "a password of nobody else"


async def watch_command_lines(seen: set[bytes]) -> None:
    """Remember the command lines of all processes of this machine."""
    while True:
        seen.update(all_command_lines())
        await trio.sleep(LOOK_INTERVAL_S)


async def test_the_demo_reaches_a_secured_cluster_as_the_gateway_does(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """The environment says how. Its consumers authenticate through the gateway. The password is in
    nothing that the demo prints or leaves behind, and on no command line."""
    temporary, state = tmp_path / "temporary", tmp_path / "state"
    temporary.mkdir()
    prefix = fresh_group("demo")
    await trio.to_thread.run_sync(secure_kafka.add_users, {USER: PASSWORD})
    rules = (
        Rule(USER, ResourceType.TOPIC, f"{prefix}-numbers", AclOperation.ALL),
        Rule(USER, ResourceType.GROUP, f"{prefix}-group", AclOperation.ALL),
    )
    await trio.to_thread.run_sync(secure_kafka.rule, rules)
    host, port = secure_kafka.sasl_ssl
    access = {
        "GROUPFERRY_UPSTREAM_SECURITY_PROTOCOL": "sasl_ssl",
        "GROUPFERRY_UPSTREAM_TLS_CA": f"{secure_kafka.authority.ca}",
        "GROUPFERRY_UPSTREAM_SASL_MECHANISM": "SCRAM-SHA-256",
        "GROUPFERRY_UPSTREAM_SASL_USERNAME": USER,
        "GROUPFERRY_UPSTREAM_SASL_PASSWORD": PASSWORD,
    }
    command = [
        *(sys.executable, "-c", PROGRAM, "demo", f"--upstream={host}:{port}", "--json"),
        *(f"--prefix={prefix}", "--consumers=2", "--partitions=4", "--log-level=debug"),
        f"--state-dir={state}",
    ]
    seen: set[bytes] = set()
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_command_lines, seen)
            done = await trio.run_process(
                command,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env={**os.environ, **access, "TMPDIR": f"{temporary}"},
            )
            nursery.cancel_scope.cancel()
    assert done.returncode == 0, done.stderr
    assert any(prefix.encode() in data for data in seen)
    left = [path.read_bytes() for path in state.rglob("*") if path.is_file()]
    assert any(b"member_joined" in data for data in left)
    for data in (done.stdout, done.stderr, *left, *seen):
        assert PASSWORD.encode() not in data
    totals = json.loads(done.stdout)["totals"]
    assert totals["lost"] == totals["delivered_twice"] == 0
    assert not list(await trio.Path(temporary).iterdir())
    topics = await trio.to_thread.run_sync(lambda: secure_kafka.admin().list_topics().topics)
    assert f"{prefix}-numbers" not in topics
