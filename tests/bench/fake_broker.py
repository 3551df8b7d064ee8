"""A broker that stores commits, answers Fetch and Produce as `bench_relay` has it, and has no other
work.

python tests/bench/fake_broker.py PORT DELAY_MS

Answers come after the delay, so that a gateway sleeps meanwhile however fast the machine is.
"""

import sys
from functools import partial

import trio

from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader
from tests.bench.bench_relay import FETCHED, PRODUCED_ANSWER
from tests.support.fake_broker import Handler, answer_bytes, running_fake_broker
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import HOST
from tests.support.wire import Wire


async def fetch(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """An answer without an error, followed by as many bytes as the request's version asks for."""
    await answer_bytes(wire, header, bytes(FETCHED[header.api_version] - 9))


async def produce(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """One partition without an error."""
    await answer_bytes(wire, header, encode(PRODUCED_ANSWER, header.api_version))


async def late(
    handler: Handler, delay_s: float, wire: Wire, header: RequestHeader, body: bytes
) -> None:
    """What the handler does, later."""
    await trio.sleep(delay_s)
    await handler(wire, header, body)


async def serve(port: int, delay_s: float) -> None:
    """Serve until killed."""
    broker = OffsetBroker()
    broker.address = (HOST, port)
    broker.versions = {**broker.versions, ApiKey.FETCH: (0, max(FETCHED))}
    handlers = {**broker.handlers, ApiKey.FETCH: fetch, ApiKey.PRODUCE: produce}
    broker.handlers = {key: partial(late, handler, delay_s) for key, handler in handlers.items()}
    async with running_fake_broker(broker):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), int(sys.argv[2]) / 1000)
