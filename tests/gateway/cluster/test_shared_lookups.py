"""All who ask for the same thing at the same time share one lookup."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.cluster.errors import UpstreamError
from gateway.cluster.shared_lookups import SharedLookups


class Scene:
    """Tasks that ask, and a cluster that takes a second to answer."""

    def __init__(self, error: str = "") -> None:
        self.lookups: SharedLookups[int] = SharedLookups()
        self.error = error
        self.count = 0
        self.outcomes: list[int | str] = []

    async def look_up(self) -> int:
        self.count += 1
        await trio.sleep(1)
        if self.error:
            raise UpstreamError(self.error)
        return self.count

    async def ask(self, key: str = "g") -> None:
        look_up: Callable[[], Awaitable[int]] = self.look_up
        try:
            self.outcomes.append(await self.lookups.run(key, look_up))
        except UpstreamError as error:
            self.outcomes.append(str(error))


@pytest.mark.parametrize(("error", "outcome"), [("", 1), ("away", "away")])
async def test_a_caller_that_asks_meanwhile_gets_the_same_outcome(
    autojump_clock: MockClock, error: str, outcome: object
) -> None:
    """Later, the cluster is asked again."""
    scene = Scene(error)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(scene.ask)
    assert scene.outcomes == [outcome] * 3
    await scene.ask()
    assert scene.count == 2


async def test_different_keys_share_nothing(autojump_clock: MockClock) -> None:
    scene = Scene()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.ask, "a")
        nursery.start_soon(scene.ask, "b")
    assert scene.count == 2


async def test_another_task_looks_when_the_first_is_cancelled(autojump_clock: MockClock) -> None:
    """Its client has gone, and those of the others have not."""
    scene = Scene()
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def ask_first() -> None:
            with first:
                await scene.ask()

        nursery.start_soon(ask_first)
        await wait_all_tasks_blocked()
        for _ in range(2):
            nursery.start_soon(scene.ask)
        await wait_all_tasks_blocked()
        first.cancel()
    assert (scene.count, scene.outcomes) == (2, [2, 2])
