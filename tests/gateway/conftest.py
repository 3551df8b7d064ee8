"""Denied permissions, even where the tests run as root."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
