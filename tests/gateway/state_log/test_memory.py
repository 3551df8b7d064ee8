"""The log in memory restores groups while the process lives."""

from coordinator.engine import GroupEngine
from gateway.state_log.memory import MemoryLog
from tests.simulation.replay import durable_state
from tests.support.group_script import GroupScript


async def test_a_group_is_restored_after_every_kind_of_change() -> None:
    """The group is classic, mixed, then a consumer group, and loses members."""
    script, log = GroupScript(), MemoryLog()
    written = 0

    async def check() -> None:
        nonlocal written
        await log.append("orders", script.log[written:])
        written = len(script.log)
        engine = GroupEngine("orders", script.config)
        engine.load(await log.read("orders"), now_ms=script.now_ms)
        expected = durable_state(script.engine.state)
        assert durable_state(engine.state) == expected, script.transcript()

    ids = script.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    await check()
    epoch = script.native("n").member_epoch
    await check()
    script.beat(ids["a"], 1)
    script.join(ids["a"], topics=["foo"])
    await check()
    script.native("n", epoch, owned={})
    await check()
    script.leave(ids["a"])
    await check()
    script.native("n", -1)
    script.wait(5_000)
    await check()
