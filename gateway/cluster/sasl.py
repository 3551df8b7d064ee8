"""The gateway's own credentials, and how each SASL mechanism proves them. No IO but reading a
secret's file and fetching a token.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.secret import Secret

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

Exchange = Generator[bytes, bytes, None]
"""Yields the tokens for the broker, is sent the broker's answers, and ends once the broker has
accepted. Raises UpstreamRefused if the broker's answers do not prove its identity."""

ITERATIONS_MAX = 1_000_000
"""A broker that asks for more would stop the gateway for a second."""
_NONCE_BYTES = 24
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{0,8})(?:,.*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user and its password, or a client and the secret with which it gets bearer tokens."""

    mechanism: Mechanism
    username: str
    password: Secret
    tokens: BearerTokens | None = None
    """The source of tokens for OAUTHBEARER."""

    def exchange(self) -> Exchange:
        """Prove the credentials. With `tokens` it may block. Raises UpstreamRefused if there is no
        password or token."""
        if self.tokens is not None:
            return _bearer(self.tokens.get())
        password = self.password.read()
        if self.mechanism == "PLAIN":
            return _plain(self.username, password)
        return _scram(_HASHES[self.mechanism], self.username, password, _nonce())


def _plain(username: str, password: str) -> Exchange:
    """RFC 4616."""
    yield f"\0{username}\0{password}".encode()


def _bearer(token: str) -> Exchange:
    """RFC 7628. After an answer that is not empty, which says why, the broker refuses the token."""
    if (yield f"n,,\1auth=Bearer {token}\1\1".encode()):
        yield b"\1"


def _scram(algorithm: str, username: str, password: str, nonce: str) -> Exchange:
    """RFC 5802 without channel binding. As Kafka's own, without SASLprep."""

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, algorithm)

    name = username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = _text((yield f"n,,{client_first}".encode()))
    challenge = _SERVER_FIRST.fullmatch(server_first)
    if challenge is None or not challenge["nonce"].startswith(nonce) or challenge["nonce"] == nonce:
        raise UpstreamRefused("the broker's SCRAM answer is malformed")
    iterations = int(challenge["iterations"])
    if iterations > ITERATIONS_MAX:
        raise UpstreamRefused(f"the broker asks for {iterations} SCRAM iterations")
    try:
        salt = base64.b64decode(challenge["salt"], validate=True)
    except ValueError:
        raise UpstreamRefused("the broker's SCRAM answer is malformed") from None
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    final = f"c=biws,r={challenge['nonce']}"
    signed = f"{client_first},{server_first},{final}".encode()
    key = mac(salted, b"Client Key")
    signature = mac(hashlib.new(algorithm, key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    server_final = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = b"v=" + base64.b64encode(mac(mac(salted, b"Server Key"), signed))
    if not hmac.compare_digest(server_final.partition(b",")[0], expected):
        raise UpstreamRefused("the broker does not know the password that it should check")


def _text(token: bytes) -> str:
    return token.decode(errors="replace")


def _nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)
