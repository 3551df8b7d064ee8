"""Which groups are served here until an operator releases them (rule 2.11, DEV D70)."""

import pytest

from coordinator.group.load import has_group, is_adopted
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    AdoptionEnded,
    AdoptionMoved,
    ClaimReceived,
    GroupLost,
    ReleaseBegan,
    ReleaseMoved,
)
from coordinator.interface.records import (
    AdoptionState,
    ClassicGroupValue,
    ReleaseState,
    ServedBySetting,
)
from coordinator.interface.replies import ClaimReply
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import GroupScript

BY_SETTING = GroupConfig(is_served_by_setting=True)
MEMBER = given_classic_group_member("a", {"foo": (0,)})
GROUP = ClassicGroupValue(
    protocol_type="consumer", generation=41, protocol="range", leader="a", members=(MEMBER,)
)


def claim(group: GroupScript) -> ClaimReply:
    """The command of an operator."""
    group.feed(ClaimReceived(token=99))
    return group.answer(99, ClaimReply)


def is_kept(group: GroupScript) -> bool:
    """Whether the group is served here also while it is empty."""
    return group.engine.state.is_adopted


def adopt(group: GroupScript) -> None:
    """Take over a group of the cluster."""
    group.feed(AdoptionMoved(adoption=AdoptionState(group=GROUP, lock_generation=43)))
    group.feed(AdoptionEnded())


@pytest.fixture
def by_setting() -> GroupScript:
    return GroupScript(config=BY_SETTING)


def test_an_unknown_group_becomes_an_empty_one(group: GroupScript) -> None:
    """The mark then survives a restart, and everything that deletes a group deletes it."""
    assert claim(group) == ClaimReply()
    assert is_kept(group)
    assert group.view().state == "Empty"
    group.check_replay()
    group.restart()
    assert is_kept(group)
    group.native("n")
    group.native("n", -1)
    assert is_kept(group), "its last member has left"


def test_a_second_claim_changes_nothing(group: GroupScript) -> None:
    claim(group)
    claim(group)
    assert group.last_step.durable == ()


def test_what_an_earlier_version_stored_is_adopted(group: GroupScript) -> None:
    """Such a log never says that a setting alone has the group served here."""
    group.stable_classic_group({"a": {"foo": (0,)}})
    assert is_kept(group)


def test_a_group_that_a_setting_began_is_not_adopted(by_setting: GroupScript) -> None:
    """A restart does not change that. An operator may still adopt the group, with and without
    members."""
    by_setting.native("n")
    assert by_setting.last_step.durable[-1] == ServedBySetting(is_so=True)
    by_setting.restart()
    assert not is_kept(by_setting)
    claim(by_setting)
    assert by_setting.last_step.durable == (ServedBySetting(is_so=False),)
    assert is_kept(by_setting)


def test_a_setting_is_noted_with_the_first_record_of_a_classic_group(
    by_setting: GroupScript,
) -> None:
    """The setting is in the batch of the first record, so that no restart finds the group
    adopted."""
    by_setting.take_id()
    assert by_setting.last_step.durable[-1] == ServedBySetting(is_so=True)
    assert not is_kept(by_setting)
    by_setting.check_replay()


def test_a_deleted_group_leaves_no_mark(by_setting: GroupScript) -> None:
    by_setting.native("n")
    by_setting.native("n", -1)
    by_setting.delete_group()
    assert by_setting.last_step.durable[-1] == ServedBySetting(is_so=False)
    claim(by_setting)
    by_setting.delete_group()
    assert not is_kept(by_setting)


def test_an_adopted_group_stays_so_whatever_the_setting_says(by_setting: GroupScript) -> None:
    """Adopted while a setting matched it, or when it was left by a setting, or lost its members."""
    by_setting.native("n")
    by_setting.native("n", -1)
    adopt(by_setting)
    assert is_kept(by_setting)
    by_setting.feed(GroupLost())
    assert is_kept(by_setting)
    by_setting.restart()
    assert is_kept(by_setting)


def test_a_release_ends_it_and_a_claim_ends_the_release(group: GroupScript) -> None:
    adopt(group)
    group.feed(ReleaseBegan())
    assert not is_kept(group)
    assert claim(group).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is on its way"
    group.feed(ReleaseMoved(release=ReleaseState()))
    assert not is_kept(group)
    claim(group)
    assert group.engine.state.release is None
    assert is_kept(group)
    group.check_replay()


def test_a_group_that_is_being_adopted_is_not_claimed(group: GroupScript) -> None:
    group.feed(AdoptionMoved(adoption=AdoptionState(group=GROUP, lock_generation=None)))
    assert claim(group).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_log_shows_that_a_setting_serves_a_group_without_loading_it(
    by_setting: GroupScript,
) -> None:
    by_setting.native("n")
    records = by_setting.last_step.durable
    assert has_group(records)
    assert not is_adopted(records)
    assert is_adopted([record for record in records if not isinstance(record, ServedBySetting)])
    assert not has_group([ServedBySetting(is_so=True)])
    assert not is_adopted([])
