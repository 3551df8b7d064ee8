"""Reads one line from a stream, within a limit."""

import trio

_CHUNK_BYTES = 64 * 1024


class UnreadableLine(Exception):
    """The line is too long, or the stream ended first."""


async def receive_line(stream: trio.abc.ReceiveStream, bytes_max: int) -> bytes:
    """The first line, without its end. Raises UnreadableLine, trio.BrokenResourceError."""
    line = bytearray()
    end: bytes | bytearray = b""
    while not end:
        chunk = await stream.receive_some(_CHUNK_BYTES)
        if not chunk:
            raise UnreadableLine("the line has no end")
        start, end, _ = chunk.partition(b"\n")
        line += start
        if len(line) > bytes_max:
            raise UnreadableLine(f"the line has more than {bytes_max} bytes")
    return bytes(line)
