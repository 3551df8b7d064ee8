"""SaslHandshake from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (SaslHandshakeRequest(mechanism="PLAIN"), "0005 'PLAIN'"),
        (SaslHandshakeResponse(mechanisms=("PLAIN",)), "0000 00000001 0005 'PLAIN'"),
        (SaslHandshakeResponse(error_code=33), "0021 00000000"),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """Both versions are alike; what follows them differs."""
    check_both_ways(message, version, wire)
