"""The user that each mechanism names, as real clients write it."""

import base64
import json

import pytest

from gateway.data_path.claims import CLAIM_BYTES_MAX, claimed_user


def bearer(claims: object) -> bytes:
    """The first token of OAUTHBEARER with these claims."""
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"n,,\1auth=Bearer e30.{payload}.c2ln\1\1".encode()


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0pw", "alice"),
        ("PLAIN", b"alice\0alice\0pw", "alice"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL", "alice"),
        ("SCRAM-SHA-512", b"n,a=alice,n=a=2Cb=3Dc,r=fyko,tokenauth=true", "a,b=c"),
        ("OAUTHBEARER", bearer({"sub": "alice", "exp": 1}), "alice"),
    ],
)
def test_a_claim_names_the_user(mechanism: str, token: bytes, user: str) -> None:
    """PLAIN: the authentication id; SCRAM: the attribute n, unescaped; a token: its subject."""
    assert claimed_user(mechanism, token) == user


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"\0\0pw"),
        ("PLAIN", b"\0\xff\0pw"),
        ("PLAIN", b"\0%b\0pw" % (b"x" * (CLAIM_BYTES_MAX + 1))),
        ("SCRAM-SHA-256", b"n,,r=1"),
        ("OAUTHBEARER", b"n,,\1auth=Bearer opaque\1\1"),
        ("OAUTHBEARER", b"n,,\1auth=Bearer e30.%%%.c2ln\1\1"),
        ("OAUTHBEARER", bearer(["sub"])),
        ("OAUTHBEARER", bearer({"sub": 7})),
    ],
)
def test_a_token_that_names_nobody_claims_no_user(mechanism: str, token: bytes) -> None:
    """The connection then counts towards its address."""
    assert claimed_user(mechanism, token) is None
