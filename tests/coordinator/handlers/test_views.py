"""The views of a group for old and new admin tools (rule 3.14)."""

from dataclasses import replace

from coordinator.interface.records import MemberState
from kafka_codecs.consumer_protocol import Subscription, decode_subscription
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript, embedded_assignment, read_assignment

FOO_0 = {"foo": (0,)}


def test_a_missing_group_is_dead(group: GroupScript) -> None:
    """Kafka describes an unknown group like this."""
    view = group.view()
    assert (view.group_id, view.group_type, view.state) == ("orders", None, "Dead")
    assert view.members == ()


def test_a_summary_is_the_view_without_the_members(group: GroupScript) -> None:
    """This holds for each kind of group, and without a group."""
    views = [(group.view(), group.engine.summarize())]
    group.given_classic_group(given_classic_group_member("a", FOO_0), generation=4)
    views.append((group.view(), group.engine.summarize()))
    group.given_consumer_group(given_native("n", assigned=FOO_0))
    views.append((group.view(), group.engine.summarize()))
    assert [len(view.members) for view, _ in views] == [0, 1, 1]
    assert [replace(view, members=()) for view, _ in views] == [summary for _, summary in views]


def test_a_classic_group_shows_its_protocol_only_while_stable(group: GroupScript) -> None:
    """The members' metadata shows only then, too. Assignments show in every state."""
    member = given_classic_group_member("a", FOO_0)
    group.given_classic_group(member, given_classic_group_member("b"), generation=4)
    view = group.view()
    assert view.group_id == "orders"
    assert (view.group_type, view.state, view.protocol_type) == ("classic", "Stable", "consumer")
    assert (view.protocol, view.group_epoch) == ("range", 4)
    assert view.members[0].assignment_bytes == embedded_assignment(FOO_0)
    assert view.members[0].metadata == member.protocols[0][1]
    group.leave("b")
    view = group.view()
    assert (view.state, view.protocol) == ("PreparingRebalance", "")
    assert view.members[0].metadata == b""
    assert view.members[0].assignment_bytes == embedded_assignment(FOO_0)


def test_pending_revocations_count_as_held(group: GroupScript) -> None:
    """KAFKA-20431. Old tools can read the assignment bytes."""
    c1 = given_classic(
        "c1",
        assigned=FOO_0,
        pending={"foo": (1,)},
        state=MemberState.UNREVOKED_PARTITIONS,
        instance_id="i1",
        embedded_version=3,
    )
    group.given_consumer_group(given_native("n1", assigned={"foo": (2,)}), c1)
    view = group.view()
    assert (view.group_type, view.state, view.assignor) == ("consumer", "Reconciling", "uniform")
    assert (view.group_epoch, view.assignment_epoch) == (10, 10)
    classic, native = view.members
    assert (classic.member_id, classic.instance_id, classic.member_epoch) == ("c1", "i1", 10)
    assert classic.assignment == {"foo": (0, 1)}
    assert classic.target == FOO_0
    assert classic.assignment_bytes[:2] == b"\x00\x03"
    assert read_assignment(classic.assignment_bytes) == {"foo": (0, 1)}
    assert classic.metadata[:2] == b"\x00\x03"
    assert native.topic_names == ("foo",)
    assert read_assignment(native.assignment_bytes) == {"foo": (2,)}
    assert decode_subscription(native.metadata) == (0, Subscription(topics=("foo",)))


def test_a_native_member_shows_the_topics_that_its_regular_expression_matches(
    group: GroupScript,
) -> None:
    """Old tools know only topics."""
    group.given_consumer_group(
        given_native("n1", topics=("bar",), regex="fo.*"),
        given_native("n2", topics=(), regex="never"),
        regexes={"fo.*": ("foo", "foo-2")},
    )
    both, none = group.view().members
    assert decode_subscription(both.metadata)[1].topics == ("bar", "foo", "foo-2")
    assert decode_subscription(none.metadata)[1].topics == ()


def test_the_subscribed_topics_are_those_of_the_current_epoch(group: GroupScript) -> None:
    """A classic group has those of its generation, as long as they can be read."""
    assert (group.engine.epoch, set(group.engine.subscribed_topics())) == (0, set())
    group.given_classic_group(given_classic_group_member("a", FOO_0), generation=4)
    assert group.engine.epoch == 4
    assert set(group.engine.subscribed_topics()) == {"foo"}
    group.given_consumer_group(given_native("n", assigned=FOO_0))
    assert (group.engine.epoch, set(group.engine.subscribed_topics())) == (10, {"foo"})
    group.native("m", topics=("bar",))
    assert (group.engine.epoch, set(group.engine.subscribed_topics())) == (11, {"bar", "foo"})
