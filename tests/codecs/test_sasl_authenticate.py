"""SaslAuthenticate from a table, in both directions."""

import pytest

from kafka_codecs.declaration import Struct
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (SaslAuthenticateRequest(auth_bytes=b"abc"), 0, "00000003 'abc'"),
        (SaslAuthenticateRequest(auth_bytes=b"abc"), 2, "04 'abc' 00"),
        (SaslAuthenticateResponse(auth_bytes=b"r"), 0, "0000 ffff 00000001 'r'"),
        (
            SaslAuthenticateResponse(session_lifetime_ms=30_000),
            1,
            "0000 ffff 00000000 0000000000007530",
        ),
        (
            SaslAuthenticateResponse(error_code=58, error_message="no"),
            2,
            "003a 03 'no' 01 0000000000000000 00",
        ),
    ],
)
def test_messages_encode_and_decode(message: Struct, version: int, wire: str) -> None:
    """v1 adds the lifetime, and v2 is flexible."""
    check_both_ways(message, version, wire)


def test_no_token_appears_in_a_representation() -> None:
    """A message may end up in a traceback."""
    for message in (
        SaslAuthenticateRequest(auth_bytes=b"secret"),
        SaslAuthenticateResponse(auth_bytes=b"secret"),
    ):
        assert "secret" not in repr(message)
