"""SaslAuthenticate carries secrets."""

from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def test_no_token_appears_in_a_representation() -> None:
    """A message may end up in a traceback."""
    for message in (
        SaslAuthenticateRequest(auth_bytes=b"secret"),
        SaslAuthenticateResponse(auth_bytes=b"secret"),
    ):
        assert "secret" not in repr(message)
