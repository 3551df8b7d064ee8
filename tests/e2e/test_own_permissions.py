"""`groupferry serve` says at its start which permissions it lacks."""

from pathlib import Path

import pytest
import trio

from tests.support.secure_kafka import USERS, SecureKafka
from tests.support.serve_process import serving

pytestmark = pytest.mark.kafka

LIMIT_S = 60


async def test_the_start_names_missing_permissions(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """Bob has none. The gateway starts all the same: other ACLs may name its groups and topics."""
    password_file = tmp_path / "password"
    password_file.write_text(USERS["bob"])
    host, port = secure_kafka.sasl_ssl
    flags = (
        "--upstream-security-protocol=sasl_ssl",
        f"--upstream-tls-ca={secure_kafka.authority.ca}",
        "--upstream-sasl-mechanism=SCRAM-SHA-256",
        "--upstream-sasl-username=bob",
        f"--upstream-sasl-password-file={password_file}",
        "--state=memory",
    )
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
