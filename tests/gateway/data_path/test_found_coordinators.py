"""Clients without credentials that ask for the same coordinator share one answer of the cluster."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing

from gateway.data_path import found_coordinators
from gateway.data_path.connection import ClientConnection
from gateway.data_path.connection_tasks import ConnectionTasks
from gateway.data_path.found_coordinators import (
    FRESH_S,
    CoordinatorQuestion,
    FoundCoordinators,
    question_of,
)
from gateway.data_path.group_apis import GroupApis, GroupRequest
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.header import decode_response_header
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.client_connection import Ground, ground
from tests.support.until import until
from tests.support.wire import Wire, open_wire, request_frame

OWNER = QuotaKey("h")
QUESTION = CoordinatorQuestion("g", 2)
FIND = FindCoordinatorRequest(key="g", key_type=CoordinatorType.GROUP)
FIND_FRAME = request_frame(ApiKey.FIND_COORDINATOR, 2, 7, encode(FIND, 2))
FOUND = FindCoordinatorResponse(node_id=1, host="h", port=1)
REFUSED = FindCoordinatorResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, node_id=-1)


def is_never_in_doubt(_node_id: int) -> bool:
    return False


def test_only_a_question_about_one_group_is_shared() -> None:
    """The key of a transaction is a name that others may not know."""
    assert question_of(FIND, 2) == QUESTION
    one = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=("g",))
    assert question_of(one, 4) == CoordinatorQuestion("g", 4)
    assert question_of(replace(one, coordinator_keys=("g", "h")), 4) is None
    assert question_of(replace(FIND, key_type=CoordinatorType.TRANSACTION), 2) is None


def test_an_answer_is_given_again_for_a_moment_and_an_error_never() -> None:
    """The coordinator may move, and who was refused may be allowed meanwhile."""
    recalled: list[Struct] = []
    coordinators = FoundCoordinators(ShareRule(), recalled.append)
    coordinators.remember(QUESTION, FOUND, 10.0, OWNER)
    assert coordinators.recall(QUESTION, 10.0 + FRESH_S / 2, is_never_in_doubt) is FOUND
    assert coordinators.recall(QUESTION, 10.0 + FRESH_S, is_never_in_doubt) is None
    assert coordinators.recall(QUESTION._replace(version=3), 10.0, is_never_in_doubt) is None
    coordinators.remember(QUESTION, REFUSED, 20.0, OWNER)
    assert coordinators.recall(QUESTION, 20.0, is_never_in_doubt) is None
    one = Coordinator(key="g", node_id=-1, host="", port=-1, error_code=ErrorCode.INVALID_GROUP_ID)
    coordinators.remember(QUESTION, FindCoordinatorResponse(coordinators=(one,)), 20.0, OWNER)
    assert coordinators.recall(QUESTION, 20.0, is_never_in_doubt) is None
    assert recalled == [FOUND]


async def answer_to(client: Wire) -> FindCoordinatorResponse:
    """The answer to the frame that the client has sent."""
    frame = await client.frame()
    _, body_at = decode_response_header(ApiKey.FIND_COORDINATOR, 2, frame)
    return decode(FindCoordinatorResponse, frame[body_at:], 2)


def test_no_client_is_sent_to_a_broker_that_may_be_away() -> None:
    """The cluster is asked, because the coordinator may have moved."""
    coordinators = FoundCoordinators(ShareRule(), lambda _answer: None)
    coordinators.remember(QUESTION, FOUND, 10.0, OWNER)
    assert coordinators.recall(QUESTION, 10.0, {FOUND.node_id}.__contains__) is None
    assert coordinators.recall(QUESTION, 10.0, {FOUND.node_id + 1}.__contains__) is FOUND


class Finding(GroupApis):
    """Group APIs that answer FindCoordinator when the test allows it."""

    def __init__(self, on: list[Ground], answer: FindCoordinatorResponse = FOUND) -> None:
        self.asked: list[GroupRequest] = []
        self.recalled = 0
        self.go_on = trio.Event()
        self._on = on
        self._answer = answer

    async def answer(self, request: GroupRequest) -> Struct:
        self.asked.append(request)
        await self.go_on.wait()
        host, port = self._on[0].broker.address
        return replace(self._answer, host=host if self._answer.host else "", port=port)

    def record_recalled(self, answer: Struct) -> None:
        self.recalled += 1


@asynccontextmanager
async def clients_that_ask(
    count: int, answer: FindCoordinatorResponse = FOUND
) -> AsyncIterator[tuple[Finding, list[Wire], Ground]]:
    """A number of clients that have asked for one coordinator, after their first requests."""
    grounds: list[Ground] = []
    apis = Finding(grounds, answer)
    async with ground(group_apis=apis) as on, AsyncExitStack() as stack:
        grounds.append(on)
        await on.client.ask(MetadataRequest(topics=()), 9)
        wires = [
            await stack.enter_async_context(open_wire(on.gateway.address)) for _ in range(count)
        ]
        for wire in wires:
            await wire.send(FIND_FRAME)
        await until(lambda: apis.asked)
        await trio.testing.wait_all_tasks_blocked(0.001)
        yield apis, wires, on


async def test_clients_that_ask_together_wait_for_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When all come back together, only the first needs a task. The next ones are answered
    immediately."""
    started: list[ClientConnection] = []
    start = ConnectionTasks.start

    def record(tasks: ConnectionTasks[ClientConnection], connection: ClientConnection) -> None:
        started.append(connection)
        start(tasks, connection)

    monkeypatch.setattr(ConnectionTasks, "start", record)
    async with clients_that_ask(5) as (apis, wires, on):
        started.clear()
        apis.go_on.set()
        answers = [await answer_to(wire) for wire in wires]
        assert {answer.port for answer in answers} != {on.broker.address[1]}, "they are ours"
        assert len(set(answers)) == 1
        async with open_wire(on.gateway.address) as later:
            assert await later.ask(FIND, 2) == answers[0]
        assert (len(apis.asked), apis.recalled) == (1, 5)
        assert not started


async def test_each_client_is_refused_by_the_cluster_itself() -> None:
    """A client does not rely on another one's error."""
    async with clients_that_ask(3, REFUSED) as (apis, wires, _):
        apis.go_on.set()
        for wire in wires:
            answer = await answer_to(wire)
            assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (len(apis.asked), apis.recalled) == (3, 0)


async def test_others_ask_if_the_client_that_asks_goes() -> None:
    """No client waits for an answer that does not come."""
    async with clients_that_ask(2) as (apis, (first, second), _):
        await first.stream.aclose()
        await until(lambda: len(apis.asked) == 2)
        apis.go_on.set()
        assert not (await answer_to(second)).error_code


async def test_a_client_that_goes_while_it_waits_is_forgotten() -> None:
    """The answer goes to those that are there."""
    async with clients_that_ask(3) as (apis, (first, second, third), on):
        await second.stream.aclose()
        await until(lambda: on.gateway.limiter.count == 3)
        apis.go_on.set()
        for wire in (first, third):
            assert not (await answer_to(wire)).error_code
        assert len(apis.asked) == 1


async def test_an_old_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator moves when a broker goes."""
    monkeypatch.setattr(found_coordinators, "FRESH_S", 0.0)
    async with clients_that_ask(1) as (apis, (first,), _):
        apis.go_on.set()
        await answer_to(first)
        await first.ask(FIND, 2)
        assert (len(apis.asked), apis.recalled) == (2, 0)
