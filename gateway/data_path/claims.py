"""The user that a client names in its SASL exchange. Pure.

The claim is true once the cluster has accepted the exchange. It counts for limits only: the cluster
decides what a user may do, on the connection that carries the exchange.
"""

import base64
import json
import re

CLAIM_BYTES_MAX = 1_000
"""Longer names count as none."""

_SCRAM = re.compile(rb"[^,]*,[^,]*,(?:m=[^,]*,)?n=([^,]+),")
_BEARER = re.compile(rb"auth=Bearer [^.\1]+\.([^.\1]+)\.", re.IGNORECASE)


def claimed_user(mechanism: str, token: bytes) -> str | None:
    """The user in the first token of an exchange; None if it names none that can be read."""
    name: object = None
    try:
        if mechanism == "PLAIN":
            _, name, _ = token.decode().split("\0")
        elif mechanism.startswith("SCRAM"):
            if match := _SCRAM.match(token):
                name = match[1].decode().replace("=2C", ",").replace("=3D", "=")
        elif match := _BEARER.search(token):
            name = _subject(match[1])
    except ValueError:
        return None
    is_name = isinstance(name, str) and 0 < len(name) <= CLAIM_BYTES_MAX
    return name if is_name and isinstance(name, str) else None


def _subject(payload: bytes) -> object:
    """The subject of a JSON web token. Raises ValueError."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    except RecursionError:
        return None
    return claims.get("sub") if isinstance(claims, dict) else None
