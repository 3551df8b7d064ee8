"""A gateway in front of a broker that refuses what the test says."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from coordinator.interface.config import GroupConfig
from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.data_path.grants import Permission, Resource
from gateway.requests import authorization
from gateway.requests.authorization import refused_names
from gateway.requests.permissions import NEEDED
from gateway.security import Security
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.sasl_authenticate import SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeResponse
from tests.support.commits import codes_of, transactional_commit_of
from tests.support.fake_broker import answer, running_fake_broker
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.guarded_broker import GuardedBroker, native_join
from tests.support.hosted_groups import lone_request
from tests.support.offset_stage import offset_stage
from tests.support.until import until
from tests.support.wire import Wire

LIFETIME_S = 1.0
READ_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_refused_request_leaves_no_trace() -> None:
    """There is no group, no anchor and no commit, and a permission that is given counts
    immediately."""
    broker = GuardedBroker(read_code=READ_REFUSED)
    async with offset_stage(broker) as stage:
        assert (await stage.client.join()).error_code == READ_REFUSED
        assert (await native_join(stage, "numbers")).error_code == READ_REFUSED
        assert await stage.client.commit({0: 1}) == {0: READ_REFUSED}
        assert (await stage.client.leave("m")).error_code == READ_REFUSED
        assert stage.gateway.events == []
        assert broker.coordinator.group("g").joins == 0
        assert broker.commits == []
        broker.read_code = ErrorCode.UNKNOWN_MEMBER_ID
        await stage.client.enter()


async def test_a_target_needs_the_permission_of_a_member() -> None:
    """This holds for computing one and for installing one."""
    broker = GuardedBroker(read_code=READ_REFUSED)
    async with offset_stage(broker, groups=GroupConfig(client_side_assignors=True)) as stage:
        assert (await stage.client.prepare("m", 1)).error_code == READ_REFUSED
        assert (await stage.client.install("m", 1, 1, [])).error_code == READ_REFUSED
        broker.read_code = ErrorCode.UNKNOWN_MEMBER_ID
        assert (await stage.client.prepare("m", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_refusal_is_logged() -> None:
    """The line names the group, the api and the user."""
    broker = GuardedBroker(read_code=READ_REFUSED)
    async with offset_stage(broker) as stage:
        with capture_logs() as lines:
            await stage.client.join()
    (line,) = [line for line in lines if line["event"] == "permission_refused"]
    assert (line["group_id"], line["api"]) == ("g", "JOIN_GROUP")
    assert line["error_code"] == "GROUP_AUTHORIZATION_FAILED"
    assert line["user"] is None, "the cluster knows no client of its own"


async def test_a_refusal_names_the_user_that_the_cluster_has_accepted() -> None:
    """Operators grant the permission to this user."""

    async def agree(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, SaslHandshakeResponse(mechanisms=("PLAIN",)))

    async def accept(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, SaslAuthenticateResponse())

    broker = GuardedBroker(read_code=READ_REFUSED)
    sasl = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
    broker.versions = {**broker.versions, **sasl}
    broker.handlers |= {ApiKey.SASL_HANDSHAKE: agree, ApiKey.SASL_AUTHENTICATE: accept}
    own, alice = (
        Access(credentials=Credentials(mechanism="PLAIN", username=username, password=Secret("pw")))
        for username in ("gateway", "alice")
    )
    with trio.fail_after(20), capture_logs() as lines:
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address], security=Security(own=own)) as gateway,
            await BrokerConnection.open(*gateway.address, access=alice) as connection,
        ):
            refused = await GroupClient(connection, "g").join()
    assert refused.error_code == READ_REFUSED
    (line,) = [line for line in lines if line["event"] == "permission_refused"]
    assert line["user"] == "alice"


async def test_the_cluster_is_asked_once_in_a_lifetime(mock_clock: MockClock) -> None:
    """A heartbeat costs no request to the cluster, and a lost permission ends the membership."""
    broker = GuardedBroker()
    async with offset_stage(broker, permission_lifetime_s=LIFETIME_S) as stage:
        joined = await stage.client.enter()
        asked = len(broker.questions)
        for _ in range(3):
            assert (await stage.client.beat(joined)).error_code == 0
        assert len(broker.questions) == asked
        broker.read_code = READ_REFUSED
        mock_clock.jump(LIFETIME_S)
        assert (await stage.client.beat(joined)).error_code == READ_REFUSED


@dataclass(slots=True, kw_only=True)
class HeldBroker(GuardedBroker):
    """Answers questions when the test allows it."""

    go_on: trio.Event = field(default_factory=trio.Event)

    async def _heartbeat(self, request: HeartbeatRequest) -> Any:
        response = await GuardedBroker._heartbeat(self, request)
        await self.go_on.wait()
        return response


@pytest.mark.parametrize(
    ("read_code", "count_questions"), [(ErrorCode.UNKNOWN_MEMBER_ID, 1), (READ_REFUSED, 3)]
)
async def test_clients_that_come_together_ask_once(
    read_code: ErrorCode, count_questions: int
) -> None:
    """One that is refused would ask for itself."""
    broker = HeldBroker(read_code=read_code)
    async with offset_stage(broker) as stage, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(stage.another_client()) for _ in range(3)]
        codes: list[int] = []

        async def beat(client: GroupClient) -> None:
            codes.append((await client.native("m", 1)).error_code)

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(beat, client)
            await until(lambda: broker.questions)
            await trio.testing.wait_all_tasks_blocked(0.001)
            assert broker.questions == ["g"]
            broker.go_on.set()
        assert len(broker.questions) == count_questions
        is_refused = read_code == READ_REFUSED
        assert codes == [READ_REFUSED if is_refused else ErrorCode.UNKNOWN_MEMBER_ID] * 3


@pytest.mark.parametrize("is_idle", [True, False])
async def test_nobody_waits_for_a_question_behind_an_answer_that_its_client_does_not_read(
    monkeypatch: pytest.MonkeyPatch, *, is_idle: bool
) -> None:
    """That client may read nothing for as long as it likes."""

    async def ask(*_: object) -> frozenset[str]:
        await trio.sleep_forever()

    monkeypatch.setattr(authorization, "_allowed_groups", ask)
    monkeypatch.setattr(authorization, "is_embedded", lambda _versions: False)
    request = lone_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    monkeypatch.setattr(request.upstream, "is_idle", is_idle, raising=False)
    read = Permission(Resource.GROUP, NEEDED[ApiKey.HEARTBEAT, Resource.GROUP], "g")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused_names, request, Resource.GROUP, ["g"])
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01) as waiting:
            await request.grants.wait_for_answers([read], request.node_id)
        assert waiting.cancelled_caught == is_idle
        nursery.cancel_scope.cancel()


async def test_a_topic_that_the_client_may_not_describe_refuses_the_heartbeat() -> None:
    """Whether it exists or not."""
    async with offset_stage(GuardedBroker(hidden_topics=frozenset({"secret"}))) as stage:
        assert (await native_join(stage, "numbers", "secret")).error_code == TOPIC_REFUSED
        assert stage.gateway.events == []
        assert (await native_join(stage, "numbers", "never")).error_code == 0


async def test_a_broker_that_knows_no_operations_hides_topics_alone() -> None:
    """Brokers tell operations since 2.3. A client may do what it likes with a topic that an older
    one describes."""
    broker = GuardedBroker()
    broker.versions = {**broker.versions, ApiKey.METADATA: (0, 7)}
    async with offset_stage(broker) as stage:
        assert (await native_join(stage, "numbers")).error_code == 0


async def test_a_private_topic_refuses_the_heartbeat() -> None:
    """The cluster would let the client describe it."""
    async with offset_stage(GuardedBroker(), private_topics=("state",)) as stage:
        assert (await native_join(stage, "numbers", "state")).error_code == TOPIC_REFUSED
        assert (await native_join(stage, "numbers")).error_code == 0


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST])
async def test_an_unclear_answer_allows_nothing(code: ErrorCode) -> None:
    """The client tries again."""
    async with offset_stage(GuardedBroker(read_code=code)) as stage:
        assert (await stage.client.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_members_continue_while_the_cluster_does_not_answer(mock_clock: MockClock) -> None:
    """No client joins meanwhile."""
    broker = GuardedBroker()
    async with offset_stage(broker, permission_lifetime_s=LIFETIME_S) as stage:
        joined = await stage.client.enter()
        broker.read_code = ErrorCode.UNKNOWN_SERVER_ERROR
        mock_clock.jump(LIFETIME_S)
        assert (await stage.client.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await stage.client.beat(joined)).error_code == 0
        asked = len(broker.questions)
        assert (await stage.client.beat(joined)).error_code == 0
        assert len(broker.questions) == asked, "a broker that hangs must not delay each heartbeat"


async def test_groups_that_the_client_may_not_describe_are_withheld() -> None:
    """Such groups are also missing from lists."""
    broker = GuardedBroker()
    async with offset_stage(broker) as stage:
        await stage.client.enter()
        broker.describe_code = READ_REFUSED
        shown = await stage.client.describe(5)
        assert (shown.error_code, shown.members) == (READ_REFUSED, ())
        natives = await stage.client.described_as_consumer_group(0)
        assert (natives.error_code, natives.members) == (READ_REFUSED, ())


async def test_a_transactional_commit_needs_the_transactional_id_before_the_group() -> None:
    """Who lacks both permissions gets the code about the transaction, as in Kafka."""
    broker = GuardedBroker(
        read_code=READ_REFUSED,
        transaction_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    commit = transactional_commit_of({"numbers": {0: 1}})
    async with offset_stage(broker) as stage:
        refused = await stage.client.connection.ask(commit, 3)
        assert codes_of(refused) == {"numbers": {0: broker.transaction_code}}
        broker.transaction_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = await stage.client.connection.ask(commit, 3)
        assert codes_of(refused) == {"numbers": {0: READ_REFUSED}}
        assert broker.commits == []
