"""Other protocols are recognised."""

import pytest
from structlog.testing import capture_logs

from gateway.data_path.not_kafka import what_instead
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import FakeBroker, running_fake_broker
from tests.support.wire import open_wire

TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (TLS_HELLO[:4], "a TLS handshake"),
        (b"GET ", "an HTTP request"),
        (b"POST", "an HTTP request"),
        (b"SSH-", "an SSH banner"),
    ],
)
def test_other_protocols_are_recognised_by_their_first_bytes(start: bytes, what: str) -> None:
    """Read as a frame size, the bytes would mean nothing."""
    protocol = what_instead(start)
    assert protocol is not None
    assert protocol.startswith(f"{what}: this port speaks ")


def test_a_valid_size_is_no_other_protocol() -> None:
    """This includes a size beyond the limit."""
    for size in (0, 14, 100 << 20, 2**31 - 1, -1):
        assert what_instead(size.to_bytes(4, "big", signed=True)) is None


async def test_a_client_with_tls_is_logged() -> None:
    """The line says what it has sent."""
    broker = FakeBroker()
    async with running_fake_broker(broker), running_gateway([broker.address]) as gateway:
        with capture_logs() as lines:
            async with open_wire(gateway.address) as client:
                await client.send(TLS_HELLO)
                assert await client.at_end()
        (line,) = [line for line in lines if line["event"] == "bad_frame_received"]
        assert line["reason"].startswith("a TLS handshake: ")
        assert line["client_host"] == "127.0.0.1"
