"""The story's steps in their order, and what ends it. test_whole_story.py runs it on Kafka."""

from pathlib import Path
from typing import Any, cast

import pytest
from trio.testing import MockClock

from gateway.control.messages import (
    AdoptionAnswer,
    Order,
    ReleaseAnswer,
    RemovalAnswer,
    RemoveCommand,
)
from gateway.demo import story as story_module
from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.ledger import Change
from gateway.demo.roll import Roll
from gateway.demo.story import ADOPTIONS_MAX, Story
from gateway.demo.tcp_forwarder import TcpForwarder

Outcome = AdoptionAnswer | ReleaseAnswer | RemovalAnswer


class PaperRoll:
    """Does each step, and notes it. `disturbed` are steps in which a consumer sees a rebalance."""

    def __init__(self, *disturbed: str) -> None:
        self.titles: list[str] = []
        self._disturbed = disturbed

    async def step(self, title: str, act: Any = None, _replaced: str | None = None) -> Any:
        """One step."""
        if act is not None:
            title = await act() or title
        self.titles.append(title)
        change = Change(member="a", gave_up=1, got=1)
        rebalanced = (change,) if title in self._disturbed else ()
        return type("Step", (), {"title": title, "rebalanced": rebalanced})

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


GIVEN: dict[str, Outcome] = {
    "adopt": AdoptionAnswer(group_id="g", is_adopted=True, held_ms=20),
    "release": ReleaseAnswer(group_id="g", is_released=True),
    "remove": RemovalAnswer(is_removed=True),
}
REFUSED: dict[str, Outcome] = {
    "adopt": AdoptionAnswer(group_id="g", is_adopted=False, reasons=("b is outside",)),
    "release": ReleaseAnswer(group_id="g", is_released=False, reasons=("b is native",)),
    "remove": RemovalAnswer(is_removed=False, reasons=("b came back",)),
}
UNDONE = AdoptionAnswer(group_id="g", is_adopted=False, reasons=("undone: a left",), held_ms=3000)
TITLES = [
    "all start on the cluster",
    "a behind the gateway",
    "b behind the gateway",
    "the group is adopted",
    "there and back",
    "the group is released",
    "a back at the cluster",
    "b bootstraps again",
]


class Stage:
    """A story with a gateway whose first outcomes of each command are listed."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *disturbed: str, mode: str = "unknown"
    ) -> None:
        self.roll, self.fleet, self.forwarder = (
            PaperRoll(*disturbed),
            PaperFleet(),
            TcpForwarder("gateway"),
        )
        self.orders: list[str] = []
        self.outcomes: dict[str, list[Outcome]] = {name: [] for name in GIVEN}
        self.mode = mode
        monkeypatch.setattr(story_module, "give", self._give)
        monkeypatch.setattr(story_module, "fetch_view", self._fetch_view)
        self.story = Story(
            cast("Roll", self.roll),
            cast("Fleet", self.fleet),
            group="g",
            state_dir=Path("state"),
            cluster="cluster",
            gateway="gateway",
            forwarder=self.forwarder,
            front_address="forwarder",
            stop_watching=lambda: self.orders.append("stop watching"),
        )

    async def _give(self, _folder: Path, order: Order) -> Outcome:
        self.orders.append(order.command)
        assert (self.forwarder.target == "cluster") is isinstance(order, RemoveCommand)
        first = self.outcomes[order.command]
        return first.pop(0) if first else GIVEN[order.command]

    async def _fetch_view(self, *_question: object) -> Any:
        return type("Readiness", (), {"mode": self.mode})


async def test_the_gateway_is_inserted_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last consumer comes by the front, and is not restarted on its way back."""
    stage = Stage(monkeypatch)
    await stage.story.run()
    assert stage.roll.titles == TITLES
    assert stage.fleet.moves == [("a", "gateway"), ("b", "forwarder"), ("a", "cluster")]
    assert stage.orders == ["adopt", "release", "stop watching", "remove"]


@pytest.mark.parametrize("command", list(GIVEN))
async def test_a_command_that_is_refused_for_a_while_is_given_again(
    command: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """This happens within the same step."""
    stage = Stage(monkeypatch)
    stage.outcomes[command] = [REFUSED[command]] * 2
    await stage.story.run()
    assert stage.roll.titles == TITLES
    assert stage.orders.count(command) == 3


@pytest.mark.parametrize(("command", "mode"), [("adopt", "hosted"), ("release", "forwarded")])
async def test_a_move_may_outlast_its_command(
    command: str, mode: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The gateway refuses to begin it again, and says who serves the group."""
    stage = Stage(monkeypatch, mode=mode)
    stage.outcomes[command] = [REFUSED[command]] * 1000
    await stage.story.run()
    assert stage.roll.titles == TITLES


async def test_after_an_undone_adoption_the_group_is_adopted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rebalance of the undone one belongs to a step of its own."""
    stage = Stage(monkeypatch, "the adoption is undone")
    stage.outcomes["adopt"] = [UNDONE]
    await stage.story.run()
    assert stage.roll.titles == [*TITLES[:3], "the adoption is undone", *TITLES[3:]]
    stage = Stage(monkeypatch)
    stage.outcomes["adopt"] = [UNDONE] * ADOPTIONS_MAX
    with pytest.raises(DemoError, match="undone 3 times, last: undone: a left"):
        await stage.story.run()


@pytest.mark.parametrize("title", ["the group is adopted", "b bootstraps again"])
async def test_a_rebalance_that_should_not_be_ends_it(
    monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    """The member that saw it is named."""
    with pytest.raises(DemoError, match=f"{title}: a rebalance, seen by a"):
        await Stage(monkeypatch, title).story.run()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("adopt", "the group is not adopted: b is outside"),
        ("release", "the group is not released: b is native"),
        ("remove", "the gateway is not removed: b came back"),
    ],
)
async def test_a_lasting_refusal_is_the_reason(
    command: str, problem: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The story ends after a while."""
    stage = Stage(monkeypatch)
    stage.outcomes[command] = [REFUSED[command]] * 1000
    with pytest.raises(DemoError, match=problem):
        await stage.story.run()
