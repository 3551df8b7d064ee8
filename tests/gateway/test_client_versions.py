"""The table uses the names that clients report."""

import pytest

from gateway.client_versions import SPEAKS_CONSUMER_SINCE
from kafka_codecs import decode
from kafka_codecs.api_versions import ApiVersionsRequest
from tests.support import captures

INTRODUCED_SINCE = 3
"""The first version of ApiVersions with the client's name."""


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("java-consumer", "apache-kafka-java"),
        ("librdkafka-consumer", "confluent-kafka-python"),
        ("platformatic-consumer", "platformatic-kafka"),
        ("kafka-python", "kafka-python"),
    ],
)
def test_captured_clients_are_known(client: str, name: str) -> None:
    """Their own bytes have the names. Captures named `-consumer` use the native protocol."""
    introduced = {
        decode(ApiVersionsRequest, frame.body, version=frame.api_version).client_software_name
        for path in (captures.FOLDER / client).glob("api_versions_v*.txt")
        for frame in captures.read(path)
        if frame.kind == "request" and frame.api_version >= INTRODUCED_SINCE
    }
    assert introduced == {name}
    assert (SPEAKS_CONSUMER_SINCE[name] is not None) == client.endswith("-consumer")
