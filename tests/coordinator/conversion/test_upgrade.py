"""Generic to consumer (spec section 4); the scenarios tell the whole stories."""

from coordinator.errors import ErrorCode
from tests.support.group_script import GroupScript, subscription

FOO = subscription(["foo"])


def test_a_protocol_that_a_member_dropped_in_the_meantime_is_not_used(group: GroupScript) -> None:
    """The selected protocol may be one that a parked JoinGroup no longer offers: then the one
    that would be selected now counts (as DEV 11.2 row 2 says of the first rebalance)."""
    both = (("range", FOO), ("sticky", FOO))
    ids = group.stable_generic_group({"a": {"foo": (0,)}, "b": {"foo": (1,)}}, protocols=both)
    assert group.generic.core.protocol == "range"
    token = group.send_join(ids["a"], protocols=(("sticky", FOO),))
    assert group.is_parked(token)
    assert group.native("n1").error == ErrorCode.NONE
    assert group.consumer.members[ids["a"]].topic_names == ("foo",)
    assert group.assigned(ids["b"]) == {"foo": (1,)}
