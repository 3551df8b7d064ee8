"""A healthy mixed group during the attack: its members must notice nothing."""

import math
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from tests.support.group_client import GroupClient, given_to
from tests.support.serve_process import ServeProcess

GROUP = "neighbours"
INTERVAL_S = 0.5
SESSION_TIMEOUT_MS = 45_000
"""Longer than the machine may leave the neighbours without processor time."""
STARVED_S, STARVED_ROUNDS_MAX = 3.0, 10
"""A round in which the gateway, or the broker in this process, has waited so long for a processor
shows nothing: the anchor cannot be sure of the group then, and commits are tried again
(`gateway.groups.pauses`). So many in a row are too many."""
PARTITIONS = {0, 1, 2}
_SETTLE_LIMIT_S = 30


async def live(
    gateway: ServeProcess,
    access: Access,
    disturbed: Callable[[str], None],
    task_status: trio.TaskStatus[Callable[[], int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """A native member and a classic member send heartbeats, commits and fetches of offsets until
    cancelled, or until the first answer that a healthy group never gets. `disturbed` is told about
    it, and whether the gateway ran meanwhile or waited for a busy machine. Reports how many rounds
    they have finished. Raises AssertionError and UpstreamError if the group cannot begin."""
    async with AsyncExitStack() as stack:

        async def connect() -> GroupClient:
            connection = await BrokerConnection.open(*gateway.address, access=access)
            return GroupClient(await stack.enter_async_context(connection), GROUP)

        native, classic = await connect(), await connect()
        topic_id = await native.topic_id()
        joined = await classic.enter(session_timeout_ms=SESSION_TIMEOUT_MS)
        first = await native.native("neighbour", version=1)
        assert first.error_code == 0, first
        with trio.fail_after(_SETTLE_LIMIT_S):
            joined, epoch, owned = await _settle(classic, native, joined, first, topic_id)
        finished = starved = 0
        task_status.started(lambda: finished)
        while True:
            before_s = _processor_times_s(gateway.pid), _processor_times_s(os.getpid())
            try:
                await _play_round(classic, native, joined, epoch, min(owned), offset=finished)
                finished, starved = finished + 1, 0
            except (AssertionError, UpstreamError) as error:
                now_s = _processor_times_s(gateway.pid), _processor_times_s(os.getpid())
                (ran_s, waited_s), (_, broker_waited_s) = (
                    [now - then for now, then in zip(*times, strict=True)]
                    for times in zip(now_s, before_s, strict=True)
                )
                starved += 1
                if math.isnan(ran_s):
                    disturbed(f"round {finished} of the neighbours: the gateway has ended")
                    return
                if max(waited_s, broker_waited_s) < STARVED_S or starved > STARVED_ROUNDS_MAX:
                    disturbed(
                        f"round {finished} of the neighbours: {error!r}, while the gateway ran for"
                        f" {ran_s:.1f} s and waited {waited_s:.1f} s for a processor, and the"
                        f" broker {broker_waited_s:.1f} s"
                    )
                    return
            await trio.sleep(INTERVAL_S)


async def _play_round(
    classic: GroupClient,
    native: GroupClient,
    joined: Any,
    epoch: int,
    partition: int,
    *,
    offset: int,
) -> None:
    beaten = await classic.beat(joined)
    assert beaten.error_code == 0, beaten
    answer = await native.native("neighbour", epoch, version=1)
    assert (answer.error_code, answer.member_epoch) == (0, epoch), answer
    codes = await native.commit({partition: offset}, member_id="neighbour", epoch=epoch)
    assert codes == {partition: 0}, codes
    assert (await native.fetch_offsets())[partition] == offset


def _processor_times_s(pid: int) -> tuple[float, float]:
    """How long it has run, and how long it has waited to run; not numbers if it has ended."""
    try:
        ran_ns, waited_ns, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    except FileNotFoundError:
        return math.nan, math.nan
    return ran_ns / 1e9, waited_ns / 1e9


async def _settle(
    classic: GroupClient, native: GroupClient, joined: Any, answer: Any, topic_id: Any
) -> tuple[Any, int, set[int]]:
    """Both members have their parts of the topic, at one epoch."""
    owned: set[int] = set()
    while True:
        beaten = await classic.beat(joined)
        if beaten.error_code:
            joined = await classic.join(joined.member_id, session_timeout_ms=SESSION_TIMEOUT_MS)
            assert joined.error_code == 0, joined
            assert (await classic.sync(joined)).error_code == 0
        answer = await native.native(
            "neighbour", answer.member_epoch, owned={topic_id: owned}, version=1
        )
        if answer.assignment is not None:
            owned = given_to(answer)
        is_split = 0 < len(owned) < len(PARTITIONS)
        if is_split and not beaten.error_code and answer.member_epoch == joined.generation_id:
            return joined, answer.member_epoch, owned
        await trio.sleep(INTERVAL_S / 5)
