"""Settings that change while the gateway runs."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway import settings
from gateway.data_path.config import Limits
from gateway.reloading import Reloading, limits_of
from gateway.security import Security
from gateway.settings import Settings


class Reloaded:
    """What the sources of the settings say, the limits in force, and the latest line."""

    def __init__(self, folder: Path) -> None:
        self.flags = {"upstream": "k:1", "state_dir": f"{folder}"}
        self.limits: Limits = limits_of(self._read())
        self._reloading = Reloading(
            self._read(), self._read, security=Security(), limits=self.limits
        )

    def _read(self) -> Settings:
        return settings.load(self.flags)

    def again(self, **changes: str) -> dict[str, object]:
        """Change the settings, and reload. Returns the line."""
        self.flags |= changes
        with capture_logs() as lines:
            self._reloading.reload()
        (line,) = lines
        return dict(line)


@pytest.fixture
def on(tmp_path: Path) -> Reloaded:
    """Nothing has changed yet."""
    return Reloaded(tmp_path)


def test_a_change_that_counts_at_once_is_named_once(on: Reloaded) -> None:
    """The running data path has the new limits."""
    line = on.again(max_connections="10", drain_timeout_ms="7000")
    assert line["changed"] == "drain_timeout_ms, max_connections"
    assert line["needs_restart"] is None
    assert (on.limits.max_connections, on.limits.max_connections_per_address) == (10, 5)
    assert on.limits.drain_timeout_s == 7
    assert on.again()["changed"] is None


def test_a_change_that_needs_a_restart_is_named_until_then(on: Reloaded) -> None:
    """Its value is not shown, and nothing changes."""
    before = limits_of(settings.load(on.flags))
    for _ in range(2):
        line = on.again(max_groups="7", broker_timeout_ms="9")
        assert line["changed"] is None
        assert line["needs_restart"] == "broker_timeout_ms, max_groups"
    assert on.limits == before


def test_settings_that_cannot_be_read_change_nothing(on: Reloaded) -> None:
    """The line says why."""
    line = on.again(upstream="k", max_connections="10")
    assert line["event"] == "settings_not_read"
    assert str(line["reason"]).startswith("--upstream: k is not HOST:PORT")
    assert on.limits == limits_of(settings.load({"upstream": "k:1"}))
