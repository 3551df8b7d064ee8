"""What SIGHUP does: certificates and some settings take effect, without a restart."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import structlog

from gateway import logs
from gateway.data_path.config import Limits
from gateway.groups.group_limits import GroupLimits
from gateway.hosting.rules import HostingRules
from gateway.open_files import connections_within
from gateway.quotas.shares import ShareRule
from gateway.security import Security, password_of
from gateway.settings import Settings, SettingsError
from gateway.transport.reloading import reload_certificates

log = structlog.get_logger()

RELOADED = frozenset(
    {
        "broker_timeout_ms",
        "drain_timeout_ms",
        "groups_adopt",
        "log_format",
        "log_level",
        "max_connections",
        "max_connections_per_address",
        "max_connections_per_principal",
        "max_groups",
        "max_groups_per_address",
        "max_groups_per_principal",
        "max_names_per_address",
        "max_names_per_principal",
        "permission_lifetime_ms",
        "upstream_sasl_password",
        "upstream_sasl_password_file",
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
        self.settings = settings
        """The settings in force."""
        self._read_again = read_again
        self._security = security
        self.limits = limits
        self._in_force: tuple[HostingRules, GroupLimits] | None = None

    def take_rules(self, rules: HostingRules, limits: GroupLimits) -> None:
        """Take note of the rules and limits on groups that are in force."""
        self._in_force = rules, limits

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
            if getattr(now, name) != getattr(self.settings, name)
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
        settings = self.settings = self.settings.model_copy(update=changed)
        if {"log_format", "log_level"} & changed.keys():
            logs.configure(settings.log_format, settings.log_level, counts_repeats=True)
        limits = limits_of(settings)
        for field in fields(limits):
            setattr(self.limits, field.name, getattr(limits, field.name))
        if self._in_force is not None:
            rules, group_limits = self._in_force
            rules.adoption = settings.groups_adopt
            group_limits.limit(settings.max_groups, share_of_groups(settings))
            rules.names.per_address = settings.max_names_per_address
            rules.names.per_principal = settings.max_names_per_principal
        if (credentials := self._security.own.credentials) is not None:
            password = password_of(settings)
            credentials.password.value, credentials.password.path = password.value, password.path


def share_of_groups(settings: Settings) -> ShareRule:
    """How many groups one owner may have."""
    return ShareRule(
        per_address=settings.max_groups_per_address,
        per_principal=settings.max_groups_per_principal,
    )


def limits_of(settings: Settings) -> Limits:
    """The limits of the data path that are settings."""
    return Limits(
        permission_lifetime_s=settings.permission_lifetime_ms / 1000,
        max_connections=connections_within(settings.max_connections),
        max_connections_per_address=settings.max_connections_per_address,
        max_connections_per_principal=settings.max_connections_per_principal,
        broker_timeout_s=settings.broker_timeout_ms / 1000,
        drain_timeout_s=settings.drain_timeout_ms / 1000,
    )
