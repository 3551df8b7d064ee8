"""Apache Kafka 3.9 reads the versions that Kafka 4 has dropped, and writes the same bytes."""

import subprocess

import pytest

from kafka_codecs import encode
from kafka_codecs.apis import APIS
from tests.support.client_programs import SCRIPTS
from tests.support.codecs import FIRST_IN_KAFKA_4, sample
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

READER = SCRIPTS / "java" / "OlderMessages.java"


def test_kafka_reads_and_writes_the_same_bytes_in_older_versions() -> None:
    """No field is empty."""
    messages = [
        f"{int(key)} {version} {kind} {encode(sample(message_type, version), version).hex()}"
        for key, first_version in FIRST_IN_KAFKA_4.items()
        if key in APIS
        for version in range(first_version)
        for kind, message_type in (
            ("request", APIS[key].request),
            ("response", APIS[key].response),
        )
        if message_type is not None
    ]
    done = subprocess.run(
        ["java", "-cp", f"{kafka_jars('3.9')}/*", str(READER)],
        input="".join(f"{message}\n" for message in messages),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [message.rpartition(" ")[2] for message in messages]
