"""A broker that stores commits, and has no other work.

python tests/bench/fake_broker.py PORT
"""

import sys

import trio

from tests.support.fake_broker import running_fake_broker
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import HOST


async def serve(port: int) -> None:
    """Serve until killed."""
    broker = OffsetBroker()
    broker.address = (HOST, port)
    async with running_fake_broker(broker):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]))
