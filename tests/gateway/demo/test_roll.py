"""The roll: its steps, when each has settled, and a step that never settles."""

import pytest
import trio
from trio.testing import MockClock

from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.group_view import ObservedGroup, ObservedMember, Protocol
from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import AssignedReport, ClosedReport
from gateway.demo.roll import SETTLE_LIMIT_S, Roll

NAMES = ["c-1", "c-2"]


class PaperFleet(Fleet):
    """Members without processes. Each owns the partition of its position."""

    def __init__(self) -> None:
        self.books = Ledger(len(NAMES))
        super().__init__(NAMES, [], self.books, "upstream:9092")
        self.history = [dict(self.wanted)]
        for partition, name in enumerate(NAMES):
            self._own(partition, Process(member=name, incarnation=0))

    async def replace(self, name: str, protocol: Protocol, bootstrap: str | None = None) -> None:
        """Close one process and start the next."""
        incarnation = len(self.history)
        owner = Process(member=name, incarnation=incarnation)
        for before in range(incarnation):
            self.books.record(
                Process(member=name, incarnation=before), ClosedReport(at_s=incarnation)
            )
        self.wanted[name] = protocol
        self.history.append(dict(self.wanted))
        self._own(NAMES.index(name), owner)

    def _own(self, partition: int, owner: Process) -> None:
        self.books.record(owner, AssignedReport(at_s=owner.incarnation, partitions=(partition,)))


class Description:
    """Describes the group as it should be, after some other answers."""

    def __init__(self, fleet: PaperFleet, *first: ObservedGroup | str) -> None:
        self._fleet = fleet
        self._first = list(first)

    async def __call__(self) -> ObservedGroup | str:
        """Look at the group."""
        await trio.lowlevel.checkpoint()
        if self._first:
            return self._first.pop(0)
        wanted = self._fleet.wanted
        return ObservedGroup(
            protocol="consumer" if "consumer" in wanted.values() else "classic",
            state="Stable",
            members=tuple(
                ObservedMember(client_id=name, protocol=wanted[name], partitions=(partition,))
                for partition, name in enumerate(NAMES)
            ),
        )


async def test_members_roll_one_by_one_and_back(autojump_clock: MockClock) -> None:
    """The group is classic, mixed, native, mixed, and classic."""
    fleet = PaperFleet()
    roll = Roll(fleet, fleet.books, Description(fleet))
    await roll.run()
    assert [tuple(wanted.values()) for wanted in fleet.history] == [
        ("classic", "classic"),
        ("consumer", "classic"),
        ("consumer", "consumer"),
        ("classic", "consumer"),
        ("classic", "classic"),
    ]
    assert [(step.title, step.group_protocol) for step in roll.steps] == [
        ("all start as classic", "classic"),
        ("c-1 to consumer", "consumer"),
        ("c-2 to consumer", "consumer"),
        ("c-1 to classic", "consumer"),
        ("c-2 to classic", "classic"),
    ]
    assert [(step.classic_members, step.native_members) for step in roll.steps] == [
        (2, 0),
        (1, 1),
        (0, 2),
        (1, 1),
        (2, 0),
    ]


async def test_the_roll_waits_for_a_settled_group(autojump_clock: MockClock) -> None:
    """A temporary error or rebalance is no failure."""
    fleet = PaperFleet()
    rebalancing = ObservedGroup(protocol="classic", state="PreparingRebalance", members=())
    roll = Roll(fleet, fleet.books, Description(fleet, "no coordinator", rebalancing))
    await roll.run()
    assert len(roll.steps) == 5


async def test_a_step_that_never_settles_fails_with_the_last_reason(
    autojump_clock: MockClock,
) -> None:
    """The reason names the step and the last problem."""
    fleet = PaperFleet()

    async def describe() -> ObservedGroup | str:
        await trio.lowlevel.checkpoint()
        return "no coordinator"

    roll = Roll(fleet, fleet.books, describe)
    began = trio.current_time()
    reason = "all start as classic: not settled within 60 s: no coordinator"
    with pytest.raises(DemoError, match=reason):
        await roll.run()
    assert trio.current_time() - began == pytest.approx(SETTLE_LIMIT_S)
    assert roll.steps == []
