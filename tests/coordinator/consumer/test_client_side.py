"""A target that a member computes (KIP-848, "Client Side Mode")."""

import pytest

from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_script import GroupScript


@pytest.mark.parametrize(
    "request_",
    [
        PrepareAssignmentReceived(token=9, member_id="m", member_epoch=1),
        InstallAssignmentReceived(token=9, member_id="m", member_epoch=1, group_epoch=1),
    ],
    ids=["prepare", "install"],
)
def test_a_member_that_was_not_chosen_is_refused(
    request_: PrepareAssignmentReceived | InstallAssignmentReceived, group: GroupScript
) -> None:
    group.feed(request_)
    assert group.answers[9].error is ErrorCode.UNKNOWN_MEMBER_ID
