"""A client's SASL exchange is relayed step by step, and the cluster's word is followed."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from gateway.data_path.api_table import ApiHandling
from gateway.data_path.authentication import KEEP_ALIVE_S, REFUSED, Authentication
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.errors import BrokerLost, NotAuthenticated
from gateway.data_path.session import AWAY_S, RELAYED
from gateway.data_path.upstream import Upstream
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN = SaslHandshakeRequest(mechanism="PLAIN")
TOKEN = SaslAuthenticateRequest(auth_bytes=b"\0me\0pw")
AGREED = SaslHandshakeResponse(mechanisms=("PLAIN", "GSSAPI"))
ACCEPTED = SaslAuthenticateResponse()
WRONG = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
TIMEOUT_S = 10.0


class Broker:
    """What an Upstream offers, with prepared answers; an error among them is raised."""

    def __init__(self, *answers: Struct | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Struct] = []
        self.is_open = True
        self.is_bound = False
        self.looks = 0

    async def ask(self, message: Struct, version: int) -> Any:
        self.asked.append(message)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def is_there(self) -> bool:
        self.looks += 1
        return self.is_open


def facing(broker: Broker) -> Authentication:
    slot = ConnectionLimiter(Limits()).take("10.0.0.1", has_handshake=True)
    return Authentication(cast("Upstream", broker), slot, timeout_s=TIMEOUT_S)


async def authenticate_client(
    *later: Struct | Exception, last: Struct = ACCEPTED
) -> tuple[Authentication, Broker]:
    """A client that the cluster has accepted."""
    broker = Broker(AGREED, last, *later)
    authentication = facing(broker)
    await authentication.advance(PLAIN, 1)
    await authentication.advance(TOKEN, 1)
    return authentication, broker


async def test_only_mechanisms_that_can_be_relayed_are_offered() -> None:
    broker = Broker(AGREED)
    step = await facing(broker).advance(PLAIN, 1)
    assert step.answer == SaslHandshakeResponse(mechanisms=("PLAIN",))
    assert step.refusal is None
    assert broker.is_bound


@pytest.mark.parametrize("mechanism", ["GSSAPI", "x" * 1000])
async def test_a_mechanism_that_cannot_be_relayed_is_refused_without_the_broker(
    mechanism: str,
) -> None:
    """The reason is short, however long the client's word was."""
    broker = Broker()
    step = await facing(broker).advance(SaslHandshakeRequest(mechanism=mechanism), 1)
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert step.answer == SaslHandshakeResponse(error_code=code, mechanisms=RELAYED)
    assert step.refusal is not None
    assert len(step.refusal) < 200
    assert not broker.asked


async def test_a_mechanism_that_the_cluster_lacks_begins_no_exchange() -> None:
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    broker = Broker(SaslHandshakeResponse(error_code=code), ACCEPTED)
    authentication = facing(broker)
    step = await authentication.advance(PLAIN, 0)
    assert step.refusal == "the cluster has no PLAIN"
    assert not authentication.expects_raw_tokens
    await authentication.advance(TOKEN, 1)
    with pytest.raises(NotAuthenticated):
        await authentication.check(ApiHandling.RELAY)


async def test_a_session_continues_if_its_client_authenticates_again_too_early() -> None:
    """A broker behaves the same: it allows an authentication once a second."""
    refused = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    authentication, _ = await authenticate_client(refused)
    step = await authentication.advance(PLAIN, 1)
    assert (step.answer, step.refusal) == (refused, None)
    await authentication.check(ApiHandling.RELAY)


async def test_only_an_accepted_client_may_send_requests() -> None:
    authentication = facing(Broker(AGREED, ACCEPTED))
    for request in (PLAIN, TOKEN):
        with pytest.raises(NotAuthenticated, match="authenticate first"):
            await authentication.check(ApiHandling.RELAY)
        await authentication.advance(request, 1)
    await authentication.check(ApiHandling.RELAY)


async def test_refused_credentials_close_the_connection_after_the_answer() -> None:
    authentication = facing(Broker(AGREED, WRONG))
    await authentication.advance(PLAIN, 1)
    step = await authentication.advance(TOKEN, 1)
    assert (step.answer, step.refusal) == (WRONG, REFUSED)


async def test_bare_tokens_follow_an_old_handshake_until_the_exchange_ends() -> None:
    broker = Broker(
        AGREED,
        SaslAuthenticateResponse(auth_bytes=b"r=x"),
        SaslAuthenticateResponse(auth_bytes=b"v=z"),
    )
    authentication = facing(broker)
    await authentication.advance(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0)
    expected = [authentication.expects_raw_tokens]
    for token, answer in ((b"n", b"r=x"), (b"p", b"v=z")):
        assert await authentication.advance_raw(token) == answer
        expected.append(authentication.expects_raw_tokens)
    assert expected == [True, True, False]
    assert broker.asked[1:] == [SaslAuthenticateRequest(auth_bytes=token) for token in (b"n", b"p")]


async def test_a_refused_bare_token_has_no_answer() -> None:
    authentication = facing(Broker(AGREED, WRONG))
    await authentication.advance(PLAIN, 0)
    with pytest.raises(NotAuthenticated, match=REFUSED):
        await authentication.advance_raw(b"\0me\0pw")


async def test_a_client_has_limited_time_to_authenticate(autojump_clock: MockClock) -> None:
    """Once accepted, it cannot be late."""
    slow = facing(Broker())
    accepted, _ = await authenticate_client()
    await trio.sleep(TIMEOUT_S - 1)
    assert not slow.is_overdue(trio.current_time())
    await trio.sleep(1)
    assert slow.is_overdue(trio.current_time())
    assert not accepted.is_overdue(trio.current_time())


async def test_a_session_has_the_lifetime_that_the_cluster_gives(autojump_clock: MockClock) -> None:
    last = SaslAuthenticateResponse(session_lifetime_ms=30_000)
    authentication, _ = await authenticate_client(last=last)
    await trio.sleep(29)
    await authentication.check(ApiHandling.RELAY)
    await trio.sleep(1)
    with pytest.raises(NotAuthenticated, match="session has ended"):
        await authentication.check(ApiHandling.RELAY)


@pytest.mark.parametrize(
    ("treatments", "asked"),
    [
        ([ApiHandling.ANSWER] * 3, 1),
        ([ApiHandling.ANSWER, ApiHandling.RELAY, ApiHandling.ANSWER], 0),
    ],
)
async def test_a_quiet_connection_to_the_broker_is_kept_alive(
    autojump_clock: MockClock, treatments: Sequence[ApiHandling], asked: int
) -> None:
    """Group requests do not reach the broker, which would close the connection. A broker that is
    lost meanwhile does not end the client's request."""
    authentication, broker = await authenticate_client(BrokerLost())
    for treatment in treatments:
        await authentication.check(treatment)
        await trio.sleep(KEEP_ALIVE_S / 2)
    assert broker.asked[2:] == [ApiVersionsRequest()] * asked


async def test_a_client_without_its_broker_continues_for_a_while(autojump_clock: MockClock) -> None:
    """Each request tries to reach the broker again."""
    authentication, broker = await authenticate_client()
    broker.is_open = False
    await authentication.check(ApiHandling.ANSWER)
    await trio.sleep(AWAY_S - 1)
    await authentication.check(ApiHandling.ANSWER)
    assert broker.looks == 2
    await trio.sleep(1)
    with pytest.raises(NotAuthenticated):
        await authentication.check(ApiHandling.ANSWER)


async def test_a_group_request_needs_no_task_while_the_broker_is_there(
    autojump_clock: MockClock,
) -> None:
    """A task is needed only once the connection has to be kept alive."""
    authentication, broker = await authenticate_client()
    answered = [authentication.check_answered()]
    await trio.sleep(KEEP_ALIVE_S)
    answered.append(authentication.check_answered())
    authentication.check_relayed()
    answered.append(authentication.check_answered())
    broker.is_open = False
    answered.append(authentication.check_answered())
    assert answered == [True, False, True, False]
    with pytest.raises(NotAuthenticated, match="authenticate first"):
        facing(Broker()).check_answered()
