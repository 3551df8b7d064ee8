"""Which of a client's joins counts while a move holds them."""

from dataclasses import replace

from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.join_order import JoinOrder
from tests.support.given_requests import CLASSIC_JOIN


def join(connection: int, member_id: str = "", instance_id: str | None = None) -> Call:
    event = replace(CLASSIC_JOIN, member_id=member_id, instance_id=instance_id)
    return Call(api=GroupApi.JOIN, event=event, connection=connection)


def test_the_join_on_the_newer_connection_counts() -> None:
    """An older one may also arrive later."""
    joins = JoinOrder()
    first, newer, oldest = join(2, "", "one"), join(3, "m", "one"), join(1, "", "one")
    assert joins.add(first) is None
    assert joins.add(newer) is first
    joins.drop(first)
    assert joins.add(oldest) is oldest
    assert len(joins._latest) == 1


def test_joins_of_one_connection_are_in_order_already() -> None:
    joins = JoinOrder()
    assert [joins.add(join(1, "m")) for _ in range(2)] == [None, None]


def test_clients_without_an_identity_are_strangers_to_each_other() -> None:
    joins = JoinOrder()
    assert [joins.add(join(number)) for number in (1, 2)] == [None, None]
    assert not joins._latest


def test_a_join_that_has_its_answer_is_forgotten() -> None:
    joins = JoinOrder()
    first = join(1, "m")
    joins.add(first)
    joins.drop(first)
    assert joins.add(join(2, "m")) is None
    assert len(joins._latest) == 1
