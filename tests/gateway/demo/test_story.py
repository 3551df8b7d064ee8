"""The story's steps in their order, and what ends it. test_whole_story.py runs it on Kafka."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from trio.testing import MockClock

from gateway.control.messages import Adopt, Adoption, Order, Release, Released, Removed
from gateway.demo import story as story_module
from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.front import Front
from gateway.demo.ledger import Change
from gateway.demo.roll import Roll
from gateway.demo.story import Story


class PaperRoll:
    """Does each step, and notes it. `disturbed` are steps in which a consumer sees a rebalance."""

    def __init__(self, *disturbed: str) -> None:
        self.titles: list[str] = []
        self._disturbed = disturbed

    async def step(self, title: str, act: Any = None, _replaced: str | None = None) -> Any:
        """One step."""
        self.titles.append(title)
        if act is not None:
            await act()
        change = Change(member="a", gave_up=1, got=1)
        return type("Step", (), {"rebalanced": (change,) if title in self._disturbed else ()})

    async def there_and_back(self) -> None:
        """The roll."""
        self.titles.append("there and back")


class PaperFleet:
    """Notes where each member is."""

    def __init__(self) -> None:
        self.wanted = {"a": "classic", "b": "classic"}
        self.moves: list[tuple[str, str]] = []

    async def replace(self, name: str, _protocol: str, bootstrap: str) -> None:
        """Start it there."""
        self.moves.append((name, bootstrap))


class Stage:
    """A story with a gateway that refuses the first adoptions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *disturbed: str) -> None:
        self.roll, self.fleet, self.front = PaperRoll(*disturbed), PaperFleet(), Front("gateway")
        self.orders: list[str] = []
        self.refusals: Sequence[str] = ()
        self.removed = Removed(is_removed=True)
        monkeypatch.setattr(story_module, "give", self._give)
        self.story = Story(
            cast("Roll", self.roll),
            cast("Fleet", self.fleet),
            group="g",
            state_dir=Path("state"),
            cluster="cluster",
            gateway="gateway",
            front=self.front,
            front_address="front",
            stop_watching=lambda: self.orders.append("stop watching"),
        )

    async def _give(self, _folder: Path, order: Order) -> Adoption | Released | Removed:
        self.orders.append(order.command)
        if isinstance(order, Adopt):
            reasons, self.refusals = tuple(self.refusals[:1]), self.refusals[1:]
            return Adoption(group_id="g", is_adopted=not reasons, reasons=reasons)
        if isinstance(order, Release):
            return Released(group_id="g", is_released=True)
        assert self.front.target == "cluster"
        return self.removed


async def test_the_gateway_is_inserted_and_removed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The last consumer comes by the front, and is not restarted on its way back."""
    stage = Stage(monkeypatch)
    stage.refusals = ["b is outside", "b is outside"]
    await stage.story.run()
    assert stage.roll.titles == [
        "all start on the cluster",
        "a behind the gateway",
        "b behind the gateway",
        "the group is adopted",
        "there and back",
        "the group is released",
        "a back at the cluster",
        "b bootstraps again",
    ]
    assert stage.fleet.moves == [("a", "gateway"), ("b", "front"), ("a", "cluster")]
    assert stage.orders == ["adopt"] * 3 + ["release", "stop watching", "remove"]


@pytest.mark.parametrize("title", ["the group is adopted", "b bootstraps again"])
async def test_a_rebalance_that_should_not_be_ends_it(
    monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    """Whoever saw it is named."""
    with pytest.raises(DemoError, match=f"{title}: a rebalance, seen by a"):
        await Stage(monkeypatch, title).story.run()


async def test_a_refusal_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """An adoption may be refused for a while."""
    stage = Stage(monkeypatch)
    stage.refusals = ["b is outside"] * 1000
    with pytest.raises(DemoError, match="the group is not adopted: b is outside"):
        await stage.story.run()
    stage = Stage(monkeypatch)
    stage.removed = Removed(is_removed=False, reasons=("b came back",))
    with pytest.raises(DemoError, match="the gateway is not removed: b came back"):
        await stage.story.run()
