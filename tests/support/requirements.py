"""Skips tests whose requirements the machine lacks; in CI they fail.

CI must have every requirement, because a test that never runs proves nothing. Tests that need an
extra have an environment of their own there: see `.ci/run`.
"""

import os
from typing import NoReturn

import pytest
from _pytest.outcomes import Skipped

LEFT_OUT = "EXTRAS_LEFT_OUT"
"""The variable with the extra whose tests CI leaves to another run."""


def missing(what: str, *, extra: str = "") -> NoReturn:
    """Skip the test because a requirement is missing, which is a part of an extra if one is named.
    Fail it if the variable CI is `true`, unless another run has the tests of that extra."""
    is_ci = os.environ.get("CI", "").lower() == "true"
    if is_ci and not (extra and os.environ.get(LEFT_OUT) == extra):
        pytest.fail(f"missing in CI: {what}", pytrace=False)
    pytest.skip(what)


def restore_reason(skipped: Skipped) -> None:
    """Give a skip that was raised within nurseries its reason, which pytest-trio drops."""
    cause = skipped.__context__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, Skipped):
        skipped.msg = cause.msg
