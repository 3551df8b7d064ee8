"""Descriptions of forwarded groups, asked for while an operator looks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import trio
from trio.testing import MockClock

from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.groups.cluster_view import ASKED_TOGETHER_MAX, FRESH_FOR_MS, WAIT_S, ClusterView
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, LookupOutcome, NoMembers
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember


def described_group(*member_ids: str) -> DescribedGroup:
    """A stable group in the cluster."""
    return DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=tuple(
            DescribedGroupMember(
                member_id=member_id,
                client_id=member_id,
                client_host="/h",
                member_metadata=b"",
                member_assignment=b"",
            )
            for member_id in member_ids
        ),
    )


@dataclass
class FakeLook:
    """A cluster with one answer for all groups."""

    answer: LookupOutcome = field(default_factory=NoMembers)
    delay_s: float = 0.0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def look_up_all(self, group_ids: Iterable[str]) -> Mapping[str, LookupOutcome]:
        """Answer after the delay."""
        names = tuple(group_ids)
        self.asked.append(names)
        await trio.sleep(self.delay_s)
        return dict.fromkeys(names, self.answer)


def view(look: FakeLook, watched: WatchedGroups | None = None) -> ClusterView:
    """A view of groups that are all forwarded, but for those whose names begin with "h"."""
    return ClusterView(
        cast("ClusterGroupReader", look),
        watched or WatchedGroups(),
        Clock(),
        lambda group_id: not group_id.startswith("h"),
    )


def members(watched: WatchedGroups) -> set[str]:
    """Who is known to be in the group."""
    group = watched.group("g")
    assert group is not None
    return set(group.members)


async def test_only_forwarded_groups_are_asked_about_and_not_while_fresh(
    autojump_clock: MockClock,
) -> None:
    look = FakeLook()
    board = view(look)
    await board.refresh(("g", "hosted"))
    await board.refresh(("g", "hosted"))
    await trio.sleep(FRESH_FOR_MS / 1000 + 0.1)
    await board.refresh(("g",))
    assert look.asked == [("g",), ("g",)]


async def test_members_that_have_left_the_cluster_are_no_longer_watched(
    autojump_clock: MockClock,
) -> None:
    """No request of theirs comes through the gateway to say so."""
    watched, look = WatchedGroups(), FakeLook(LiveMembers.of(described_group("a", "b")))
    board = view(look, watched)
    await board.refresh(("g",))
    assert members(watched) == {"a", "b"}
    look.answer = LiveMembers.of(described_group("b"))
    await trio.sleep(FRESH_FOR_MS / 1000 + 0.1)
    await board.refresh(("g",))
    assert members(watched) == {"b"}


async def test_a_slow_cluster_delays_a_look_by_a_second_at_most(autojump_clock: MockClock) -> None:
    """What was known before is shown, with its age."""
    look = FakeLook(delay_s=60)
    begun_s = trio.current_time()
    board = view(look)
    await board.refresh(("g",))
    assert trio.current_time() - begun_s == WAIT_S
    assert board.latest_of("g") is None


async def test_a_cluster_that_does_not_answer_leaves_the_earlier_description(
    autojump_clock: MockClock,
) -> None:
    look = FakeLook()
    board = view(look)
    await board.refresh(("g",))
    before = board.latest_of("g")
    look.answer = LookupFailed("nobody listens")
    await trio.sleep(FRESH_FOR_MS / 1000 + 0.1)
    await board.refresh(("g",))
    assert board.latest_of("g") is before is not None


async def test_a_look_at_many_groups_asks_about_the_oldest(autojump_clock: MockClock) -> None:
    look = FakeLook()
    board = view(look)
    group_ids = [f"g-{number:04}" for number in range(ASKED_TOGETHER_MAX + 50)]
    await board.refresh(group_ids)
    await board.refresh(group_ids)
    assert [len(names) for names in look.asked] == [ASKED_TOGETHER_MAX, 50]
