"""Heartbeats and commits of a group at rest lead to no effect; all others go the long way."""

from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Commits, StoreCommits
from gateway.hosting.effects import AskCoordinator, Write
from gateway.hosting.inputs import Leave
from kafka_codecs.error_codes import ErrorCode
from tests.support.hosted_scene import HostedScene, cause_of, error_of

SESSION_MS = 10_000
"""The session timeout of the classic member of a scene."""


def is_stored(commit: Commits) -> bool:
    """Whether the client gets the cluster's answer."""
    (outcome,) = commit.outcomes.values()
    return commit.answer is not None and outcome.refused is None and not outcome.is_away


def test_a_heartbeat_at_rest_prolongs_the_session() -> None:
    """The member outlives its first session, and no longer."""
    on = HostedScene()
    member = on.classic_member()
    for _ in range(4):
        on.wait(SESSION_MS // 2)
        beat = on.beat(member.member_id, member.generation)
        assert error_of(beat) is ErrorCode.NONE
        assert beat in on.at_rest
    on.wait(SESSION_MS + 100)
    assert not on.group.is_live


def test_a_steady_native_heartbeat_is_answered_at_rest() -> None:
    """Such a heartbeat has nothing to write, to report or to grant."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    done, events = len(on.done), len(on.events)
    beat = on.native("n", epoch)
    assert beat in on.at_rest
    assert (len(on.done), len(on.events)) == (done, events)


def test_a_heartbeat_before_the_next_target_is_answered_at_rest() -> None:
    """While thousands join, the members that are there already wait for the assignment interval."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    on.native_member("m")
    on.native_member("o")
    waiting = on.native("n", epoch)
    assert on.group.engine.core.describe(on.topics).state == "Assigning"
    assert waiting in on.at_rest
    on.wait(on.rules.config.consumer_assignment_interval_ms)
    assert on.native("n", epoch) not in on.at_rest, "a target is due"


def test_what_a_member_repeats_is_told_once() -> None:
    """Some clients state in each heartbeat what they own. Events report a statement when it is
    new."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    owned = {"foo": (0, 1, 2)}
    first, again = on.native("n", epoch, owned=owned), on.native("n", epoch, owned=owned)
    assert (first in on.at_rest, again in on.at_rest) == (False, True)
    assert error_of(again) is ErrorCode.NONE
    less = {"foo": (0, 1)}
    assert on.native("n", epoch, owned=less) not in on.at_rest
    assert on.native("n", epoch, owned=owned) not in on.at_rest, "it has stated less meanwhile"
    statements = [
        fields["partitions"].get("foo", []) for fields in on.events_named("partitions_stated")
    ]
    assert statements == [[], [0, 1, 2], [0, 1], [0, 1, 2]]


def test_a_heartbeat_waits_for_the_write_before_it() -> None:
    """The write may fail, or fence the member."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    on.hold(Write)
    on.native("m")
    beat = on.native("n", epoch)
    assert beat.answer is None
    on.release(Write)
    assert error_of(beat) is ErrorCode.NONE


def test_a_heartbeat_with_something_to_write_is_not_answered_at_rest() -> None:
    """The answer tells the member of its new epoch, which must survive a restart."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    on.native_member("m")
    on.wait(on.rules.config.consumer_assignment_interval_ms)
    on.hold(Write)
    assert on.native("n", epoch).answer is None


def test_an_assignment_that_is_repeated_is_not_answered_at_rest() -> None:
    """The answer grants partitions, though there is nothing to write."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    on.native_member("m")
    on.wait(on.rules.config.consumer_assignment_interval_ms)
    on.native("n", epoch)
    writes = on.count(Write)
    on.hold(AskCoordinator)
    again = on.native("n", epoch)
    assert on.count(Write) == writes
    assert again.answer is None
    on.release(AskCoordinator)
    assert error_of(again) is ErrorCode.NONE


def test_a_heartbeat_that_is_due_with_a_deadline_is_not_answered_at_rest() -> None:
    """The deadline is handled in the same step."""
    on = HostedScene()
    member = on.classic_member()
    on.now_ms += SESSION_MS  # the driver is late
    beat = on.beat(member.member_id, member.generation)
    assert error_of(beat) is ErrorCode.NONE  # requests that wait come before a deadline
    assert beat not in on.at_rest


def test_a_refused_heartbeat_is_logged() -> None:
    """Operators look for the reason there."""
    on = HostedScene()
    member = on.classic_member()
    beat = on.beat(member.member_id, member.generation - 1)
    assert error_of(beat) is ErrorCode.ILLEGAL_GENERATION
    assert on.log_names()[-1] == "request_refused"


def test_a_heartbeat_takes_the_anchor_if_there_is_none() -> None:
    """Nothing else would, and the cluster could give the group to other consumers."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    on.feed(Leave())
    assert not on.group.anchor.is_here
    assert error_of(on.native("n", epoch)) is ErrorCode.NONE
    assert on.group.anchor.is_here


def test_a_heartbeat_at_another_coordinator_is_not_answered_at_rest() -> None:
    """The client has to look for the coordinator, because its commits go there."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    beat = on.native("n", epoch, is_at_coordinator=False)
    assert cause_of(beat) is RefusalReason.NOT_AT_COORDINATOR


def test_a_heartbeat_first_learns_of_changed_topics() -> None:
    """A heartbeat is how a group notices that a topic has grown."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    beat = on.native("n", epoch, knows_topics=False)
    assert error_of(beat) is ErrorCode.NONE
    assert beat not in on.at_rest


def test_a_commit_at_rest_is_sent_and_answered_without_an_effect() -> None:
    """Such a commit has nothing to write or to report, and holds its partitions until the cluster
    answers."""
    on = HostedScene()
    member = on.classic_member()
    on.hold(StoreCommits)
    done = len(on.done)
    commit = on.commit(member.member_id, member.generation)
    assert len(on.group.engine.core.state.commits) == 1
    assert commit.answer is None
    on.release(StoreCommits)
    assert is_stored(commit)
    assert on.at_rest.count(commit) == 2
    assert len(on.done) == done + 1
    assert not on.group.engine.core.state.commits


def test_a_native_commit_at_rest_is_sent_and_answered_without_an_effect() -> None:
    """A native member's commit is treated like a classic one's."""
    on = HostedScene()
    epoch = on.native_member().member_epoch
    commit = on.commit("n", epoch)
    assert is_stored(commit)
    assert on.at_rest.count(commit) == 2


def test_a_commit_behind_another_of_its_member_is_not_sent_at_rest() -> None:
    """Stored first, it would be undone by the earlier one."""
    on = HostedScene()
    member = on.classic_member()
    on.hold(StoreCommits)
    first = on.commit(member.member_id, member.generation)
    second = on.commit(member.member_id, member.generation)
    assert second not in on.at_rest
    assert len(on.sent) == 0
    on.release(StoreCommits)
    assert [token for token, _ids in on.sent] == [*first.commits, *second.commits]
    assert is_stored(second)


def test_a_commit_at_rest_that_the_cluster_refuses_to_the_anchor_is_sent_again() -> None:
    """The client does not see the anchor's error."""
    on = HostedScene()
    member = on.classic_member()
    on.in_cluster.remove_member()
    commit = on.commit(member.member_id, member.generation)
    assert is_stored(commit)
    assert len(on.sent) == 2


def test_a_commit_ends_the_long_way_if_the_next_generation_waits_for_it() -> None:
    """Its end completes the join phase."""
    on = HostedScene()
    member = on.classic_member()
    on.hold(StoreCommits)
    commit = on.commit(member.member_id, member.generation)
    again = on.join(member.member_id, topics=("foo", "bar"))
    assert again.answer is None
    on.release(StoreCommits)
    assert on.at_rest.count(commit) == 1
    assert error_of(again) is ErrorCode.NONE
