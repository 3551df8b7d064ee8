"""`groupferry serve` says at its start which permissions it lacks."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.support.ports import HOST, free_port
from tests.support.secure_kafka import USERS, SecureKafka
from tests.support.serve_process import ServeProcess, command, serving

pytestmark = pytest.mark.kafka

LIMIT_S = 60


def access_flags(secure_kafka: SecureKafka, folder: Path) -> Sequence[str]:
    """Bob is the gateway's user."""
    password_file = folder / "password"
    password_file.write_text(USERS["bob"])
    return (
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=bob",
        f"--upstream-sasl-password-file={password_file}",
    )


async def test_the_start_names_missing_permissions(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """Bob has none. The gateway starts all the same: other ACLs may name its groups and topics."""
    flags = (*access_flags(secure_kafka, tmp_path), "--state=memory")
    host, port = secure_kafka.sasl_ssl
    with trio.fail_after(LIMIT_S):
        async with serving(f"{host}:{port}", tmp_path / "state", *flags) as gateway:
            missing = [
                (line["operation"], line["resource"])
                for line in gateway.events("permission_missing")
            ]
    assert missing == [
        ("DESCRIBE", "all topics"),
        ("READ", "all groups"),
        ("DESCRIBE", "all groups"),
    ]


async def test_a_gateway_that_may_not_be_in_its_fleet_ends_in_one_line(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """The line names the permission that its user lacks."""
    flags = access_flags(secure_kafka, tmp_path)
    host, port = secure_kafka.sasl_ssl
    bootstrap = f"{HOST}:{free_port()}"
    words = command(
        f"{host}:{port}", bootstrap, tmp_path / "state", *flags, "--state=kafka", "--fleet=true"
    )
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            gateway = ServeProcess(nursery, words, bootstrap)
            await gateway.start()
            assert await gateway.wait_until_ended() == 1
            (line,) = gateway.other_lines
            assert "has no READ on the group groupferry-fleet-" in line
