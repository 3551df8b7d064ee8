"""The requests of a release."""

from gateway.hosting.identity import AnchorIds
from gateway.hosting.release_requests import ReleaseRequests
from tests.support.adoption import GROUP, GUISE

IDS = AnchorIds(member_id="anchor-1", generation=5)
REQUESTS = ReleaseRequests(GROUP, GUISE, IDS)


def test_the_anchor_offers_its_own_protocol_first() -> None:
    """Alone in the group, it stays in its own protocol, and consumers are admitted."""
    opened = REQUESTS.open(("range", "sticky"))
    assert [each.name for each in opened.protocols] == [GUISE.protocol, "range", "sticky"]
    assert (opened.member_id, opened.group_instance_id) == (IDS.member_id, GUISE.instance_id)


def test_nothing_that_it_offers_is_a_readable_subscription() -> None:
    """A native consumer would convert the group while consumers are on their way."""
    assert {each.metadata for each in REQUESTS.open(("range",)).protocols} == {GUISE.metadata}


def test_only_this_anchor_leaves() -> None:
    """Both ids are named, so that an anchor that took its place is refused, not removed."""
    (leaver,) = REQUESTS.leave().members
    assert (leaver.member_id, leaver.group_instance_id) == (IDS.member_id, GUISE.instance_id)
    assert leaver.reason, "the broker logs it"
