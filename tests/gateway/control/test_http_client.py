"""One request and its answer."""

import h11
import pytest
import trio
import trio.testing

from gateway.control import http_client
from gateway.control.http_client import NoAnswer, NotHttp, send_request


async def ask(*pieces: bytes, body: bytes = b"") -> tuple[bytes, tuple[int, bytes]]:
    """What was sent, and what the client makes of these pieces and the end of the stream."""
    own, other = trio.testing.memory_stream_pair()
    outcome = (0, b"")
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            for piece in pieces:
                await other.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
            await other.send_eof()

        nursery.start_soon(answer)
        outcome = await send_request(own, "POST", "/api/x?y=%0A", body, {"X": "1"})
    return bytes(await other.receive_some()), outcome


async def test_a_request_has_the_fields_that_the_admin_api_needs() -> None:
    """Its host is this machine, and its connection serves no other."""
    sent, _ = await ask(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", body=b"{}")
    server = h11.Connection(h11.SERVER)
    server.receive_data(sent)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (b"POST", b"/api/x?y=%0A")
    fields = dict(request.headers)
    assert (fields[b"host"], fields[b"connection"], fields[b"x"]) == (b"localhost", b"close", b"1")
    assert bytes(server.next_event().data) == b"{}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "head", [b"Content-Length: 6\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n6\r\n"]
)
async def test_an_answer_may_come_in_pieces(head: bytes) -> None:
    """Its length comes before it, or before each chunk."""
    end = b"\r\n0\r\n\r\n" if b"chunked" in head else b""
    _, answer = await ask(b"HTTP/1.1 40", b"9 Conflict\r\n" + head + b"abc", b"def" + end)
    assert answer == (409, b"abcdef")


@pytest.mark.parametrize(
    "cut",
    [b"", b"HTTP/1.", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"],
)
async def test_a_stream_that_ends_early_is_no_answer(cut: bytes) -> None:
    """Wherever it ends."""
    with pytest.RaisesGroup(NoAnswer):
        await ask(cut)


@pytest.mark.parametrize("line", [b"{}\n", b"{}", b"SSH-2.0-x\r\n\r\n"])
async def test_another_protocol_is_told_apart(line: bytes) -> None:
    """Older gateways speak lines of JSON."""
    with pytest.RaisesGroup(NotHttp):
        await ask(line)


async def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is not believed."""
    monkeypatch.setattr(http_client, "ANSWER_BYTES_MAX", 3)
    with pytest.RaisesGroup(NotHttp):
        await ask(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd")
