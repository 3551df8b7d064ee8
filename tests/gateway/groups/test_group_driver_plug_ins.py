"""A plug-in that computes a group's target does not delay others."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from structlog.testing import capture_logs

from coordinator.assignors import ASSIGNORS, spec_of
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import AssignmentReceived
from coordinator.interface.volatile_records import Computation
from gateway.plug_ins.runner import PlugIns
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import hosted_groups
from tests.support.until import until_logged

PLUG_IN = GroupConfig(consumer_assignors=("plug-in",), consumer_assignment_interval_ms=0)

Compute = Callable[[PlugIns, Computation], Awaitable[AssignmentReceived]]


async def good(_: PlugIns, computation: Computation) -> AssignmentReceived:
    """The answer of a plug-in that works."""
    target = ASSIGNORS["uniform"](spec_of(computation))
    return AssignmentReceived(epoch=computation.epoch, target=target)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compute], None]:
    """Replaces what plug-ins answer."""
    return lambda compute: monkeypatch.setattr(PlugIns, "compute", compute)


async def test_a_plug_in_assigns_a_group(answer: Callable[[Compute], None]) -> None:
    """The member gets its partitions with a later heartbeat."""
    answer(good)
    async with hosted_groups(config=PLUG_IN) as groups:
        assert (await groups.native("n")).assignment == frozenset()
        assert (await groups.wait_for_event("target_computed"))["assignor"] == "plug-in"
        assert len((await groups.native("n", 1)).assignment or ()) == 3


async def test_a_plug_in_that_hangs_delays_only_its_group(
    answer: Callable[[Compute], None],
) -> None:
    """Members of the group get answers, and other groups get targets. A late result counts."""
    may_end, hanging = trio.Event(), list[int]()

    async def hangs(plug_ins: PlugIns, computation: Computation) -> AssignmentReceived:
        hanging.append(computation.epoch)
        if len(hanging) == 1:
            await may_end.wait()
        return await good(plug_ins, computation)

    answer(hangs)
    async with hosted_groups(config=PLUG_IN) as groups:
        await groups.native("n")
        await groups.native("n", group="other")
        await groups.wait_for_event("target_computed")
        assert (await groups.native("n", 1, group="other")).assignment
        assert (await groups.native("n", 1)).member_epoch == 1
        may_end.set()
        while (await groups.native("n", 1)).member_epoch == 1:
            await trio.lowlevel.checkpoint()
    assert len(hanging) == 2


async def test_a_failure_is_an_event(answer: Callable[[Compute], None]) -> None:
    """Clients see nothing of it."""

    async def fails(_: PlugIns, computation: Computation) -> AssignmentReceived:
        return AssignmentReceived(epoch=computation.epoch, failure="no answer within 10 s")

    answer(fails)
    async with hosted_groups(config=PLUG_IN) as groups:
        await groups.native("n")
        assert await groups.wait_for_event("assignment_rejected") == {
            "group_epoch": 2,
            "assignor": "plug-in",
            "reason": "no answer within 10 s",
        }
        assert (await groups.native("n", 1)).error == 0


async def test_a_group_that_ends_does_not_wait(answer: Callable[[Compute], None]) -> None:
    """The result would be for members that have left."""

    async def never(*_: object) -> AssignmentReceived:
        await trio.sleep_forever()
        raise AssertionError

    answer(never)
    async with hosted_groups(config=PLUG_IN) as groups:
        await groups.native("n")
        await groups.native("n", -1)
        while groups.running:
            await trio.lowlevel.checkpoint()


async def test_a_reload_forgets_the_computation(
    answer: Callable[[Compute], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loaded group begins another one."""
    answer(good)
    async with hosted_groups(config=PLUG_IN) as groups:
        with monkeypatch.context() as broken:
            break_engine(broken, AssignmentReceived, InvariantError("any"))
            with capture_logs() as lines:
                await groups.native("n")
                await until_logged(lines, "group_failed")
        await groups.native("n", 1)
        await groups.wait_for_event("target_computed")
