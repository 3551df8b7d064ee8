"""The legal moves of client and upstream connections, every pair of states."""

import itertools
from enum import StrEnum
from typing import TypeVar

import pytest

from gateway.data_path.states import CLIENT_MOVES, UPSTREAM_MOVES, ClientState, UpstreamState
from gateway.moves import Moves, check_move

RESTING, SERVING, DRAINING, FINISHING, ABANDONED, CLOSED = ClientState
CLIENT_LEGAL = {
    (SERVING, RESTING),
    (SERVING, DRAINING),
    (SERVING, FINISHING),
    (SERVING, ABANDONED),
    (RESTING, SERVING),
    (RESTING, FINISHING),
    (DRAINING, FINISHING),
    (DRAINING, ABANDONED),
    (FINISHING, CLOSED),
    (ABANDONED, CLOSED),
}
UPSTREAM_LEGAL = {
    (UpstreamState.OPEN, UpstreamState.ENDED),
    (UpstreamState.OPEN, UpstreamState.FAILED),
    (UpstreamState.ENDED, UpstreamState.CLOSED),
    (UpstreamState.FAILED, UpstreamState.CLOSED),
}


_State = TypeVar("_State", bound=StrEnum)


def check(
    moves: Moves[_State], legal: set[tuple[_State, _State]], before: _State, after: _State
) -> None:
    if (before, after) in legal:
        assert check_move(moves, before, after) is after
    else:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            check_move(moves, before, after)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ClientState, repeat=2)))
def test_every_pair_of_a_client_connection(before: ClientState, after: ClientState) -> None:
    check(CLIENT_MOVES, CLIENT_LEGAL, before, after)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(UpstreamState, repeat=2)))
def test_every_pair_of_an_upstream_connection(before: UpstreamState, after: UpstreamState) -> None:
    check(UPSTREAM_MOVES, UPSTREAM_LEGAL, before, after)


def test_a_connection_that_stops_reading_never_reads_again() -> None:
    """A drained, idle or abandoned client gets no further request in."""
    assert {after for after in ClientState if RESTING in CLIENT_MOVES[after]} == {SERVING}
    assert {after for after in ClientState if SERVING in CLIENT_MOVES[after]} == {RESTING}
