"""How groups look to the two apis that describe them."""

import pytest

from coordinator.interface.replies import GroupView
from coordinator.interface.topics import Topics
from gateway.requests.group_descriptions import (
    describe_classic,
    describe_consumer,
    unknown_classic,
    unknown_consumer,
)
from kafka_codecs.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("Assigning", "PreparingRebalance"),
        ("Reconciling", "PreparingRebalance"),
        ("Stable", "Stable"),
        ("Empty", "Empty"),
    ],
)
def test_tools_for_classic_groups_see_only_classic_states(state: str, shown: str) -> None:
    view = GroupView(group_id="g", group_type="consumer", state=state, assignor="uniform")
    group = describe_classic(view)
    assert (group.group_state, group.protocol_data) == (shown, "uniform")


def test_a_classic_group_is_not_described_as_a_consumer_group() -> None:
    group = describe_consumer(
        GroupView(group_id="g", group_type="classic", state="Stable"), Topics()
    )
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == "Group g is not a consumer group."


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_an_unknown_group_is_dead_and_an_error_in_newer_versions(version: int, code: int) -> None:
    group = unknown_classic("g", version)
    assert (group.group_state, group.error_code) == ("Dead", code)


def test_a_group_without_a_name_is_invalid() -> None:
    assert unknown_consumer("").error_code == ErrorCode.INVALID_GROUP_ID
