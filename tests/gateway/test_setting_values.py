"""Sections, types and ranges of the settings."""

import pytest

from gateway.setting_values import range_of, sections, type_of
from gateway.settings import Settings


def test_every_setting_is_in_one_section() -> None:
    """The sections follow the order of the settings."""
    listed = ["config", *(name for _title, names in sections() for name in names)]
    assert listed == list(Settings.model_fields)
    assert all(names for _title, names in sections())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("upstream", "HOST:PORT[,...]"),
        ("listen", "HOST:PORT"),
        ("admin_listen", "HOST:PORT"),
        ("tls_cert", "PATH"),
        ("state", "memory|sqlite|kafka"),
        ("hold_on_regression", "true|false"),
        ("groups_host", "NAME[,...]"),
        ("max_groups", "NUMBER"),
        ("advertise", "TEXT"),
    ],
)
def test_a_setting_has_its_type(name: str, expected: str) -> None:
    assert type_of(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("drain_timeout_ms", "at least 1 ms"),
        ("regression_share_percent", "1 to 1,000 %"),
        ("client_side_api_key", "1,000 to 32,766"),
        ("processes", "1 to 16"),
        ("listen", ""),
    ],
)
def test_a_number_has_its_range_and_unit(name: str, expected: str) -> None:
    assert range_of(name) == expected


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name != "config"])
def test_every_setting_has_a_type(name: str) -> None:
    assert type_of(name)
