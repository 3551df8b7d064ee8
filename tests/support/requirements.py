"""What some tests need and not every machine has: skipped here, failed in CI.

A test that nobody ever runs proves nothing, so CI has to have it all.
"""

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test for want of something; fail it if the variable CI is `true`."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI has to have it: {what}", pytrace=False)
    pytest.skip(what)
