"""Limits the number of groups in memory and of their anchors, in total, per principal and per
client address.

A group asks for its places with `Reserve`, before anything is loaded or joined for a client.
Afterwards the limits follow what the group has: no caller has to free a place. The anchor that
keeps members, or a lost commit, and that of a release find room in any case.
"""

from collections.abc import Callable

from gateway.groups.log_health import LogHealth
from gateway.hosting.answers import JOINS, RefusalReason
from gateway.hosting.calls import Call, Refused, Reserve
from gateway.hosting.group import HostedGroup
from gateway.hosting.states import LogPhase
from gateway.quotas.quota_cache import weight
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule

ANCHORS_PER_GROUP = 2
"""Multiplies both limits on groups, because an anchor outlives the last member for a while."""

Complain = Callable[[QuotaKey, str, int], None]
"""Learns who has reached a limit, which one, and how much it is."""


class TooManyGroups(Exception):
    """A limit on hosted or anchored groups is reached."""


class GroupQuota:
    """A group counts towards the principal whose request began it, or towards the address of a
    client without one, no matter who joins it later: once, or by the `weight` of a long name."""

    def __init__(
        self,
        kind: str,
        *,
        groups_max: int,
        share: ShareRule | None = None,
        complain: Complain = lambda _owner, _reason, _limit: None,
    ) -> None:
        """`kind`: what the groups are, for people."""
        self._kind = kind
        self._total = SharedTotal(groups_max, share)
        self._began: dict[str, QuotaKey | None] = {}
        self._complain = complain
        self.on_refusal: Callable[[], None] = lambda: None
        """Called when a group finds no room."""

    @property
    def groups_max(self) -> int:
        """The limit in total."""
        return self._total.total

    def limit(self, groups_max: int, share: ShareRule) -> None:
        """From now on, these are the limits. Groups that exceed them stay."""
        self._total.total, self._total.rule = groups_max, share

    def check(self, owner: QuotaKey | None) -> None:
        """Raises TooManyGroups if this owner may not begin another group. None stands for a group
        that the gateway begins itself."""
        if self._total.has_room(owner):
            return
        self.on_refusal()
        if owner is None or not self._total.has_room(None):
            raise TooManyGroups(f"the limit of {self.groups_max} {self._kind} groups is reached")
        limit = self._total.limit_of(owner)
        kind, who = self._kind, "user" if owner.is_principal else "client address"
        self._complain(owner, f"too many {kind} groups from this {who}", limit)
        raise TooManyGroups(f"the limit of {limit} {kind} groups per {who} is reached")

    @property
    def count(self) -> int:
        """The groups that are counted."""
        return len(self._began)

    def reserve(self, group_id: str, owner: QuotaKey | None) -> None:
        """Count a group, once. Raises TooManyGroups."""
        if group_id not in self._began:
            self.check(owner)
            self.count_in(group_id, owner)

    def count_in(self, group_id: str, owner: QuotaKey | None) -> None:
        """Count a group, once, whether or not there is room."""
        if group_id not in self._began:
            self._began[group_id] = owner
            self._total.take(owner, weight(group_id))

    def free(self, group_id: str) -> None:
        """Stop counting a group, if it is counted."""
        if group_id in self._began:
            self._total.free(self._began.pop(group_id), weight(group_id))


class GroupLimits:
    """The limits on groups in memory, and on those that have an anchor or are about to."""

    def __init__(
        self,
        groups_max: int,
        share: ShareRule | None = None,
        complain: Complain = lambda _owner, _reason, _limit: None,
        shard_of: Callable[[str], int] = lambda _group_id: 0,
    ) -> None:
        """`shard_of`: the shard of a group, whose log may fail alone."""
        self.hosted = GroupQuota("hosted", groups_max=groups_max, complain=complain)
        self.anchored = GroupQuota("anchored", groups_max=0, complain=complain)
        self.log_health = LogHealth(shard_of)
        self.limit(groups_max, share or ShareRule())

    def limit(self, groups_max: int, share: ShareRule) -> None:
        """From now on, so many groups may be hosted, in total and of one owner."""
        self.hosted.limit(groups_max, share)
        self.anchored.limit(ANCHORS_PER_GROUP * groups_max, _share_of_anchors(share))

    def reserve(self, group: HostedGroup, effect: Reserve, now_ms: int) -> Refused | None:
        """Count what the effect asks for. Returns the refusal if there is no room."""
        claim, group_id = effect.claim, group.group_id
        call = claim if isinstance(claim, Call) else None
        owner = None if call is None else call.owner
        cause = RefusalReason.TOO_MANY_GROUPS
        try:
            if effect.is_hosted:
                self.hosted.reserve(group_id, owner)
                joins = call is not None and call.api in JOINS
                if joins and not self.log_health.may_begin(group_id, now_ms):
                    return Refused(RefusalReason.LOG_FAILED, RefusalReason.LOG_FAILED.value)
            cause = RefusalReason.NOT_ANCHORED
            if effect.is_anchored and group.rules.can_anchor:
                self.anchored.reserve(group_id, owner)
        except TooManyGroups as error:
            return Refused(cause, str(error))
        return None

    def free(self, group_id: str) -> None:
        """Stop counting a group that another process has now."""
        self.hosted.free(group_id)
        self.anchored.free(group_id)

    def follow(self, group: HostedGroup) -> None:
        """Count what the group has now, and nothing else."""
        is_unloaded = group.engine.phase is LogPhase.UNLOADED
        if not is_unloaded:
            self.hosted.count_in(group.group_id, None)
        elif not group.calls:
            self.hosted.free(group.group_id)
        if group.anchor.is_here:
            self.anchored.count_in(group.group_id, None)
        elif is_unloaded and not group.calls:
            self.anchored.free(group.group_id)


def _share_of_anchors(share: ShareRule) -> ShareRule:
    """The share of an owner that has this share of the groups."""

    def times(limit: int | None) -> int | None:
        return None if limit is None else ANCHORS_PER_GROUP * limit

    return ShareRule(per_address=times(share.per_address), per_principal=times(share.per_principal))
