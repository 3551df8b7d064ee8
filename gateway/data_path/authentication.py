"""A client's authentication, relayed on its own upstream connection: the cluster decides."""

import contextlib
from dataclasses import dataclass, replace

import trio

from gateway.data_path.api_table import ApiHandling
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.errors import BrokerLost, NotAuthenticated
from gateway.data_path.session import RELAYED, Session, why_not_relayed
from gateway.data_path.upstream import Upstream
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

KEEP_ALIVE_S = 240.0
"""After this time without a request of the client, the gateway sends one to its broker, which would
otherwise close the connection with the client's authentication (connections.max.idle.ms)."""

TOKEN_BYTES_MAX = 512 * 1024
"""Kafka's default (sasl.server.max.receive.size)."""

MECHANISM_SHOWN = 50
"""Characters of a mechanism that a client names."""

REFUSED = "the cluster refuses the client's credentials"


@dataclass(frozen=True, slots=True)
class AuthenticationStep:
    """The answer to one step of an exchange."""

    answer: Struct
    refusal: str | None = None
    """Why the client's connection closes once the answer has left."""


class Authentication:
    """The SASL exchange of one client, and what the client may do before and after it."""

    def __init__(self, upstream: Upstream, slot: ConnectionSlot, *, timeout_s: float) -> None:
        """The client has `timeout_s` from now on to authenticate. Its slot then counts towards
        its principal."""
        self._upstream = upstream
        self._slot = slot
        self._session = Session()
        self._due_s = trio.current_time() + timeout_s
        self._broker_heard_s = trio.current_time()
        self.expects_raw_tokens = False
        """Whether the client's next frames are bare tokens, as after a SaslHandshake v0."""

    @property
    def is_settled(self) -> bool:
        """Whether the cluster has accepted the client, and no exchange is under way."""
        return self._session.is_settled

    def is_overdue(self, now_s: float) -> bool:
        """Whether the client's time to authenticate is over."""
        return not self._session.is_accepted and now_s >= self._due_s

    async def check(self, treatment: ApiHandling) -> None:
        """Check that the client may send this request, and keep its connection to the broker.

        Raises NotAuthenticated, or UpstreamChanged once a lost broker is back: the client has to
        connect and authenticate again.
        """
        now_s = trio.current_time()
        if not self._upstream.is_open:
            self._session.check(now_s)
            self._session.lose_broker(now_s)
            await self._upstream.is_there()
        elif treatment is not ApiHandling.ANSWER:
            self.check_relayed()
        elif not self.check_answered():
            self._broker_heard_s = now_s
            with contextlib.suppress(BrokerLost):
                await self._upstream.ask(ApiVersionsRequest(), 0)

    def check_relayed(self) -> None:
        """Check a request that goes to the broker immediately, as `check` does. Raises
        NotAuthenticated."""
        now_s = trio.current_time()
        self._session.check(now_s)
        self._broker_heard_s = now_s

    def check_answered(self) -> bool:
        """Check a request that the gateway answers, as `check` does. False if `check` has more to
        do. Raises NotAuthenticated."""
        now_s = trio.current_time()
        self._session.check(now_s)
        return self._upstream.is_open and now_s - self._broker_heard_s < KEEP_ALIVE_S

    async def advance(self, request: Struct, version: int) -> AuthenticationStep:
        """Relay one step of the exchange, and follow it. Raises BrokerLost, BadAnswer, and
        TooManyConnections if the principal has too many."""
        if isinstance(request, SaslHandshakeRequest):
            return await self._shake_hands(request, version)
        assert isinstance(request, SaslAuthenticateRequest)
        begun_s = trio.current_time()
        self._session.claim(request.auth_bytes)
        answer: SaslAuthenticateResponse = await self._upstream.ask(request, version)
        if self._session.follow(answer, begun_s):
            self.expects_raw_tokens = False
            if self._session.is_accepted:
                self._slot.end_handshake(self._session.principal)
        return AuthenticationStep(answer, REFUSED if answer.error_code else None)

    async def advance_raw(self, token: bytes) -> bytes:
        """Relay a bare token. Returns the broker's. Raises NotAuthenticated: an answer to a bare
        token cannot carry an error."""
        step = await self.advance(SaslAuthenticateRequest(auth_bytes=token), 0)
        if step.refusal is not None:
            raise NotAuthenticated(step.refusal)
        assert isinstance(step.answer, SaslAuthenticateResponse)
        return step.answer.auth_bytes

    async def _shake_hands(self, request: SaslHandshakeRequest, version: int) -> AuthenticationStep:
        mechanism = request.mechanism
        reason = why_not_relayed(mechanism)
        if reason is not None:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            refused = SaslHandshakeResponse(error_code=code, mechanisms=RELAYED)
            return AuthenticationStep(refused, f"{mechanism[:MECHANISM_SHOWN]!r}: {reason}")
        answer: SaslHandshakeResponse = await self._upstream.ask(request, 1)
        self._upstream.is_bound = True
        relayed = tuple(name for name in answer.mechanisms if name in RELAYED)
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE and self._session.is_accepted:
            return AuthenticationStep(
                answer
            )  # too early to authenticate again: the session continues
        if answer.error_code:
            return AuthenticationStep(
                replace(answer, mechanisms=relayed), f"the cluster has no {mechanism}"
            )
        self._session.begin(mechanism)
        self.expects_raw_tokens = version == 0
        return AuthenticationStep(replace(answer, mechanisms=relayed))
