"""The table of who answers a call."""

import pytest

from gateway.hosting.answers import ANSWERS, JOINS, GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.routes import ROUTES, CallKind, GroupSituation, Route, Situation
from gateway.hosting.states import Mode

MOVES = (
    GroupSituation.PROPOSED,
    GroupSituation.HELD,
    GroupSituation.RECALLED,
    GroupSituation.OPENED,
    GroupSituation.NATIVE_FIRST,
    GroupSituation.LET_GO,
)
SITUATIONS: tuple[Situation, ...] = (*GroupSituation, *Mode)
CALLS = [Call(api=api) for api in GroupApi] + [Call(api=GroupApi.JOIN, is_foreign=True)]


def route(situation: Situation, call: Call) -> Route:
    return ROUTES[situation, CallKind.of(call)]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_call_has_a_route(situation: Situation) -> None:
    assert all(isinstance(route(situation, call), Route) for call in CALLS)


def test_only_a_group_that_is_hosted_answers_itself() -> None:
    """At no other time may its engine grant partitions."""
    assert {situation for (situation, _kind), route in ROUTES.items() if route is Route.HERE} == {
        GroupSituation.HERE,
        Mode.HOSTED,
    }


def test_a_group_with_members_here_answers_everything() -> None:
    assert {route(GroupSituation.HERE, call) for call in CALLS} == {Route.HERE}


def test_nothing_reaches_the_cluster_while_a_move_holds_or_recalls_members() -> None:
    to_cluster = {Route.CLUSTER, Route.CLUSTER_UNLESS_HELD, Route.CLUSTER_WITHOUT_ANCHOR}
    for situation in (GroupSituation.HELD, GroupSituation.RECALLED):
        assert not to_cluster & {route(situation, call) for call in CALLS}


def test_joins_of_one_kind_wait_until_the_other_has_made_way() -> None:
    """A native member is refused next to the anchor, and a classic one must not be the first."""
    joins = [Call(api=api) for api in sorted(JOINS, key=lambda api: api.name)]
    assert [route(GroupSituation.OPENED, call) for call in joins] == [Route.MOVE, Route.CLUSTER]
    assert [route(GroupSituation.NATIVE_FIRST, call) for call in joins] == [
        Route.CLUSTER,
        Route.MOVE,
    ]


@pytest.mark.parametrize(
    "situation", [situation for situation in SITUATIONS if situation not in MOVES]
)
def test_a_foreign_join_finds_the_cluster_without_the_anchor(situation: Situation) -> None:
    """Only a group with members here keeps it."""
    expected = Route.CLUSTER_WITHOUT_ANCHOR
    if situation is GroupSituation.HERE:
        expected = Route.HERE
    assert ROUTES[situation, CallKind.FOREIGN_JOIN] is expected


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("api", GroupApi)
def test_what_is_refused_has_a_code(mode: Mode, api: GroupApi) -> None:
    """The table of errors says the same."""
    is_refused = route(mode, Call(api=api)) is Route.REFUSE
    reason = RoutingDecision(mode).cause
    assert is_refused == (reason is not None and ANSWERS[reason, api] is not None)
