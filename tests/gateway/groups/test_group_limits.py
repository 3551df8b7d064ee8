"""The limits of groups in total and per client address."""

import pytest

from gateway.groups.group_limits import (
    ANCHORS_PER_GROUP,
    GroupLimits,
    GroupQuota,
    TooManyGroups,
)
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import Call, Refused, Released
from gateway.quotas.quota_cache import LONG_NAME_CHARS
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from tests.support.hosted_scene import HostedScene, cause_of

GREEDY, MODEST = QuotaKey("10.0.0.1"), QuotaKey("10.0.0.2")


def test_one_address_leaves_room_for_others() -> None:
    """Its own limit is reached first, and reported."""
    client_warnings: list[tuple[QuotaKey, str, int]] = []
    quota = GroupQuota(
        "hosted",
        groups_max=3,
        share=ShareRule(per_address=2),
        complain=lambda *complaint: client_warnings.append(complaint),
    )
    quota.count_in("a", GREEDY)
    quota.count_in("b", GREEDY)
    with pytest.raises(TooManyGroups, match="the limit of 2 hosted groups per client address"):
        quota.check(GREEDY)
    assert client_warnings == [(GREEDY, "too many hosted groups from this client address", 2)]
    quota.check(MODEST)
    quota.count_in("c", MODEST)
    with pytest.raises(TooManyGroups, match="the limit of 3 hosted groups is reached"):
        quota.check(MODEST)


def test_a_group_without_a_client_counts_only_in_total() -> None:
    """Such a group was loaded from the state log at the start."""
    quota = GroupQuota("hosted", groups_max=2, share=ShareRule(per_address=1))
    for group_id in ("a", "b"):
        quota.check(None)
        quota.count_in(group_id, None)
    with pytest.raises(TooManyGroups):
        quota.check(None)


def test_a_group_that_ends_makes_room_for_its_address() -> None:
    """Its last member does not matter."""
    quota = GroupQuota("hosted", groups_max=3, share=ShareRule(per_address=1))
    quota.count_in("a", GREEDY)
    quota.free("a")
    quota.check(GREEDY)
    quota.count_in("b", GREEDY)
    with pytest.raises(TooManyGroups):
        quota.check(GREEDY)


def test_a_principal_has_a_limit_of_its_own() -> None:
    """Wherever it connects from, and whatever else comes from there."""
    quota = GroupQuota("hosted", groups_max=9, share=ShareRule(per_address=1, per_principal=2))
    alice = QuotaKey("10.0.0.1", is_principal=True)
    quota.count_in("a", GREEDY)
    quota.count_in("b", alice)
    quota.check(alice)
    quota.count_in("c", alice)
    with pytest.raises(TooManyGroups, match="the limit of 2 hosted groups per user"):
        quota.check(alice)
    quota.check(MODEST)


def test_a_group_counts_once_until_it_is_freed() -> None:
    """This holds for any client that begins it, and however often."""
    quota = GroupQuota("hosted", groups_max=1, share=ShareRule(per_address=1))
    quota.reserve("orders", None)
    quota.reserve("orders", GREEDY)
    quota.count_in("orders", None)
    assert quota.count == 1
    quota.free("orders")
    quota.free("orders")
    quota.reserve("payments", MODEST)


def test_a_group_with_a_long_name_counts_as_many() -> None:
    """Towards its owner and in total, until it ends."""
    quota = GroupQuota("hosted", groups_max=6, share=ShareRule(per_address=4))
    long = "x" * 3 * LONG_NAME_CHARS
    quota.count_in(long, GREEDY)
    with pytest.raises(TooManyGroups, match="the limit of 4 hosted groups per client address"):
        quota.check(GREEDY)
    quota.check(MODEST)
    quota.count_in("b", MODEST)
    quota.count_in("c", MODEST)
    with pytest.raises(TooManyGroups, match="the limit of 6 hosted groups is reached"):
        quota.check(MODEST)
    quota.free(long)
    quota.check(GREEDY)
    assert quota.count == 2


def test_new_limits_count_for_groups_and_their_anchors() -> None:
    """Each owner may begin as many as told, and groups beyond a lower limit stay."""
    limits, user = GroupLimits(8), QuotaKey("u", is_principal=True)
    for name in ("a", "b"):
        limits.hosted.reserve(name, user)
        limits.anchored.reserve(name, user)
    limits.limit(9, ShareRule(per_address=3, per_principal=1))
    assert limits.hosted.count == 2
    with pytest.raises(TooManyGroups, match="limit of 1 hosted groups per user"):
        limits.hosted.check(user)
    with pytest.raises(TooManyGroups, match=f"limit of {ANCHORS_PER_GROUP} anchored groups per"):
        limits.anchored.check(user)
    limits.limit(9, ShareRule())
    limits.hosted.check(user)
    limits.anchored.check(user)


def test_only_a_join_needs_room_for_an_anchor() -> None:
    """A consumer that assigns partitions itself may commit where no further anchor may join."""
    limits = GroupLimits(1)
    limits.anchored.limit(0, ShareRule())
    scene = HostedScene(limits=limits)
    assert cause_of(scene.native("n")) is RefusalReason.NOT_ANCHORED
    assert not limits.hosted.count
    scene.commit()
    assert len(scene.sent) == 1


def left_behind(limits: GroupLimits) -> HostedScene:
    """A group without members, whose anchor an earlier process has left in the cluster."""
    before = HostedScene()
    before.native_member()
    before.native("n", -1)
    scene = before.restart()
    scene.limits = limits
    return scene


def test_a_commit_that_takes_the_place_of_an_anchor_needs_room_for_one() -> None:
    limits = GroupLimits(1)
    limits.anchored.limit(0, ShareRule())
    scene = left_behind(limits)
    refusal = next(iter(scene.commit().outcomes.values())).refused
    assert refusal is not None
    assert refusal.cause is RefusalReason.NOT_ANCHORED
    assert not scene.sent
    assert not scene.group.anchor.is_here


def test_a_deletion_that_takes_the_place_of_an_anchor_needs_room_for_one() -> None:
    """The deletion needs no room among the groups in memory, because nothing is loaded."""
    limits = GroupLimits(0)
    limits.anchored.limit(0, ShareRule())
    scene = left_behind(limits)
    call = scene.ask(Call(api=GroupApi.ADMIN))
    assert isinstance(call.answer, Refused)
    assert call.answer.cause is RefusalReason.NOT_ANCHORED
    limits.anchored.limit(1, ShareRule())
    assert scene.ask(Call(api=GroupApi.ADMIN)).answer == Released()


def test_a_group_counts_as_long_as_it_is_in_memory_and_its_anchor_as_long_as_it_lingers() -> None:
    """The count follows the groups: no code has to give a place back."""
    scene = HostedScene(linger_ms=1_000)
    scene.native_member()
    assert (scene.limits.hosted.count, scene.limits.anchored.count) == (1, 1)
    scene.native("n", -1)
    assert (scene.limits.hosted.count, scene.limits.anchored.count) == (0, 1)
    scene.wait(2_000)
    assert (scene.limits.hosted.count, scene.limits.anchored.count) == (0, 0)
