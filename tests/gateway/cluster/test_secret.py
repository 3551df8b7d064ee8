"""Secrets are read when they are needed, and shown nowhere."""

from pathlib import Path

import pytest

from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.secret import Secret


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    """A new password counts from the next connection on; its last newline is not part of it."""
    path = tmp_path / "password"
    secret = Secret(path=path)
    with pytest.raises(UpstreamRefused, match=f"cannot read {path}"):
        secret.read()
    for password in ("first", "second"):
        path.write_text(f"{password}\n")
        assert secret.read() == password
    path.write_text("\n")
    with pytest.raises(UpstreamRefused, match=f"{path} is empty"):
        secret.read()
    path.write_bytes(b"\xff")
    with pytest.raises(UpstreamRefused, match="is not UTF-8"):
        secret.read()


def test_a_secret_appears_in_no_representation() -> None:
    """A representation may end up in a traceback."""
    assert "pencil" not in repr(Secret("pencil"))
