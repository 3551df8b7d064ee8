"""One request to the admin API on a stream of its own."""

from collections.abc import Mapping

import h11
import trio

from gateway.control.messages import ANSWER_BYTES_MAX

CHUNK_BYTES = 64 * 1024
HEADERS = (
    # The stream leads to this machine, by whatever path.
    ("Host", "localhost"),
    ("Connection", "close"),
)


class NoAnswer(Exception):
    """The stream ended before the answer did."""


class NotHttp(Exception):
    """The other end speaks something else, or says more than an answer has."""


async def send_request(
    stream: trio.abc.Stream,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of the answer. Raises NoAnswer, NotHttp."""
    connection = h11.Connection(h11.CLIENT)
    fields = [*HEADERS, *(headers or {}).items(), ("Content-Length", str(len(body)))]
    request = h11.Request(method=method, target=target, headers=fields)
    try:
        sent = (connection.send(event) for event in (request, h11.Data(body), h11.EndOfMessage()))
        await stream.send_all(b"".join(filter(None, sent)))
        return await _receive_answer(stream, connection)
    except trio.BrokenResourceError:
        raise NoAnswer from None
    except h11.RemoteProtocolError as error:
        rest, has_ended = connection.trailing_data
        if has_ended and (not rest or rest.startswith(b"HTTP/")):
            raise NoAnswer from None
        raise NotHttp(str(error)) from None


async def _receive_answer(
    stream: trio.abc.ReceiveStream, connection: h11.Connection
) -> tuple[int, bytes]:
    """Raises NoAnswer, NotHttp, trio.BrokenResourceError, h11.RemoteProtocolError."""
    status, body = 0, bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(CHUNK_BYTES)))
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
                if len(body) > ANSWER_BYTES_MAX:
                    raise NotHttp(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
            case h11.EndOfMessage():
                return status, bytes(body)
            case _:
                raise NoAnswer
