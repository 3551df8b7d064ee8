"""How a client process learns that it is to end."""

import os
import signal

import pytest

from gateway.demo.clients import StopRequest


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> int:
    """Replace stdin by a pipe and return its other end."""
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(reading))
    return writing


@pytest.fixture(autouse=True)
def _signals_restored() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGTERM, before)


def test_it_goes_on_until_stdin_ends(stdin: int) -> None:
    """What is written there means nothing; its end does, and then an alarm runs."""
    stop = StopRequest()
    assert not stop
    os.write(stdin, b"chatter")
    assert not stop
    os.close(stdin)
    assert stop
    assert stop
    assert 0 < signal.alarm(0) <= StopRequest.CLOSE_LIMIT_S


def test_sigterm_asks_as_well(stdin: int) -> None:
    """So that a consumer can be stopped by hand."""
    stop = StopRequest()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop
    os.close(stdin)
