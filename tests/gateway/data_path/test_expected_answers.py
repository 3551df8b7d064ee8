"""Expected answers: decoded once, and no memory is reserved for one that is not needed."""

import pytest

from gateway.data_path.errors import BadAnswer
from gateway.data_path.expected_answers import ExpectedAnswer
from gateway.data_path.held_answers import HeldAnswers
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import encode_response_header
from kafka_codecs.heartbeat import HeartbeatResponse

VERSION = 4
START = encode_response_header(ApiKey.HEARTBEAT, VERSION, 1)
FRAME = START + encode(HeartbeatResponse(error_code=7), VERSION)


@pytest.fixture
def heartbeat_answer() -> ExpectedAnswer:
    return ExpectedAnswer(1, ApiKey.HEARTBEAT, VERSION)


async def test_an_answer_is_decoded_once(heartbeat_answer: ExpectedAnswer) -> None:
    """What it takes is free from then on."""
    answers = HeldAnswers()
    heartbeat_answer.arrive(FRAME, await answers.take(QuotaKey("h"), len(FRAME)))
    await heartbeat_answer.wait_until_arrived()
    response = await heartbeat_answer.answer()
    assert response is not None
    assert response.error_code == 7
    assert answers._total.used == 0
    assert await heartbeat_answer.answer() is None


async def test_a_lost_connection_has_no_answer(heartbeat_answer: ExpectedAnswer) -> None:
    heartbeat_answer.arrive(None)
    await heartbeat_answer.wait_until_arrived()
    assert await heartbeat_answer.answer() is None


async def test_a_malformed_answer_is_the_fault_of_the_broker(
    heartbeat_answer: ExpectedAnswer,
) -> None:
    """The client, whose request was well-formed, is not blamed."""
    heartbeat_answer.arrive(START + b"\xff")
    with pytest.raises(BadAnswer, match="the broker sent a malformed answer"):
        await heartbeat_answer.answer()


@pytest.mark.parametrize("is_here", [True, False])
async def test_an_answer_that_nobody_waits_for_gives_its_room_back(
    heartbeat_answer: ExpectedAnswer, is_here: bool
) -> None:
    """Its client has gone, after or before it came."""
    answers = HeldAnswers()
    if not is_here:
        heartbeat_answer.forget()
    heartbeat_answer.arrive(FRAME, await answers.take(QuotaKey("h"), len(FRAME)))
    if is_here:
        heartbeat_answer.forget()
    assert answers._total.used == 0
