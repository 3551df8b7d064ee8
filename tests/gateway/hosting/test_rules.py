"""The limits on groups, which may change while the gateway runs."""

from dataclasses import replace

import pytest

from coordinator.interface.config import RollPolicy
from gateway.hosting.room import TooManyGroups
from gateway.hosting.rules import ANCHORS_PER_GROUP
from gateway.hosting.standing import matches
from gateway.quotas.owner import Owner
from gateway.quotas.shares import ShareRule
from tests.support.hosted_scene import hosting_rules


def test_new_limits_count_for_groups_and_their_anchors() -> None:
    """Each owner may begin as many as told, and groups beyond a lower limit stay."""
    rules, user = hosting_rules(), Owner("u", is_principal=True)
    for name in ("a", "b"):
        rules.hosted.take(name, user)
        rules.anchored.take(name, user)
    rules.limit_groups(9, ShareRule(per_address=3, per_principal=1))
    assert rules.hosted.has("a")
    with pytest.raises(TooManyGroups, match="limit of 1 hosted groups per user"):
        rules.hosted.check(user)
    with pytest.raises(TooManyGroups, match=f"limit of {ANCHORS_PER_GROUP} anchored groups per"):
        rules.anchored.check(user)
    rules.limit_groups(9, ShareRule())
    rules.hosted.check(user)
    rules.anchored.check(user)


def test_a_pattern_knows_no_sign_but_star_and_question_mark() -> None:
    """All others stand for themselves."""
    for group_id, pattern in (
        ("team[a]", "team[a]"),
        ("a[!b]-1", "a[!b]-?"),
        ("[x", "[*"),
        ("]", "]"),
        ("a\\b", "a\\b"),
    ):
        assert matches(group_id, (pattern,))
    assert not matches("teama", ("team[a]",))
    assert not matches("b", ("[a-c]",))
    assert matches("a\nb", ("a?b", "never"))


def test_a_pattern_holds_the_groups_that_match() -> None:
    """All others may migrate."""
    rules = replace(hosting_rules(), hold_patterns=("ord*",))
    policies = [rules.config_of(each).policy for each in ("orders", "payments")]
    assert policies == [RollPolicy.HOLD, RollPolicy.ALLOW]


def test_a_setting_that_has_groups_hosted_is_noted_in_those_that_match() -> None:
    """They begin without being adopted."""
    rules = hosting_rules(host=("ord*",))
    noted = [rules.config_of(each).is_served_by_setting for each in ("orders", "payments")]
    assert noted == [True, False]
