"""Sessions of clients that stay for a moment, in many groups.

They join with either protocol or both, commit, and leave or crash; name groups that nobody knows;
send what is refused; or close their connection before the answer.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from gateway.cluster.errors import UpstreamError
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.group_client import GroupClient, group_client
from tests.support.unknown_groups import REQUESTS

RETURNS, RECENT_GROUPS = 0.3, 40
"""The part of the sessions that meet one of the last groups again."""
COMMITS = 0.5
CRASHES = 0.4
SESSION_MS = 6_000
SESSION_LIMIT_S = 30.0
TOGETHER_MAX = 300
ABANDONED_NAMES, ANSWERED_AFTER_S = 50, 0.005
"""An answer about so many names, and that of a round of joins, takes longer."""


class ShortSessions:
    """Begins sessions at a steady rate."""

    def __init__(self, address: tuple[str, int], dice: random.Random) -> None:
        self._address = address
        self._dice = dice
        self.groups: list[str] = []
        self.ends: Counter[str] = Counter()
        """How many sessions of each kind ended in which way."""
        self._together = 0

    async def play(self, minutes: float, per_second: float) -> None:
        """Begin sessions for this long, and wait for the last."""
        kinds = (_classic, _classic, _native, _native, _mixed, _unknown, _refused, _abandoned)
        begun_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(int(minutes * 60 * per_second)):
                await trio.sleep_until(begun_s + number / per_second)
                if self._together < TOGETHER_MAX:
                    nursery.start_soon(self._run, self._dice.choice(kinds))
                else:
                    self.ends["left out"] += 1

    async def _run(self, kind: Callable[[GroupClient, random.Random], Awaitable[None]]) -> None:
        name, end = kind.__name__[1:], "timed out"
        self._together += 1
        try:
            with trio.move_on_after(SESSION_LIMIT_S):
                async with group_client(self._address, self._choose_group()) as client:
                    await kind(client, self._dice)
                end = "finished"
        except (AssertionError, UpstreamError, trio.TooSlowError) as error:
            end = f"failed with {type(error).__name__}"
        self._together -= 1
        self.ends[f"{name} {end}"] += 1

    def _choose_group(self) -> str:
        if self.groups and self._dice.random() < RETURNS:
            return self._dice.choice(self.groups[-RECENT_GROUPS:])
        self.groups.append(f"churn-{len(self.groups)}")
        return self.groups[-1]


async def _classic(client: GroupClient, dice: random.Random) -> None:
    joined = await client.enter(session_timeout_ms=SESSION_MS)
    await client.beat(joined)
    if dice.random() < COMMITS:
        await client.commit({0: 1}, member_id=joined.member_id, epoch=joined.generation_id)
    if dice.random() >= CRASHES:
        await client.leave(joined.member_id)


async def _native(client: GroupClient, dice: random.Random) -> None:
    member_id = f"native-{dice.getrandbits(64):x}"
    joined = await client.native(member_id)
    assert joined.error_code == ErrorCode.NONE, joined
    await client.native(member_id, joined.member_epoch)
    if dice.random() < COMMITS:
        await client.commit({0: 1}, member_id=member_id, epoch=joined.member_epoch)
    if dice.random() >= CRASHES:
        await client.native(member_id, -1)


async def _mixed(client: GroupClient, dice: random.Random) -> None:
    """A roll of one consumer."""
    await _classic(client, dice)
    await _native(client, dice)


async def _unknown(client: GroupClient, dice: random.Random) -> None:
    for make in REQUESTS.values():
        await client.connection.ask(make(f"unknown-{dice.getrandbits(32):x}"))


async def _refused(client: GroupClient, _dice: random.Random) -> None:
    await client.join(metadata=b"\0")
    await client.native("stranger", 7)
    await client.commit({0: 1}, member_id="stranger", epoch=7)
    await client.leave("stranger")


async def _abandoned(client: GroupClient, dice: random.Random) -> None:
    """Requests whose connection ends before their answers."""
    names = (f"abandoned-{dice.getrandbits(32):x}" for _ in range(ABANDONED_NAMES))
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in names)
    joined = await client.join(session_timeout_ms=SESSION_MS)
    fetch = partial(client.connection.ask, OffsetFetchRequest(groups=groups))
    with trio.move_on_after(ANSWERED_AFTER_S):
        await dice.choice((fetch, partial(client.join, joined.member_id)))()
