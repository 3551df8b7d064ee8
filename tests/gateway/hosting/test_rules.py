"""The limits on groups, which may change while the gateway runs."""

import pytest

from gateway.hosting.owner import Owner
from gateway.hosting.room import TooManyGroups
from gateway.hosting.rules import ANCHORS_PER_GROUP
from tests.support.hosted_scene import hosting_rules


def test_new_limits_count_for_groups_and_their_anchors() -> None:
    """Each owner may begin as many as told, and groups beyond a lower limit stay."""
    rules, user = hosting_rules(), Owner("u", is_principal=True)
    for name in ("a", "b"):
        rules.hosted.take(name, user)
        rules.anchored.take(name, user)
    rules.limit_groups(9, 3, 1)
    assert rules.hosted.has("a")
    with pytest.raises(TooManyGroups, match="limit of 1 hosted groups per user"):
        rules.hosted.check(user)
    with pytest.raises(TooManyGroups, match=f"limit of {ANCHORS_PER_GROUP} anchored groups per"):
        rules.anchored.check(user)
    rules.limit_groups(9, 3, 3)
    rules.hosted.check(user)
    rules.anchored.check(user)
