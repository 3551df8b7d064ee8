"""Formatting of transcripts."""

from coordinator.interface.records import MemberState
from tests.simulation import transcript
from tests.support.simulation import Stage


def test_partitions_have_the_names_of_their_topics() -> None:
    """Topic ids mean nothing to people."""
    stage = Stage()
    assert transcript.words(frozenset(stage.foo(0, 1)), stage.cluster) == "{foo-0, foo-1}"
    some = next(iter(stage.foo(2)))
    assert "topic_id=foo" in transcript.readable(repr(some), stage.cluster)
    assert transcript.words(MemberState.STABLE, stage.cluster) == "STABLE"


def test_the_tail_has_time_sender_and_message() -> None:
    """Requests and answers omit default fields, and embedded bytes are decoded."""
    stage = Stage()
    stage.classic("c1")
    stage.wait(2_000)
    lines = "\n".join(transcript.tail(stage.world, stage.cluster, 100))
    assert "c1          JoinGroupReceived(version=9, member_id=, " in lines
    assert "v2 topics=('foo',)" in lines
    assert "c1          owns foo-0 foo-1 foo-2 foo-3" in lines
    assert "token" not in lines
