"""Refused settings."""

from collections.abc import Mapping

import pytest

from gateway.settings import SettingsError
from gateway.settings_sources import load


def refusal(flags: Mapping[str, str]) -> list[str]:
    """The lines that refuse these flags."""
    with pytest.raises(SettingsError) as caught:
        load(flags)
    return caught.value.lines
