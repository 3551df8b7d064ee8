"""A line, and what is none."""

import pytest
import trio.testing

from gateway.control.lines import UnreadableLine, receive_line


async def test_a_line_may_arrive_in_pieces() -> None:
    """What follows it is ignored."""
    sender, receiver = trio.testing.memory_stream_pair()
    for piece in (b"o", b"ne", b"\ntwo"):
        await sender.send_all(piece)
    assert await receive_line(receiver, 3) == b"one"


async def test_a_stream_that_ends_has_no_line() -> None:
    """Its last bytes may be a part of one."""
    sender, receiver = trio.testing.memory_stream_pair()
    await sender.send_all(b"one")
    await sender.send_eof()
    with pytest.raises(UnreadableLine, match="no end"):
        await receive_line(receiver, 3)


@pytest.mark.parametrize("data", [b"four", b"four\n"])
async def test_a_line_has_a_limit(data: bytes) -> None:
    """With or without an end."""
    sender, receiver = trio.testing.memory_stream_pair()
    await sender.send_all(data)
    with pytest.raises(UnreadableLine, match="more than 3 bytes"):
        await receive_line(receiver, 3)
