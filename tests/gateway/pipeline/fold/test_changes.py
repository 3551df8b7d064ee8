"""The state of group and member at each event, as far as no other table shows it."""

from gateway.events.member_events import MemberReplaced
from tests.support.event_writer import EventWriter
from tests.support.folded_lines import folded
from tests.support.group_events import gets, joins


def test_a_member_may_take_over_another_instance_under_its_id() -> None:
    """It has one instance id after the other."""
    writer = EventWriter()
    writer.tell(1, joins("a", instance_id="i2"), gets("a", 0))
    writer.tell(2, MemberReplaced(member_id="a", replaced_by=None), joins("a", instance_id="i1"))
    found = [row.instance_id for row in folded(*writer.lines).changes if row.member_id == "a"]
    assert found == ["i2", "i2", "i2", "i1"]
