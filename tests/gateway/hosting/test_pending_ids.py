"""Member ids that the cluster has handed out, and that were not used yet."""

from dataclasses import replace

import pytest

from gateway.hosting import pending_ids as module
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.pending_ids import PendingIds
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from tests.support.engine_requests import CLASSIC_JOIN

REQUIRED = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-1")
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    member_id="",
    group_instance_id=None,
    protocol_type="consumer",
    protocols=(),
)


def join(connection: int | None = 1, member_id: str = "", instance_id: str | None = None) -> Call:
    event = replace(CLASSIC_JOIN, member_id=member_id, instance_id=instance_id)
    return Call(api=GroupApi.JOIN, event=event, connection=connection)


def test_a_client_that_asks_twice_gets_the_same_id() -> None:
    ids = PendingIds()
    ids.record_relayed(1, JOIN, REQUIRED)
    answer = ids.answer_repeated(join())
    assert answer is not None
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-1")


def test_other_clients_and_other_joins_are_for_the_cluster() -> None:
    ids = PendingIds()
    ids.record_relayed(1, JOIN, REQUIRED)
    for call in (join(2), join(None), join(member_id="c-1"), join(instance_id="i")):
        assert ids.answer_repeated(call) is None


def test_an_id_that_was_used_is_not_handed_out_again() -> None:
    ids = PendingIds()
    ids.record_relayed(1, JOIN, REQUIRED)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="c-1")
    ids.record_relayed(1, beat, HeartbeatResponse())
    assert ids.answer_repeated(join()) is not None
    ids.record_relayed(1, JOIN, JoinGroupResponse(member_id="c-1"))
    assert ids.answer_repeated(join()) is None


def test_the_first_of_too_many_ids_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDS_MAX", 2)
    ids = PendingIds()
    for connection in (1, 2, 3):
        ids.record_relayed(connection, JOIN, REQUIRED)
    remembered = [ids.answer_repeated(join(number)) is not None for number in (1, 2, 3)]
    assert remembered == [False, True, True]


def test_ids_are_remembered_until_the_first_round_is_over() -> None:
    ids = PendingIds()
    assert not ids.is_over(10**12)
    ids.end_at(1_000)
    assert not ids.is_over(999)
    assert ids.is_over(1_000)
