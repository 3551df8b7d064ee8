"""Denied permissions, even where the tests run as root; an environment without settings."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.settings import Settings

NOBODY = 65534


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that this process cannot write to during the test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        before = os.geteuid()
        if before == 0:
            os.seteuid(NOBODY)  # root may write everywhere
        try:
            yield folder
        finally:
            os.seteuid(before)
            folder.chmod(0o755)


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings in the environment, and a home of the test's own."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"GROUPFERRY_{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
