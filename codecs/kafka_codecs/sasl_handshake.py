"""SaslHandshake (key 17), versions 0 and 1, neither flexible.

- After v0 the tokens of the mechanism follow without headers, each behind its size.
- After v1 they follow in SaslAuthenticate requests (KIP-152).

Errors: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE at a port without SASL.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message
from kafka_codecs.primitives import Int16


@message(ApiKey.SASL_HANDSHAKE, versions=range(2))
class SaslHandshakeRequest(Struct):
    """Choose a mechanism."""

    mechanism: str


@message(ApiKey.SASL_HANDSHAKE, versions=range(2))
class SaslHandshakeResponse(Struct):
    """The mechanisms that the broker has."""

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()
