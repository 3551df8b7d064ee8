"""Only the cluster accepts a client, and only for as long as it says."""

import pytest

from gateway.data_path.errors import NotAuthenticated
from gateway.data_path.session import AWAY_S, RELAYED, Session, why_not_relayed
from kafka_codecs.sasl_authenticate import SaslAuthenticateResponse


def answer(token: bytes = b"", *, error_code: int = 0, lifetime_ms: int = 0) -> object:
    return SaslAuthenticateResponse(
        auth_bytes=token, error_code=error_code, session_lifetime_ms=lifetime_ms
    )


def play_answers(mechanism: str, *answers: object) -> Session:
    """A session after these answers."""
    session = Session()
    session.begin(mechanism)
    for answer in answers:
        assert isinstance(answer, SaslAuthenticateResponse)
        session.follow(answer, 0)
    return session


@pytest.mark.parametrize(
    ("mechanism", "answers", "accepted"),
    [
        ("PLAIN", [], False),
        ("PLAIN", [answer()], True),
        ("PLAIN", [answer(error_code=58)], False),
        ("SCRAM-SHA-256", [answer(b"r=x,s=y,i=1")], False),
        ("SCRAM-SHA-256", [answer(b"r=x,s=y,i=1"), answer(b"v=z")], True),
        ("SCRAM-SHA-512", [answer(b"r=x,s=y,i=1"), answer(b"e=no")], False),
        ("SCRAM-SHA-512", [answer(b"r=x,s=y,i=1"), answer(error_code=58)], False),
        ("OAUTHBEARER", [answer(b'{"status":"invalid_token"}')], False),
        ("OAUTHBEARER", [answer()], True),
    ],
)
def test_a_client_is_accepted_with_the_last_answer_of_its_mechanism(
    mechanism: str, answers: list[object], *, accepted: bool
) -> None:
    """Earlier answers have no error either."""
    session = play_answers(mechanism, *answers)
    assert session.is_accepted is accepted
    if accepted:
        session.check(1e9)
    else:
        with pytest.raises(NotAuthenticated, match="authenticate first"):
            session.check(0)


def test_a_token_without_a_handshake_accepts_nobody() -> None:
    """Whatever the answer is."""
    session = Session()
    session.follow(SaslAuthenticateResponse(), 0)
    assert not session.is_accepted


def test_a_session_ends_and_can_be_renewed() -> None:
    """KIP-368: the connection continues."""
    session = play_answers("PLAIN", answer(lifetime_ms=30_000))
    session.check(29)
    with pytest.raises(NotAuthenticated, match="session has ended"):
        session.check(30)
    session.begin("PLAIN")
    session.check(29)
    session.follow(SaslAuthenticateResponse(session_lifetime_ms=30_000), 20)
    session.check(49)


def test_a_failed_renewal_ends_the_session() -> None:
    """A broker ends the session, too."""
    session = play_answers("PLAIN", answer(), answer(error_code=58))
    assert not session.is_accepted


def test_without_a_broker_a_session_has_a_bound() -> None:
    """A shorter one of the cluster stays."""
    session = play_answers("PLAIN", answer())
    session.lose_broker(100)
    session.lose_broker(500)
    session.check(99 + AWAY_S)
    with pytest.raises(NotAuthenticated):
        session.check(100 + AWAY_S)


def test_what_cannot_be_relayed_is_named_with_what_to_use_instead() -> None:
    """Mechanisms that are bound to a host name, and unknown ones."""
    assert [why_not_relayed(request) for request in RELAYED] == [None] * len(RELAYED)
    assert why_not_relayed("GSSAPI") == (
        "a Kerberos ticket is for the broker's host name; use SCRAM, OAUTHBEARER or PLAIN"
    )
    assert why_not_relayed("X") == "the mechanism is unknown; use SCRAM, OAUTHBEARER or PLAIN"
