"""Bearer tokens by client credentials."""

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.secret import Secret
from gateway.transport.certificates import CertificateError
from tests.support.certificate_authority import CertificateAuthority
from tests.support.ports import free_port
from tests.support.token_server import TokenServer, token_server

SECRET = "token-secret-93b2"


@pytest.fixture
def server() -> Iterator[TokenServer]:
    """An authorization server."""
    with token_server() as running:
        yield running


def tokens_of(url: str, scope: str | None = None) -> BearerTokens:
    """The gateway's tokens from there."""
    return BearerTokens(url=url, client_id="a:b", secret=Secret(SECRET), scope=scope)


def test_a_token_is_fetched_once_in_its_lifetime(server: TokenServer) -> None:
    """Client id and secret are encoded as the RFC says."""
    tokens = tokens_of(server.url, "kafka write")
    assert tokens.get() == tokens.get()
    ((header, form),) = server.asked
    kind, encoded = header.split()
    assert (kind, base64.b64decode(encoded).decode()) == ("Basic", f"a%3Ab:{SECRET}")
    assert form == "grant_type=client_credentials&scope=kafka+write"


def test_a_token_that_ends_is_replaced(server: TokenServer) -> None:
    """Before the broker refuses it."""
    server.lifetime_s = 0
    tokens = tokens_of(server.url)
    for _ in range(2):
        tokens.get()
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_refusal_has_the_status(server: TokenServer, status: int) -> None:
    """A redirect is one: the secret goes to no other server. The connection is closed."""
    server.status = status
    with pytest.raises(UpstreamRefused) as caught:
        tokens_of(server.url).get()
    assert str(caught.value) == f"no token from {server.url}: HTTP status {status}"
    assert len(server.asked) == 1
    answer = caught.value.__context__
    assert isinstance(answer, HTTPError)
    assert answer.closed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"leaky-token",
        b"[]",
        b"null",
        b"{}",
        b'{"access_token": "t", "expires_in": []}',
        b"\xff",
    ],
)
def test_an_answer_without_a_token_is_not_shown(server: TokenServer, body: bytes) -> None:
    """The unreadable answer could contain a token."""
    server.body = body
    with pytest.raises(UpstreamRefused) as caught:
        tokens_of(server.url).get()
    assert str(caught.value) == f"no token from {server.url}: the answer has none"


def test_a_server_that_is_away_is_named() -> None:
    """The secret is not."""
    url = f"http://127.0.0.1:{free_port()}/token"
    tokens = tokens_of(url)
    with pytest.raises(UpstreamRefused) as caught:
        tokens.get()
    assert str(caught.value).startswith(f"no token from {url}: ")
    assert SECRET not in f"{tokens} {caught.value}"


def test_the_endpoint_may_have_an_authority_of_its_own(tmp_path: Path) -> None:
    """Without that authority it gets no secret."""
    authority = CertificateAuthority.in_folder(tmp_path / "own")
    stranger = CertificateAuthority.in_folder(tmp_path / "other")
    with token_server(authority.issue("tokens", "127.0.0.1")) as server:
        tokens = tokens_of(server.url)
        for ca in (None, stranger.ca):
            tokens.ca = ca
            with pytest.raises(UpstreamRefused, match="certificate verify failed"):
                tokens.get()
        assert server.asked == []
        tokens.ca = authority.ca
        assert tokens.get()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), ("no PEM", "it has no certificate")],
)
def test_a_file_without_authorities_is_refused(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    """One line names the setting and the file."""
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    tokens = tokens_of("https://id.example/token")
    tokens.ca = ca
    with pytest.raises(CertificateError) as caught:
        tokens.check_ca()
    assert str(caught.value) == f"upstream_sasl_token_ca: {ca}: {reason}"
