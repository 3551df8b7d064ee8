"""A client process learns that it must end."""

import os
import signal
from pathlib import Path

import pytest

from gateway.demo.clients import StopRequest, read_security


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


def test_a_client_runs_until_stdin_ends(stdin: int) -> None:
    """Input is ignored. At its end an alarm starts."""
    stop = StopRequest()
    assert not stop
    os.write(stdin, b"chatter")
    assert not stop
    os.close(stdin)
    assert stop
    assert stop
    assert 0 < signal.alarm(0) <= StopRequest.CLOSE_LIMIT_S


def test_sigterm_ends_a_client(stdin: int) -> None:
    """This stops a consumer by hand."""
    stop = StopRequest()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop
    os.close(stdin)


def test_a_security_file_has_one_setting_a_line(tmp_path: Path) -> None:
    """A password may have any characters but line breaks."""
    file = tmp_path / "security"
    file.write_text("sasl.username=me\nsasl.password=a=b\u2028 \n")
    assert read_security(file) == {"sasl.username": "me", "sasl.password": "a=b\u2028 "}
    assert read_security(None) == {}
