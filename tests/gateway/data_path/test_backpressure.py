"""The time that relayed bytes wait for their receivers."""

import trio
from trio.testing import MockClock

from gateway.data_path.backpressure import BackpressureTimes


async def test_a_wait_counts_while_it_lasts(autojump_clock: MockClock) -> None:
    """A receiver that takes nothing for an hour is visible immediately. Waits of several
    connections add up."""
    pressure = BackpressureTimes()
    with pressure.waits("client"):
        await trio.sleep(2)
        with pressure.waits("client"), pressure.waits("broker"):
            await trio.sleep(1)
        assert pressure.totals_s() == {"client": 4.0, "broker": 1.0}
    await trio.sleep(5)
    assert pressure.totals_s() == {"client": 4.0, "broker": 1.0}


async def test_a_cancelled_wait_counts(autojump_clock: MockClock) -> None:
    """A wait is cancelled when the connection ends, for example."""
    pressure = BackpressureTimes()
    with trio.move_on_after(3), pressure.waits("broker"):
        await trio.sleep_forever()
    assert pressure.totals_s() == {"client": 0.0, "broker": 3.0}
