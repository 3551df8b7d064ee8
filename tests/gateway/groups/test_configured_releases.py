"""Hosted groups that a setting leaves to the cluster."""

from collections.abc import Iterator

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.groups.configured_releases import RELEASES_MAX, RETRY_S, ConfiguredReleases
from gateway.hosting.move_requests import ReleaseOutcome
from gateway.state_log.log import StateLogError


class Table:
    """Hosted groups, and what becomes of each attempt to release one."""

    def __init__(self, *group_ids: str) -> None:
        self.kept = set(group_ids)
        self.obstacles: Iterator[str] = iter(())
        self.attempts: list[float] = []
        self.under_way = self.under_way_max = 0
        self.releases = ConfiguredReleases(self.release, self.kept.__contains__)

    async def release(self, group_id: str) -> ReleaseOutcome:
        self.attempts.append(trio.current_time())
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await trio.sleep(1)
        self.under_way -= 1
        obstacle = next(self.obstacles, "")
        if obstacle == "log":
            raise StateLogError("the log is away")
        if obstacle:
            return ReleaseOutcome.refuse(group_id, *obstacle.split("+"))
        self.kept.discard(group_id)
        return ReleaseOutcome(group_id=group_id, is_released=True)


async def test_each_group_is_released_with_one_line(autojump_clock: MockClock) -> None:
    table = Table("a", "b")
    with capture_logs() as lines:
        await table.releases.run(("a", "b", "not-hosted"))
    assert not table.kept
    assert sorted(line["group_id"] for line in lines) == ["a", "b"]
    assert {line["event"] for line in lines} == {"group_released_by_setting"}


async def test_a_group_that_cannot_be_released_says_why_once_and_is_tried_again(
    autojump_clock: MockClock,
) -> None:
    table = Table("a")
    table.obstacles = iter(
        ("n-1: roll it+n-2: roll it", "n-1: roll it+n-2: roll it", "n-1: roll it")
    )
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(table.releases.run, ("a",))
            await trio.sleep(RETRY_S)
            assert table.releases.obstacles == {"a": "n-1: roll it; n-2: roll it"}
    assert [line.get("reason") for line in lines] == [
        "n-1: roll it; n-2: roll it",
        "n-1: roll it",
        None,
    ]
    assert len(table.attempts) == 4
    assert table.releases.obstacles == {}


async def test_a_log_that_fails_is_waited_for(autojump_clock: MockClock) -> None:
    table = Table("a")
    table.obstacles = iter(("log",))
    await table.releases.run(("a",))
    assert len(table.attempts) == 2
    assert not table.kept


async def test_a_group_that_is_not_hosted_any_more_is_left_alone(autojump_clock: MockClock) -> None:
    """An operator has released it meanwhile, or the gateway ends."""
    table = Table("a")
    table.obstacles = iter(["n-1: roll it"] * 9)
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(table.releases.run, ("a",))
            await trio.sleep(RETRY_S)
            table.kept.clear()
    assert len(table.attempts) == 1
    assert len(lines) == 1


@pytest.mark.parametrize("count", [1, RELEASES_MAX, 3 * RELEASES_MAX])
async def test_the_releases_at_a_time_are_limited(autojump_clock: MockClock, count: int) -> None:
    names = tuple(f"g{number}" for number in range(count))
    table = Table(*names)
    await table.releases.run(names)
    assert table.under_way_max == min(count, RELEASES_MAX)
    assert not table.kept
