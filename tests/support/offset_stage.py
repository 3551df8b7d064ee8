"""A gateway in front of an `OffsetBroker`, and a client of the group g."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, group_client
from tests.support.offset_broker import OffsetBroker

LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class OffsetStage:
    """The three, for tests that use them together."""

    broker: OffsetBroker
    gateway: Gateway
    client: GroupClient

    @asynccontextmanager
    async def another_client(self) -> AsyncIterator[GroupClient]:
        """Another client of the group, for the length of the block."""
        async with group_client(self.gateway.address, "g") as client:
            yield client


@asynccontextmanager
async def offset_stage(
    broker: OffsetBroker | None = None, **how: Any
) -> AsyncIterator[OffsetStage]:
    """A stage for the length of the block. `how` is for `whole_gateway`. With the broker and the
    state log of an earlier stage, the gateway has restarted."""
    broker = broker or OffsetBroker()
    with trio.fail_after(LIMIT_S):
        async with (
            running_fake_broker(broker),
            whole_gateway([broker.address], **how) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            yield OffsetStage(broker, gateway, client)
