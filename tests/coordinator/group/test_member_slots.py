"""What is remembered of replacements, and how long one is awaited (rule 3.16)."""

from collections import defaultdict
from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group import member_slots
from coordinator.group.member_slots import (
    GRACES_BEFORE_ALL_REJOIN,
    RETURN_COUNTS_MS,
    find_slot,
    grace_ms,
    last_away_ms,
)
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.records import Member
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import MemberReturned, MemberSlot, MemberSlotMoved
from tests.support.engine_requests import join_received

NOW_MS = 1_000_000
GRACE_MS = 3_000
LONG_MS = GRACES_BEFORE_ALL_REJOIN * GRACE_MS


def state_after(away_ms: int, *, ago_ms: int = 0) -> GroupState:
    """A group one of whose members has been replaced."""
    state = GroupState("orders")
    state.apply(MemberReturned(at_ms=NOW_MS - ago_ms, away_ms=away_ms))
    return state


def graces(state: GroupState) -> tuple[int, int]:
    """How long a member is awaited, and one whose leave would make all rejoin."""
    config = GroupConfig(replacement_grace_ms=GRACE_MS, rolled_since_ms=1_000_000)
    step = StepBuilder(state, config=config, topics=Topics(), now_ms=NOW_MS)
    return grace_ms(step, all_rejoin=False), grace_ms(step, all_rejoin=True)


def test_a_member_is_awaited_for_longer_where_all_others_would_have_to_rejoin() -> None:
    assert graces(GroupState("orders")) == (GRACE_MS, LONG_MS)


def test_nobody_is_awaited_outside_a_roll() -> None:
    """A leave costs what it costs in Kafka then."""
    config = GroupConfig(replacement_grace_ms=GRACE_MS)
    step = StepBuilder(GroupState("orders"), config=config, topics=Topics(), now_ms=NOW_MS)
    assert grace_ms(step, all_rejoin=True) == 0


@pytest.mark.parametrize(
    ("away_ms", "expected"),
    [
        (GRACE_MS, (GRACE_MS, LONG_MS)),
        (GRACE_MS + 1, (0, LONG_MS)),
        (LONG_MS, (0, LONG_MS)),
        (LONG_MS + 1, (0, 0)),
    ],
)
def test_a_replacement_that_is_expected_after_the_grace_is_not_awaited(
    away_ms: int, expected: tuple[int, int]
) -> None:
    """The partitions would only wait, too."""
    assert graces(state_after(away_ms)) == expected


def test_a_return_is_forgotten_after_a_while() -> None:
    before, after = (state_after(5_000, ago_ms=RETURN_COUNTS_MS - rest) for rest in (1, 0))
    assert (last_away_ms(before, NOW_MS), last_away_ms(after, NOW_MS)) == (5_000, None)
    assert graces(after) == (GRACE_MS, LONG_MS)


# -- who may take a slot --------------------------------------------------------------------------


def place_of(client_id: str, client_host: str) -> MemberSlot:
    return MemberSlot(
        Member(
            member_id="m",
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=60_000,
        )
    )


def join_from(client_host: str) -> JoinGroupReceived:
    return replace(join_received(fresh_id=uuid4()), client_host=client_host)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.none()
            | st.just(MemberSlot(None))
            | st.builds(place_of, *[st.sampled_from("xy")] * 2),
        )
    )
)
def test_places_are_found_by_client(moves: list[tuple[str, MemberSlot | None]]) -> None:
    """The index has each slot of a member that is known, in the order of the slots; a fork has
    its own."""
    original = GroupState("orders")
    state = original.fork()
    for member_id, slot in moves:
        state.apply(MemberSlotMoved(member_id, slot))
    expected: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for member_id, slot in state.member_slots.items():
        if slot.member is not None:
            expected[slot.member.client_id, slot.member.client_host].add(member_id)
    assert {key: set(ids) for key, ids in state.slots_by_client.items()} == expected
    assert all(len(ids) == len({*ids}) for ids in state.slots_by_client.values())
    assert not original.slots_by_client


def test_a_joiner_is_compared_with_its_own_predecessors_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All members of a deployment may be restarted at once."""
    state = GroupState("orders")
    for number in range(1_000):
        state.apply(MemberSlotMoved(f"m{number}", place_of("client", f"/10.0.0.{number}")))
    compared: list[MemberSlot] = []
    replaces = member_slots._replaces

    def count(event: JoinGroupReceived, slot: MemberSlot) -> bool:
        compared.append(slot)
        return replaces(event, slot)

    monkeypatch.setattr(member_slots, "_replaces", count)
    step = StepBuilder(state, config=GroupConfig(), topics=Topics(), now_ms=NOW_MS)
    match = find_slot(step, join_from("/10.0.0.999"))
    assert match is not None
    assert match[0] == "m999"
    assert len(compared) == 1
    assert find_slot(step, join_from("/10.0.1.0")) is None
    step.config = GroupConfig(replacement_needs_host=False)
    match = find_slot(step, join_from("/10.0.1.0"))
    assert match is not None
    assert match[0] == "m0"
