"""How far consumers of a group may switch to the new protocol, and back: what an operator lets the
migration do (DEV D74, D75), and how long a group rests that was converted back and forth (DEV D76).

The operator's choice is kept with the group's configs, where no client sees or changes it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import StrEnum

from coordinator.interface.errors import GroupError
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Conversions
from kafka_codecs.error_codes import ErrorCode

NATIVE_MEMBERS_MAX = "groupferry.native.members.max"
PAUSED = "groupferry.paused"
NAMES: Collection[str] = (NATIVE_MEMBERS_MAX, PAUSED)
"""The overrides that are the operator's choice."""
NO_LIMIT = -1
ROLLED_SINCE = "groupferry.rolled.since.minutes"
"""When an operator announced a roll, in minutes since 1970."""
MINUTE_MS = 60_000
HIDDEN_NAMES: Collection[str] = (*NAMES, ROLLED_SINCE)
"""The overrides that no client sees or changes."""

LASTING_MS = 900_000
"""A group that has been a consumer group for this long has not been converted back and forth."""
FIRST_REST_MS = 30_000
"""The rest after the second such conversion; it doubles with each. The first is free, because an
operator may have second thoughts."""
QUICK_MAX = 20
"""Quick conversions that are counted."""


class RollMode(StrEnum):
    """What an operator lets the migration of one group do."""

    ALLOW = "allow"
    """Every consumer may switch."""
    HOLD = "hold"
    """The group gets no more native members than it has."""
    PAUSE = "pause"
    """The group gets no more native members, and its target assignment stays as it is."""
    AS_CONFIGURED = "as configured"
    """What the gateway's settings say of the group."""


@value()
class RollPolicy:
    """The limits of one group's migration."""

    native_members_max: int | None = None
    """The most native members in a group with classic ones, beyond which no consumer switches.
    None: any number."""
    is_paused: bool = False
    """Whether the target assignment stays as it is."""
    rest_max_ms: int = 0
    """The longest time that a group stays classic after conversions back and forth."""

    @property
    def mode(self) -> RollMode:
        """What an operator lets the migration do."""
        if self.is_paused:
            return RollMode.PAUSE
        return RollMode.ALLOW if self.native_members_max is None else RollMode.HOLD

    def overridden(self, overrides: Mapping[str, int]) -> "RollPolicy":
        """The policy in force in a group with these overrides."""
        limit = overrides.get(NATIVE_MEMBERS_MAX)
        if limit is None:
            return self
        native_members_max = None if limit == NO_LIMIT else limit
        return replace(self, native_members_max=native_members_max, is_paused=PAUSED in overrides)

    def overrides_for(self, mode: RollMode, native: int) -> Mapping[str, int]:
        """The overrides of this policy that set a mode from now on, in a group with this many
        native members."""
        match mode:
            case RollMode.HOLD:
                return {NATIVE_MEMBERS_MAX: native}
            case RollMode.PAUSE:
                return {NATIVE_MEMBERS_MAX: native, PAUSED: 1}
            case RollMode.ALLOW if self.mode is not RollMode.ALLOW:
                return {NATIVE_MEMBERS_MAX: NO_LIMIT}
            case RollMode.ALLOW | RollMode.AS_CONFIGURED:
                return {}

    def refusal_of_native(self, native: int, *, has_classic: bool) -> GroupError | None:
        """DEV D74: GROUP_ID_NOT_FOUND if a group with this many native members, and perhaps classic
        ones, gets no more. Native members may be replaced, and classic ones may come and go.

        The error ends the client, so that a deployment stops there. An answer that makes it wait
        would let the next consumers stop, too.
        """
        limit = self.native_members_max
        if limit is None or native < limit or not has_classic:
            return None
        members = "1 member" if native == 1 else f"{native} members"
        return GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"an operator holds the migration of this group at {members} with the new"
            " protocol: use group.protocol=classic, or end the hold (groupferry allow)",
        )

    def after_downgrade(self, before: Conversions, now_ms: int) -> Conversions:
        """The group has become classic again, and may have to rest."""
        has_lasted = now_ms - before.upgraded_ms >= LASTING_MS
        quick = 0 if has_lasted else before.quick + 1
        rest_ms = FIRST_REST_MS << (quick - 2) if quick > 1 else 0
        rest_ms = min(rest_ms, self.rest_max_ms)
        return Conversions(
            upgraded_ms=before.upgraded_ms,
            quick=min(quick, QUICK_MAX),
            rests_until_ms=now_ms + rest_ms if rest_ms else 0,
        )


def check_rested(conversions: Conversions, now_ms: int) -> None:
    """DEV D76: raises GroupError COORDINATOR_LOAD_IN_PROGRESS while the group rests."""
    rest_ms = conversions.rests_until_ms - now_ms
    if rest_ms > 0:
        raise GroupError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"the group was converted back and forth: it stays classic for {-(-rest_ms // 1000)} s,"
            " because its consumers with the new protocol do not stay",
        )
