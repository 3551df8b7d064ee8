"""Apache Kafka reads the versions that kio lacks, and writes the same bytes: 3.9 those that Kafka 4
has dropped, the newest release those that are younger than kio."""

import subprocess
from collections.abc import Iterable

import pytest

from kafka_codecs import encode
from kafka_codecs.apis import APIS, ApiKey
from tests.support.codecs import FIRST_IN_KAFKA_4, NEWER_THAN_KIO, sample
from tests.support.java_programs import java_program
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars
from tests.support.releases import LAST_CLASSIC, NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

OLDER = [
    (key, version)
    for key, first_version in FIRST_IN_KAFKA_4.items()
    if key in APIS
    for version in range(first_version)
]


@pytest.mark.parametrize(
    ("release", "versions"), [(LAST_CLASSIC, OLDER), (NEWEST, NEWER_THAN_KIO)], ids=["old", "new"]
)
def test_kafka_reads_and_writes_the_same_bytes(
    release: str, versions: Iterable[tuple[ApiKey, int]]
) -> None:
    """No field is empty."""
    messages = [
        f"{int(key)} {version} {kind} {encode(sample(message_type, version), version).hex()}"
        for key, version in versions
        for kind, message_type in (
            ("request", APIS[key].request),
            ("response", APIS[key].response),
        )
        if message_type is not None
    ]
    done = subprocess.run(
        java_program("KafkaMessages", f"{kafka_jars(release)}/*"),
        input="".join(f"{message}\n" for message in messages),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [message.rpartition(" ")[2] for message in messages]
