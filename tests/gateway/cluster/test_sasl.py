"""Each mechanism proves the credentials, and checks the broker in turn."""

from pathlib import Path

import pytest

from gateway.cluster import sasl
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.sasl import Credentials, Exchange, Mechanism
from gateway.cluster.secret import Secret
from tests.support.token_server import token_server

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Exchange:
    """The example of RFC 7677."""
    monkeypatch.setattr(sasl, "_nonce", lambda: NONCE)
    return credentials("SCRAM-SHA-256", username="user", password="pencil").exchange()


def credentials(mechanism: Mechanism, *, username: str, password: str) -> Credentials:
    return Credentials(mechanism=mechanism, username=username, password=Secret(password))


def test_plain_is_one_token() -> None:
    """RFC 4616, without an authorization id."""
    exchange = credentials("PLAIN", username="user", password="pencil").exchange()
    assert next(exchange) == b"\0user\0pencil"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_scram_agrees_with_the_example_of_its_rfc(exchange: Exchange) -> None:
    """RFC 7677 section 3."""
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_special_characters_of_a_user_name_are_escaped() -> None:
    """An unescaped character would begin another attribute."""
    exchange = credentials("SCRAM-SHA-512", username="a=b,c", password="p").exchange()
    assert next(exchange).startswith(b"n,,n=a=3Db=2Cc,r=")


@pytest.mark.parametrize("answer", [b"v=AAAA", b"", b"e=invalid-proof"])
def test_a_broker_that_does_not_know_the_password_is_refused(
    exchange: Exchange, answer: bytes
) -> None:
    """A listener that does not know the password might be a stranger."""
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(UpstreamRefused, match="does not know the password"):
        exchange.send(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"r=other,s=QUJD,i=4096",
        f"r={NONCE},s=QUJD,i=4096".encode(),
        f"r={NONCE}x,s=QUJD,i=0".encode(),
        f"r={NONCE}x,s=Q,i=4096".encode(),
        b"\xff",
    ],
)
def test_a_malformed_challenge_is_refused(exchange: Exchange, answer: bytes) -> None:
    """A challenge with another nonce, or without one of the broker, is refused, too."""
    next(exchange)
    with pytest.raises(UpstreamRefused, match="malformed"):
        exchange.send(answer)


def test_a_broker_cannot_ask_for_endless_work(exchange: Exchange) -> None:
    """The hashing blocks all clients."""
    next(exchange)
    with pytest.raises(UpstreamRefused, match="100000000 SCRAM iterations"):
        exchange.send(f"r={NONCE}x,s=QUJD,i=100000000".encode())


def test_a_file_is_read_for_each_exchange(tmp_path: Path) -> None:
    """A new password needs no restart."""
    path = tmp_path / "password"
    user = Credentials(mechanism="PLAIN", username="u", password=Secret(path=path))
    with pytest.raises(UpstreamRefused, match=f"cannot read {path}"):
        user.exchange()
    for password in ("first", "second"):
        path.write_text(f"{password}\n")
        assert next(user.exchange()) == f"\0u\0{password}".encode()


def test_a_secret_appears_in_no_representation() -> None:
    """Credentials may end up in a traceback."""
    assert "pencil" not in repr(credentials("PLAIN", username="u", password="pencil"))


def test_a_bearer_token_is_one_message_and_an_answer_is_a_refusal() -> None:
    """After the reason the broker wants one more message before it fails (RFC 7628)."""
    with token_server() as server:
        secret = Secret("s")
        tokens = BearerTokens(url=server.url, client_id="g", secret=secret)
        user = Credentials(mechanism="OAUTHBEARER", username="g", password=secret, tokens=tokens)
        exchange = user.exchange()
        assert next(exchange) == f"n,,\1auth=Bearer {tokens.get()}\1\1".encode()
        with pytest.raises(StopIteration):
            exchange.send(b"")
        refused = user.exchange()
        next(refused)
        assert refused.send(b'{"status":"invalid_token"}') == b"\1"
