"""The state of a client's authentication, which the cluster decides. Pure."""

import math

from gateway.data_path.claims import claimed_user
from gateway.data_path.errors import NotAuthenticated
from kafka_codecs.sasl_authenticate import SaslAuthenticateResponse

RELAYED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The mechanisms whose exchange does not depend on who carries it."""

AWAY_S = 600.0
"""How long a client whose upstream connection is lost stays authenticated while no broker can be
asked, unless its session ends sooner. An exchange cannot be repeated without the client."""

_INSTEAD = "use SCRAM, OAUTHBEARER or PLAIN"
_NOT_RELAYED = {
    "GSSAPI": "a Kerberos ticket is for the broker's host name",
    "AWS_MSK_IAM": "the signature covers the broker's host name",
}


def why_not_relayed(mechanism: str) -> str | None:
    """Why a mechanism cannot be relayed, and what to use instead; None if it can."""
    if mechanism in RELAYED:
        return None
    reason = _NOT_RELAYED.get(mechanism, "the mechanism is unknown")
    return f"{reason}; {_INSTEAD}"


class Session:
    """The authentication of one connection, none at first. Times are those of
    `trio.current_time`."""

    def __init__(self) -> None:
        self._mechanism: str | None = None
        self._until_s = -math.inf
        self._claimed: str | None = None
        self._has_claimed = False
        self.principal: str | None = None
        """The user whom the cluster has accepted, if the exchange named one. For limits only."""

    @property
    def is_accepted(self) -> bool:
        """Whether the cluster has accepted the client, however long ago."""
        return self._until_s > -math.inf

    @property
    def is_settled(self) -> bool:
        """Whether the cluster has accepted the client, and no exchange is under way."""
        return self.is_accepted and self._mechanism is None

    def begin(self, mechanism: str) -> None:
        """The cluster has agreed to this mechanism, for the first time or again (KIP-368)."""
        self._mechanism = mechanism
        self._claimed, self._has_claimed = None, False

    def claim(self, token: bytes) -> None:
        """Note the user that the first token of an exchange names."""
        if self._mechanism is not None and not self._has_claimed:
            self._claimed = claimed_user(self._mechanism, token)
            self._has_claimed = True

    def follow(self, answer: SaslAuthenticateResponse, begun_s: float) -> bool:
        """Note the cluster's answer to a token. Returns whether the exchange has ended.

        Every answer of an exchange is without error, so the mechanism says which one is the last.
        """
        mechanism, token = self._mechanism, answer.auth_bytes
        if answer.error_code or mechanism is None:
            self._mechanism = None
            self._until_s = -math.inf
            return True
        if mechanism.startswith("SCRAM"):
            is_accepted = token.startswith(b"v=")
        else:  # a broker that refuses a bearer token says why before it fails
            is_accepted = mechanism == "PLAIN" or not token
        if is_accepted:
            self._mechanism = None
            self.principal = self._claimed
            lifetime_ms = answer.session_lifetime_ms
            self._until_s = begun_s + lifetime_ms / 1000 if lifetime_ms > 0 else math.inf
        return is_accepted

    def lose_broker(self, now_s: float) -> None:
        """The cluster cannot be asked any more."""
        self._until_s = min(self._until_s, now_s + AWAY_S)

    def check(self, now_s: float) -> None:
        """Raises NotAuthenticated if the client may only authenticate."""
        if not self.is_accepted:
            raise NotAuthenticated("the client has to authenticate first")
        if now_s >= self._until_s:
            raise NotAuthenticated("the client's session has ended")
