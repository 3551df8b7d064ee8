"""What an operator lets the migration of a group do (DEV D74): kept beside the group's configs,
where no client sees or changes it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.interface.config import GroupConfig, RollPolicy

NATIVE_MEMBERS_MAX = "groupferry.native.members.max"
PAUSED = "groupferry.paused"
NAMES: Collection[str] = (NATIVE_MEMBERS_MAX, PAUSED)
"""The overrides that are the policy."""
NO_LIMIT = -1
ROLLED_SINCE = "groupferry.rolled.since.minutes"
"""When an operator announced a roll, in minutes since 1970."""
MINUTE_MS = 60_000
HIDDEN_NAMES: Collection[str] = (*NAMES, ROLLED_SINCE)
"""The overrides that no client sees or changes."""


def in_force(config: GroupConfig, overrides: Mapping[str, int]) -> GroupConfig:
    """The configs with the policy, if an operator has set one."""
    since = overrides.get(ROLLED_SINCE)
    if since is not None:
        config = replace(config, rolled_since_ms=since * MINUTE_MS)
    limit = overrides.get(NATIVE_MEMBERS_MAX)
    if limit is None:
        return config
    return replace(
        config,
        native_members_max=None if limit == NO_LIMIT else limit,
        is_paused=PAUSED in overrides,
    )


def overrides_for(policy: RollPolicy, native: int, configured: GroupConfig) -> Mapping[str, int]:
    """The overrides that set a policy from now on, in a group with this many native members."""
    match policy:
        case RollPolicy.HOLD:
            return {NATIVE_MEMBERS_MAX: native}
        case RollPolicy.PAUSE:
            return {NATIVE_MEMBERS_MAX: native, PAUSED: 1}
        case RollPolicy.ALLOW if configured.policy is not RollPolicy.ALLOW:
            return {NATIVE_MEMBERS_MAX: NO_LIMIT}
        case RollPolicy.ALLOW | RollPolicy.AS_CONFIGURED:
            return {}
