"""A bare Trio server: what a Kafka server in Python costs before it does anything.

    python tests/bench/echo.py PORT ANSWER_BYTES

It answers each request frame with zeros under the request's correlation id.
"""

import struct
import sys
from contextlib import suppress
from functools import partial

import trio

_SIZE = struct.Struct(">i")
_RECEIVED_AT_ONCE = 64 * 1024


async def serve(stream: trio.SocketStream, *, answer_bytes: int) -> None:
    """Answer one connection until its client leaves."""
    with suppress(trio.BrokenResourceError):
        await answer_all(stream, answer_bytes=answer_bytes)


async def answer_all(stream: trio.SocketStream, *, answer_bytes: int) -> None:
    """Answer all requests of a connection."""
    start, rest = _SIZE.pack(answer_bytes - 4), bytes(answer_bytes - 8)
    received = bytearray()
    while chunk := await stream.receive_some(_RECEIVED_AT_ONCE):
        received += chunk
        while len(received) >= 4 and len(received) >= (end := 4 + _SIZE.unpack_from(received)[0]):
            correlation_id = received[8:12]
            del received[:end]
            await stream.send_all(b"".join((start, correlation_id, rest)))


if __name__ == "__main__":
    handler = partial(serve, answer_bytes=int(sys.argv[2]))
    trio.run(partial(trio.serve_tcp, host="127.0.0.1"), handler, int(sys.argv[1]))
