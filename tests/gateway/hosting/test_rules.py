"""The settings of groups, by patterns of their ids."""

from dataclasses import replace

from coordinator.interface.roll_policy import RollMode
from gateway.hosting.rules import matches
from tests.support.hosted_scene import hosting_rules


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
    policies = [rules.config_of(group_id).roll_policy.mode for group_id in ("orders", "payments")]
    assert policies == [RollMode.HOLD, RollMode.ALLOW]


def test_a_setting_that_has_groups_hosted_is_noted_in_those_that_match() -> None:
    """The matching groups begin without being adopted."""
    rules = hosting_rules(host=("ord*",))
    noted = [rules.config_of(group_id).is_served_by_setting for group_id in ("orders", "payments")]
    assert noted == [True, False]
