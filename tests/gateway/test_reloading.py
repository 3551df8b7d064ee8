"""Settings that change while the gateway runs."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway import logs, settings_sources
from gateway.data_path.config import Limits
from gateway.groups.group_limits import GroupLimits, TooManyGroups
from gateway.quotas.shares import ShareRule
from gateway.reloading import RELOADED, Reloading, limits_of
from gateway.security import security_of
from gateway.settings import Settings
from tests.support.hosted_scene import hosting_rules

SASL = {
    "upstream_security_protocol": "sasl_plaintext",
    "upstream_sasl_mechanism": "PLAIN",
    "upstream_sasl_username": "u",
    "upstream_sasl_password": "first secret",
}


class Reloaded:
    """What the sources of the settings say, the limits in force, and the latest line."""

    def __init__(self, folder: Path, **flags: str) -> None:
        self.flags = {"upstream": "k:1", "state_dir": f"{folder}", **flags}
        self.limits: Limits = limits_of(self._read())
        self.security = security_of(self._read())
        self.reloading = Reloading(
            self._read(), self._read, security=self.security, limits=self.limits
        )

    def _read(self) -> Settings:
        return settings_sources.load(self.flags)

    def again(self, **changes: str) -> dict[str, object]:
        """Change the settings, and reload. Returns the line."""
        self.flags |= changes
        with capture_logs() as lines:
            self.reloading.reload()
        (line,) = lines
        return dict(line)


@pytest.fixture
def on(tmp_path: Path) -> Reloaded:
    """Nothing has changed yet."""
    return Reloaded(tmp_path)


def test_a_change_that_counts_at_once_is_named_once(on: Reloaded) -> None:
    """The running data path has the new limits."""
    line = on.again(max_connections="10", max_connections_per_address="5", drain_timeout_ms="7000")
    assert line["changed"] == "drain_timeout_ms, max_connections, max_connections_per_address"
    assert line["needs_restart"] is None
    assert (on.limits.max_connections, on.limits.max_connections_per_address) == (10, 5)
    assert on.limits.drain_timeout_s == 7
    assert on.again()["changed"] is None


def test_a_change_that_needs_a_restart_is_named_until_then(on: Reloaded) -> None:
    """Its value is not shown, and nothing changes."""
    before = limits_of(settings_sources.load(on.flags))
    for _ in range(2):
        line = on.again(group_max_size="7", anchor_linger_ms="9")
        assert line["changed"] is None
        assert line["needs_restart"] == "anchor_linger_ms, group_max_size"
    assert on.limits == before


def test_settings_that_cannot_be_read_change_nothing(on: Reloaded) -> None:
    """The line says why."""
    line = on.again(upstream="k", max_connections="10")
    assert line["event"] == "settings_not_read"
    assert str(line["reason"]).startswith("--upstream: k is not HOST:PORT")
    assert on.limits == limits_of(settings_sources.load({"upstream": "k:1"}))


def test_hosting_takes_new_limits_and_another_way_to_adopt(on: Reloaded) -> None:
    """Groups that are hosted already stay."""
    rules, limits = hosting_rules(), GroupLimits(9)
    on.reloading.take_rules(rules, limits)
    limits.hosted.reserve("a", None)
    line = on.again(groups_adopt="never", max_groups="1", permission_lifetime_ms="7000")
    assert line["changed"] == "groups_adopt, max_groups, permission_lifetime_ms"
    assert rules.adoption == "never"
    assert on.limits.permission_lifetime_s == 7
    with pytest.raises(TooManyGroups, match="limit of 1 hosted"):
        limits.hosted.check(None)
    limits.anchored.check(None)
    on.again(max_groups="2", max_names_per_principal="7")
    limits.hosted.check(None)
    assert rules.names == ShareRule(per_principal=7)


def test_every_reloaded_setting_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is only named in `RELOADED` would be reported as changed, and change nothing."""
    monkeypatch.setattr(logs, "configure", lambda *_args, **_options: None)
    read = set[str]()

    class Watched(Settings):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    on = Reloaded(tmp_path, **SASL)
    on.reloading.settings = Watched(upstream="k:1", **SASL)  # type: ignore[arg-type]
    on.reloading.take_rules(hosting_rules(), GroupLimits(9))
    read.clear()
    on.reloading._take({"log_level": "info"})
    assert RELOADED - read == set()


def test_new_connections_use_a_new_password(tmp_path: Path) -> None:
    """Wherever it is, and the line does not show it."""
    on = Reloaded(tmp_path, **SASL)
    credentials = on.security.own.credentials
    assert credentials is not None
    line = on.again(upstream_sasl_password="second secret")
    assert line["changed"] == "upstream_sasl_password"
    assert "second" not in str(line)
    assert credentials.password.read() == "second secret"
    path = tmp_path / "password"
    path.write_text("third secret\n")
    del on.flags["upstream_sasl_password"]
    line = on.again(upstream_sasl_password_file=f"{path}")
    assert line["changed"] == "upstream_sasl_password, upstream_sasl_password_file"
    assert credentials.password.read() == "third secret"
