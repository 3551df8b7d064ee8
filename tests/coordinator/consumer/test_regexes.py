"""Regular expressions as subscriptions (rule 3.13)."""

import pytest

from coordinator.consumer.regexes import REGEXES_MAX
from coordinator.interface.config import RESOLUTIONS_APART_MS, GroupConfig
from coordinator.interface.events import RegexesResolved
from coordinator.interface.records import EpochCause, GroupEpoch, MemberState, RegularExpression
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript, make_topics, partitions

REFRESH_MS = GroupConfig().consumer_regex_refresh_interval_ms


def written_regexes(group: GroupScript) -> dict[str, set[str] | None]:
    """The regular expressions that the last step wrote; None for a tombstone."""
    return {
        record.regex: None if record.value is None else set(record.value.topics)
        for record in group.last_step.durable
        if isinstance(record, RegularExpression)
    }


def causes(group: GroupScript) -> list[EpochCause]:
    return [r.cause for r in group.last_step.durable if isinstance(r, GroupEpoch)]


def resolving(group: GroupScript) -> set[str]:
    """The regular expressions whose resolution the last step starts."""
    resolution = group.last_step.resolution
    return set(resolution.regexes) if resolution is not None else set()


@pytest.fixture
def resolved_group(group: GroupScript) -> GroupScript:
    """n1 subscribes with f.*, which is resolved to foo, and has all partitions at epoch 2."""
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1)
    assert group.granted_partitions("n1") == {"foo": (0, 1, 2)}
    return group


def test_an_unresolved_regex_matches_no_topic(group: GroupScript) -> None:
    """The member waits at the first epoch. The resolution bumps the epoch, and the next heartbeat
    returns the partitions."""
    reply = group.native("n1", regex="f.*")
    assert (reply.member_epoch, reply.assignment) == (1, frozenset())
    assert (resolving(group), causes(group)) == ({"f.*"}, [])
    group.resolve()
    assert (written_regexes(group), causes(group)) == (
        {"f.*": {"foo"}},
        [EpochCause.REGEX_RESOLVED],
    )
    reply = group.native("n1", 1)
    assert (reply.member_epoch, group.names_of(reply.assignment)) == (2, {"foo": (0, 1, 2)})


def test_the_result_of_a_resolution_from_before_a_load_is_ignored(group: GroupScript) -> None:
    """The result may have waited for the log, and contain other regular expressions."""
    group.native("n1", regex="f.*")
    step = group.feed(RegexesResolved(topics={"g.*": frozenset()}, version=9))
    assert step.records == ()
    group.resolve()
    assert written_regexes(group) == {"f.*": {"foo"}}


def test_one_resolution_at_a_time(group: GroupScript) -> None:
    """A member that joins during a resolution waits for the next one."""
    group.native("n1", regex="f.*")
    group.native("n1", 1)
    assert resolving(group) == set()
    group.native("n2", regex="b.*")
    assert resolving(group) == set()
    group.resolve()
    assert written_regexes(group) == {"f.*": {"foo"}}
    group.native("n1", 1)
    assert resolving(group) == set()
    group.wait(RESOLUTIONS_APART_MS + 1)
    group.native("n1", 2)
    assert resolving(group) == {"f.*", "b.*"}


def test_a_failed_resolution_is_repeated(group: GroupScript) -> None:
    """Its result is not stored, and the next heartbeat requests another one."""
    group.native("n1", regex="f.*")
    assert group.resolve(fails=True).durable == ()
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_an_unexpected_resolution_is_ignored(resolved_group: GroupScript) -> None:
    """A resolution may arrive after a restart."""
    step = resolved_group.feed(RegexesResolved(topics={"f.*": frozenset()}, version=9))
    assert step.records == ()


def test_two_resolutions_are_ten_seconds_apart(resolved_group: GroupScript) -> None:
    """This holds however many topics appear."""
    resolved_group.topics = make_topics(2, 2, foo=3, far=1)
    resolved_group.wait(RESOLUTIONS_APART_MS)
    resolved_group.native("n1", 2)
    assert resolving(resolved_group) == set()
    resolved_group.wait(1)
    resolved_group.native("n1", 2)
    assert resolving(resolved_group) == {"f.*"}


def test_the_age_of_a_resolution_is_that_of_its_names(group: GroupScript) -> None:
    """The duration of the matching does not count."""
    group.native("n1", regex="f.*")
    group.wait(5_000)
    group.resolve()
    group.topics = make_topics(2, 2, foo=3, far=1)
    group.wait(5_001)
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_a_topic_that_appeared_is_picked_up(resolved_group: GroupScript) -> None:
    """A new topic name requires a new resolution. Its result bumps the epoch as usual."""
    resolved_group.topics = make_topics(2, 2, foo=3, far=1, bar=5)
    resolved_group.wait(RESOLUTIONS_APART_MS + 1)
    resolved_group.native("n1", 2)
    resolved_group.resolve()
    assert causes(resolved_group) == [EpochCause.REGEX_RESOLVED]
    assert resolved_group.names_of(resolved_group.native("n1", 2).assignment) == {
        "far": (0,),
        "foo": (0, 1, 2),
    }


def test_a_topic_that_matches_nothing(resolved_group: GroupScript) -> None:
    """Only the version and the time of the record change."""
    resolved_group.topics = make_topics(2, 2, foo=3, bar=1)
    resolved_group.wait(RESOLUTIONS_APART_MS + 1)
    resolved_group.native("n1", 2)
    resolved_group.resolve()
    assert (written_regexes(resolved_group), causes(resolved_group)) == ({"f.*": {"foo"}}, [])
    resolved_group.wait(RESOLUTIONS_APART_MS + 1)
    resolved_group.native("n1", 2)
    assert resolving(resolved_group) == set()


def test_a_topic_that_was_deleted(resolved_group: GroupScript) -> None:
    """The metadata hash shows it immediately. The resolution drops the topic when it is
    refreshed."""
    resolved_group.topics = make_topics(2, 1, bar=1)
    resolved_group.wait(40_000)
    reply = resolved_group.native("n1", 2, owned={"foo": (0, 1, 2)})
    assert (reply.assignment, causes(resolved_group)) == (frozenset(), [EpochCause.TOPICS_CHANGED])
    assert resolved_group.current("n1").state is MemberState.UNREVOKED_PARTITIONS
    assert resolved_group.native("n1", 2, owned={}).member_epoch == 3
    assert resolving(resolved_group) == set()
    for _ in range(REFRESH_MS // 40_000 - 1):
        resolved_group.wait(40_000)
        resolved_group.native("n1", 3)
    assert resolving(resolved_group) == set()
    resolved_group.wait(1)
    resolved_group.native("n1", 3)
    resolved_group.resolve()
    assert written_regexes(resolved_group) == {"f.*": set()}


def test_the_refresh_interval_is_a_setting(make_group: MakeGroup) -> None:
    """group.consumer.regex.refresh.interval.ms."""
    group = make_group(config=GroupConfig(consumer_regex_refresh_interval_ms=20_000))
    group.native("n1", regex="f.*")
    group.resolve()
    group.wait(20_000)
    group.native("n1", 1)
    assert resolving(group) == set()
    group.wait(1)
    group.native("n1", 2)
    assert resolving(group) == {"f.*"}


def test_names_and_regex_are_united(make_group: MakeGroup) -> None:
    """Each member has the union of both."""
    group = make_group(topics=make_topics(foo=1, bar=1, zar=1))
    group.native("n1", topics=("bar",), regex="f.*")
    assert group.granted_partitions("n1") == {"bar": (0,)}
    group.resolve()
    group.wait(1_000)
    group.native("n1", 2)
    assert group.granted_partitions("n1") == {"bar": (0,), "foo": (0,)}


def test_a_resolved_regex_of_another_member_bumps_at_once(resolved_group: GroupScript) -> None:
    """The expression needs no resolution."""
    resolved_group.wait(1_000)
    reply = resolved_group.native("n2", regex="f.*")
    assert (reply.member_epoch, causes(resolved_group)) == (3, [EpochCause.MEMBER_JOINED])
    assert resolving(resolved_group) == set()
    resolved_group.native("n3", topics=("none",))
    resolved_group.native("n3", 3, regex="f.*")
    assert causes(resolved_group) == [EpochCause.SUBSCRIPTION_CHANGED]


def test_leaving_of_the_last_subscriber_deletes_a_regex(resolved_group: GroupScript) -> None:
    """The expression stays while another member subscribes to it."""
    resolved_group.native("n2", regex="f.*")
    resolved_group.native("n1", -1)
    assert written_regexes(resolved_group) == {}
    resolved_group.native("n2", -1)
    assert written_regexes(resolved_group) == {"f.*": None}
    kinds = [type(record).__name__ for record in resolved_group.last_step.durable]
    assert kinds.index("MemberMetadata") < kinds.index("RegularExpression")
    assert kinds[-1] == "GroupEpoch"
    assert resolved_group.consumer.metadata_hash == 0


def test_another_regex(make_group: MakeGroup) -> None:
    """The old one is deleted, and its partitions must be revoked immediately. The next heartbeat
    resolves the new one, because the result of the old one was fresh."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1)
    group.wait(1_000)
    reply = group.native("n1", 2, regex="b.*", owned={"foo": (0,)})
    assert (reply.member_epoch, reply.assignment) == (2, frozenset())
    assert (written_regexes(group), causes(group), resolving(group)) == ({"f.*": None}, [], set())
    group.native("n1", 2, owned={})
    assert resolving(group) == {"b.*"}
    group.resolve()
    assert group.names_of(group.native("n1", 2).assignment) == {"bar": (0,)}


def test_an_empty_regex_clears(resolved_group: GroupScript) -> None:
    """That bumps the epoch; null is no change."""
    resolved_group.native("n1", 2)
    assert causes(resolved_group) == []
    resolved_group.native("n1", 2, regex="", owned={"foo": (0, 1, 2)})
    assert (written_regexes(resolved_group), causes(resolved_group)) == (
        {"f.*": None},
        [EpochCause.SUBSCRIPTION_CHANGED],
    )
    assert resolved_group.current("n1").pending_revocation.keys() == partitions({"foo": (0, 1, 2)})


def test_a_change_to_a_regex_without_matches_computes_a_new_target(make_group: MakeGroup) -> None:
    """DEV D18: its old target needs a new owner. The metadata hash does not change, because another
    member subscribes to the same topic."""
    group = make_group(topics=make_topics(foo=2))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n2", topics=("foo",))
    group.wait(1_000)
    group.native("n1", 1, owned={})
    group.native("n2", 2)
    assert [len(group.consumer.target_of(id_)) for id_ in ("n1", "n2")] == [1, 1]
    group.native("n1", group.current("n1").member_epoch, regex="x.*")
    group.native("n1", group.current("n1").member_epoch, owned={})
    group.resolve()
    assert causes(group) == [EpochCause.REGEX_RESOLVED]
    group.wait(1_000)
    group.native("n2", group.current("n2").member_epoch)
    assert group.granted_partitions("n2") == {"foo": (0, 1)}


def test_from_one_regex_to_another_before_there_was_a_target(group: GroupScript) -> None:
    """The epoch was bumped for topics without subscribers, as the metadata hash shows."""
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1, regex="x.*")
    assert causes(group) == []
    group.native("n1", group.current("n1").member_epoch)
    group.resolve()
    assert causes(group) == [EpochCause.REGEX_RESOLVED]
    assert group.consumer.metadata_hash == 0


def test_a_member_that_takes_over_an_instance_drops_its_own_regex(make_group: MakeGroup) -> None:
    """The epoch is bumped for its former target, not for a topic of its own."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned={"foo": (0,)}),
        given_native("n2", topics=(), regex="b.*", assigned={"bar": (0,)}),
        regexes={"b.*": ["bar"]},
    )
    group.native("n1", -2, instance_id="i1")
    group.native("n2", instance_id="i1")
    assert (written_regexes(group), causes(group)) == ({"b.*": None}, [EpochCause.MEMBER_REMOVED])
    assert group.consumer.metadata_hash == group.topics.metadata_hash(["foo"])


@pytest.mark.parametrize("regex", ["(", "a{1001}", "(?=a)"])
def test_an_invalid_regex_is_refused(group: GroupScript, regex: str) -> None:
    """The answer has the reason, and nothing changes."""
    group.given_consumer_group(given_native("n1"))
    for reply in (group.native("n1", 10, regex=regex), group.native("n2", regex=regex)):
        assert reply.error is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert regex in reply.reason
    assert group.last_step.records == ()


def test_too_many_regular_expressions(group: GroupScript) -> None:
    """A member may still change its own expression, or use an existing one."""
    for number in range(REGEXES_MAX):
        group.native(f"n{number}", regex=f"topic-{number}")
    assert group.native("late", regex="late").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert group.native("late", regex="topic-7").error is ErrorCode.NONE
    assert group.native("n3", 1, regex="other").error is ErrorCode.NONE


def test_a_restart_keeps_resolved_regexes(resolved_group: GroupScript) -> None:
    """The result stays valid, and is not refreshed before it is due."""
    resolved_group.restart()
    reply = resolved_group.native("n1", 2)
    assert (reply.member_epoch, resolving(resolved_group)) == (2, set())
    assert resolved_group.consumer.regexes["f.*"].topics == {"foo"}


def test_a_restart_forgets_a_running_resolution(group: GroupScript) -> None:
    """The next heartbeat requests another one."""
    group.native("n1", regex="f.*")
    group.restart()
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_offsets_of_a_matched_topic_are_not_deleted(resolved_group: GroupScript) -> None:
    """The member subscribes to it without its name."""
    assert resolved_group.delete_offsets("foo", "bar").subscribed == {"foo"}


def test_admins_see_the_regex(resolved_group: GroupScript) -> None:
    """ConsumerGroupDescribe has a field for it."""
    (member,) = resolved_group.view().members
    assert (member.topic_names, member.topic_regex) == ((), "f.*")
    assert member.assignment == {"foo": (0, 1, 2)}


def test_regexes_and_names_that_mean_the_same_are_balanced_alike(make_group: MakeGroup) -> None:
    """DEV D15: only the topics count, however a member subscribes to them."""
    group = make_group(topics=make_topics(foo=4))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n2", topics=("foo",))
    group.wait(1_000)
    group.native("n1", 1, owned={})
    group.native("n2", group.current("n2").member_epoch)
    assert [len(group.consumer.target_of(id_)) for id_ in ("n1", "n2")] == [2, 2]


def test_a_group_without_a_regex_requests_no_resolution(group: GroupScript) -> None:
    """Subscriptions by name do not need all topic names of the cluster."""
    group.native("n1")
    assert group.last_step.resolution is None
    assert group.engine.state.resolution is None


def test_a_regex_without_matches_bumps_no_epoch(group: GroupScript) -> None:
    """Only its record is written."""
    group.native("n1", regex="x.*")
    group.resolve()
    assert (written_regexes(group), causes(group)) == ({"x.*": set()}, [])
    assert group.consumer.epoch == 1


def test_one_subscriber_with_an_outdated_target_is_enough(group: GroupScript) -> None:
    """DEV D18: the epoch is bumped for it, even if other members have the same regular
    expression."""
    group.given_consumer_group(
        given_native("n1", topics=(), regex="f.*", assigned={"foo": (0, 1)}),
        given_native("n2", topics=(), regex="x.*"),
        given_native("n3", assigned={"foo": (2,)}),
        regexes={"f.*": ["foo"]},
    )
    group.native("n1", 10, regex="x.*")
    assert causes(group) == []
    group.resolve()
    assert causes(group) == [EpochCause.REGEX_RESOLVED]
