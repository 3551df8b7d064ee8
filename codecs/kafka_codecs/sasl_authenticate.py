"""SaslAuthenticate (key 36), versions 0 to 2.

- v1 adds the lifetime of the session, after which the client must authenticate again (KIP-368).
- v2 is flexible.

Errors: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE before a SaslHandshake.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, wire
from kafka_codecs.primitives import Int16, Int64


@message(ApiKey.SASL_AUTHENTICATE, versions=range(3))
class SaslAuthenticateRequest(Struct):
    """A token of the client."""

    auth_bytes: bytes = wire(secret=True)


@message(ApiKey.SASL_AUTHENTICATE, versions=range(3))
class SaslAuthenticateResponse(Struct):
    """The broker's token. It may be one step of a longer exchange."""

    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = wire(default=b"", secret=True)
    session_lifetime_ms: Int64 = wire(since=1, default=0, ignorable=True)
