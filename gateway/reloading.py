"""What SIGHUP does: certificates and some settings take effect, without a restart."""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from gateway import logs
from gateway.data_path.config import Limits
from gateway.open_files import connections_within
from gateway.security import Security
from gateway.settings import Settings, SettingsError
from gateway.transport.reloading import reload_certificates

log = structlog.get_logger()

RELOADED = frozenset(
    {
        "drain_timeout_ms",
        "log_level",
        "max_connections",
        "max_connections_per_address",
        "max_connections_per_principal",
    }
)
"""The settings that may change while the gateway runs."""


class Reloading:
    """The settings in force, and how to read them again."""

    def __init__(
        self,
        settings: Settings,
        read_again: Callable[[], Settings],
        *,
        security: Security,
        limits: Limits,
    ) -> None:
        """`limits` are those of the running data path."""
        self._settings = settings
        self._read_again = read_again
        self._security = security
        self._limits = limits

    def reload(self) -> None:
        """Load changed certificates and settings. Logs which settings count from now on, and which
        need a restart."""
        reload_certificates(self._security.certificates)
        try:
            now = self._read_again()
        except SettingsError as error:
            for line in error.lines:
                log.error("settings_not_read", reason=line)  # noqa: TRY400  # not a bug
            return
        changed = {
            name
            for name in Settings.model_fields
            if getattr(now, name) != getattr(self._settings, name)
        }
        taken = {name: getattr(now, name) for name in changed & RELOADED}
        if taken:
            self._take(taken)
        log.info(
            "reloaded",
            changed=", ".join(sorted(taken)) or None,
            needs_restart=", ".join(sorted(changed - RELOADED)) or None,
        )

    def _take(self, changed: Mapping[str, Any]) -> None:
        settings = self._settings = self._settings.model_copy(update=changed)
        if "log_level" in changed:
            logs.configure(settings.log_format, settings.log_level)
        limits = limits_of(settings)
        self._limits.max_connections = limits.max_connections
        self._limits.max_connections_per_address = limits.max_connections_per_address
        self._limits.max_connections_per_principal = limits.max_connections_per_principal
        self._limits.drain_timeout_s = limits.drain_timeout_s


def limits_of(settings: Settings) -> Limits:
    """The limits of the data path that are settings."""
    max_connections = connections_within(settings.max_connections)
    return Limits(
        permission_lifetime_s=settings.permission_lifetime_ms / 1000,
        max_connections=max_connections,
        max_connections_per_address=settings.max_connections_per_address
        or max(1, max_connections // 2),
        max_connections_per_principal=settings.max_connections_per_principal
        or max(1, max_connections // 2),
        broker_timeout_s=settings.broker_timeout_ms / 1000,
        drain_timeout_s=settings.drain_timeout_ms / 1000,
    )
