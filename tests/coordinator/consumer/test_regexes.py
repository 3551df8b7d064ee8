"""Regular expressions as subscriptions (rule 3.13)."""

import pytest

from coordinator.config import GroupConfig
from coordinator.consumer.regexes import REGEXES_MAX, RESOLUTIONS_APART_MS
from coordinator.events import RegexesResolved
from coordinator.records import EpochCause, GroupEpoch, MemberState, RegularExpression
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript, make_topics, partitions

REFRESH_MS = GroupConfig().consumer_regex_refresh_interval_ms


def written(group: GroupScript) -> dict[str, set[str] | None]:
    """What the last step says of regular expressions, None for a tombstone."""
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
def resolved(group: GroupScript) -> GroupScript:
    """n1 subscribes with f.*, which was resolved to foo; it has all of it at epoch 2."""
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1)
    assert group.assigned("n1") == {"foo": (0, 1, 2)}
    return group


def test_an_unresolved_regex_matches_no_topic(group: GroupScript) -> None:
    """The member waits at the first epoch; what comes out bumps, and the next heartbeat brings
    its partitions."""
    reply = group.native("n1", regex="f.*")
    assert (reply.member_epoch, reply.assignment) == (1, frozenset())
    assert (resolving(group), causes(group)) == ({"f.*"}, [])
    group.resolve()
    assert (written(group), causes(group)) == ({"f.*": {"foo"}}, [EpochCause.REGEX_RESOLVED])
    reply = group.native("n1", 1)
    assert (reply.member_epoch, group.named(reply.assignment)) == (2, {"foo": (0, 1, 2)})


def test_the_result_of_a_resolution_from_before_a_load_is_ignored(group: GroupScript) -> None:
    """It may have waited for the log, and names other regular expressions."""
    group.native("n1", regex="f.*")
    step = group.feed(RegexesResolved(topics={"g.*": frozenset()}, version=9))
    assert step.records == ()
    group.resolve()
    assert written(group) == {"f.*": {"foo"}}


def test_one_resolution_at_a_time(group: GroupScript) -> None:
    """Who comes meanwhile has to wait for the next one."""
    group.native("n1", regex="f.*")
    group.native("n1", 1)
    assert resolving(group) == set()
    group.native("n2", regex="b.*")
    assert resolving(group) == set()
    group.resolve()
    assert written(group) == {"f.*": {"foo"}}
    group.native("n1", 1)
    assert resolving(group) == set()
    group.wait(RESOLUTIONS_APART_MS + 1)
    group.native("n1", 2)
    assert resolving(group) == {"f.*", "b.*"}


def test_a_resolution_that_failed(group: GroupScript) -> None:
    """Nothing is kept, and the next heartbeat asks again."""
    group.native("n1", regex="f.*")
    assert group.resolve(fails=True).durable == ()
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_an_unexpected_resolution_is_ignored(resolved: GroupScript) -> None:
    """After a restart, say."""
    step = resolved.feed(RegexesResolved(topics={"f.*": frozenset()}, version=9))
    assert step.records == ()


def test_two_resolutions_are_ten_seconds_apart(resolved: GroupScript) -> None:
    """However many topics appear."""
    resolved.topics = make_topics(2, 2, foo=3, far=1)
    resolved.wait(RESOLUTIONS_APART_MS)
    resolved.native("n1", 2)
    assert resolving(resolved) == set()
    resolved.wait(1)
    resolved.native("n1", 2)
    assert resolving(resolved) == {"f.*"}


def test_the_age_of_a_resolution_is_that_of_its_names(group: GroupScript) -> None:
    """However long it took to match them."""
    group.native("n1", regex="f.*")
    group.wait(5_000)
    group.resolve()
    group.topics = make_topics(2, 2, foo=3, far=1)
    group.wait(5_001)
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_a_topic_that_appeared_is_picked_up(resolved: GroupScript) -> None:
    """Names that nobody could match yet are a reason to look; the rest is an ordinary bump."""
    resolved.topics = make_topics(2, 2, foo=3, far=1, bar=5)
    resolved.wait(RESOLUTIONS_APART_MS + 1)
    resolved.native("n1", 2)
    resolved.resolve()
    assert causes(resolved) == [EpochCause.REGEX_RESOLVED]
    assert resolved.named(resolved.native("n1", 2).assignment) == {"far": (0,), "foo": (0, 1, 2)}


def test_a_topic_that_matches_nothing(resolved: GroupScript) -> None:
    """Then only the record is new: its version and time."""
    resolved.topics = make_topics(2, 2, foo=3, bar=1)
    resolved.wait(RESOLUTIONS_APART_MS + 1)
    resolved.native("n1", 2)
    resolved.resolve()
    assert (written(resolved), causes(resolved)) == ({"f.*": {"foo"}}, [])
    resolved.wait(RESOLUTIONS_APART_MS + 1)
    resolved.native("n1", 2)
    assert resolving(resolved) == set()


def test_a_topic_that_was_deleted(resolved: GroupScript) -> None:
    """The metadata hash tells at once; the regular expression forgets it when it is refreshed."""
    resolved.topics = make_topics(2, 1, bar=1)
    resolved.wait(40_000)
    reply = resolved.native("n1", 2, owned={"foo": (0, 1, 2)})
    assert (reply.assignment, causes(resolved)) == (frozenset(), [EpochCause.TOPICS_CHANGED])
    assert resolved.current("n1").state is MemberState.UNREVOKED_PARTITIONS
    assert resolved.native("n1", 2, owned={}).member_epoch == 3
    assert resolving(resolved) == set()
    for _ in range(REFRESH_MS // 40_000 - 1):
        resolved.wait(40_000)
        resolved.native("n1", 3)
    assert resolving(resolved) == set()
    resolved.wait(1)
    resolved.native("n1", 3)
    resolved.resolve()
    assert written(resolved) == {"f.*": set()}


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
    """Each member has the topics of either."""
    group = make_group(topics=make_topics(foo=1, bar=1, zar=1))
    group.native("n1", topics=("bar",), regex="f.*")
    assert group.assigned("n1") == {"bar": (0,)}
    group.resolve()
    group.wait(1_000)
    group.native("n1", 2)
    assert group.assigned("n1") == {"bar": (0,), "foo": (0,)}


def test_a_regex_that_another_member_has_bumps_at_once(resolved: GroupScript) -> None:
    """It is resolved already."""
    resolved.wait(1_000)
    reply = resolved.native("n2", regex="f.*")
    assert (reply.member_epoch, causes(resolved)) == (3, [EpochCause.MEMBER_JOINED])
    assert resolving(resolved) == set()
    resolved.native("n3", topics=("none",))
    resolved.native("n3", 3, regex="f.*")
    assert causes(resolved) == [EpochCause.SUBSCRIPTION_CHANGED]


def test_the_last_member_with_a_regex_takes_it_along(resolved: GroupScript) -> None:
    """While another has it, it stays."""
    resolved.native("n2", regex="f.*")
    resolved.native("n1", -1)
    assert written(resolved) == {}
    resolved.native("n2", -1)
    assert written(resolved) == {"f.*": None}
    kinds = [type(record).__name__ for record in resolved.last_step.durable]
    assert kinds.index("MemberMetadata") < kinds.index("RegularExpression")
    assert kinds[-1] == "GroupEpoch"
    assert resolved.consumer.metadata_hash == 0


def test_another_regex(make_group: MakeGroup) -> None:
    """The old one goes and its partitions must be given up at once. The new one is resolved with
    the next heartbeat: when it came, the result of the old one stood and was fresh."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1)
    group.wait(1_000)
    reply = group.native("n1", 2, regex="b.*", owned={"foo": (0,)})
    assert (reply.member_epoch, reply.assignment) == (2, frozenset())
    assert (written(group), causes(group), resolving(group)) == ({"f.*": None}, [], set())
    group.native("n1", 2, owned={})
    assert resolving(group) == {"b.*"}
    group.resolve()
    assert group.named(group.native("n1", 2).assignment) == {"bar": (0,)}


def test_an_empty_regex_clears(resolved: GroupScript) -> None:
    """That bumps; null is no change."""
    resolved.native("n1", 2)
    assert causes(resolved) == []
    resolved.native("n1", 2, regex="", owned={"foo": (0, 1, 2)})
    assert (written(resolved), causes(resolved)) == (
        {"f.*": None},
        [EpochCause.SUBSCRIPTION_CHANGED],
    )
    assert resolved.current("n1").pending_revocation.keys() == partitions({"foo": (0, 1, 2)})


def test_from_one_regex_to_one_that_matches_nothing(make_group: MakeGroup) -> None:
    """DEV D18: the target that it leaves behind is computed anew, though the hash says nothing, for
    somebody else subscribes to the same topic."""
    group = make_group(topics=make_topics(foo=2))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n2", topics=("foo",))
    group.wait(1_000)
    group.native("n1", 1, owned={})
    group.native("n2", 2)
    assert [len(group.consumer.target_of(id_)) for id_ in ("n1", "n2")] == [1, 1]
    group.native("n1", group.current("n1").member_epoch, regex="x.*", owned={})
    group.native("n1", group.current("n1").member_epoch)
    group.resolve()
    assert causes(group) == [EpochCause.REGEX_RESOLVED]
    group.wait(1_000)
    group.native("n2", group.current("n2").member_epoch)
    assert group.assigned("n2") == {"foo": (0, 1)}


def test_from_one_regex_to_another_before_there_was_a_target(group: GroupScript) -> None:
    """The epoch was bumped for topics that nobody subscribes to any more: the hash tells."""
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1, regex="x.*")
    assert causes(group) == []
    group.native("n1", group.current("n1").member_epoch)
    group.resolve()
    assert causes(group) == [EpochCause.REGEX_RESOLVED]
    assert group.consumer.metadata_hash == 0


def test_a_member_that_takes_over_an_instance_drops_its_own_regex(make_group: MakeGroup) -> None:
    """The epoch is bumped for what it leaves behind, and for no topic of its own any more."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned={"foo": (0,)}),
        given_native("n2", topics=(), regex="b.*", assigned={"bar": (0,)}),
        regexes={"b.*": ["bar"]},
    )
    group.native("n1", -2, instance_id="i1")
    group.native("n2", instance_id="i1")
    assert (written(group), causes(group)) == ({"b.*": None}, [EpochCause.MEMBER_REMOVED])
    assert group.consumer.metadata_hash == group.topics.metadata_hash(["foo"])


@pytest.mark.parametrize("regex", ["(", "a{1001}", "(?=a)"])
def test_an_invalid_regex_is_refused(group: GroupScript, regex: str) -> None:
    """Refused with the reason, and nothing has happened."""
    group.given_consumer_group(given_native("n1"))
    for reply in (group.native("n1", 10, regex=regex), group.native("n2", regex=regex)):
        assert reply.error is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert regex in reply.why
    assert group.last_step.records == ()


def test_too_many_regular_expressions(group: GroupScript) -> None:
    """A member may still change its own, and use one that is there."""
    for number in range(REGEXES_MAX):
        group.native(f"n{number}", regex=f"topic-{number}")
    assert group.native("late", regex="late").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert group.native("late", regex="topic-7").error is ErrorCode.NONE
    assert group.native("n3", 1, regex="other").error is ErrorCode.NONE


def test_a_restart_keeps_resolved_regexes(resolved: GroupScript) -> None:
    """The regular expression stands, and nobody resolves it again before it is due."""
    resolved.restart()
    reply = resolved.native("n1", 2)
    assert (reply.member_epoch, resolving(resolved)) == (2, set())
    assert resolved.consumer.regexes["f.*"].topics == {"foo"}


def test_a_restart_forgets_a_running_resolution(group: GroupScript) -> None:
    """The next heartbeat asks again."""
    group.native("n1", regex="f.*")
    group.restart()
    group.native("n1", 1)
    assert resolving(group) == {"f.*"}


def test_offsets_of_a_matched_topic_are_not_deleted(resolved: GroupScript) -> None:
    """Somebody subscribes to it, if not by its name."""
    assert resolved.delete_offsets("foo", "bar").subscribed == {"foo"}


def test_admins_see_the_regex(resolved: GroupScript) -> None:
    """ConsumerGroupDescribe has a field for it."""
    (member,) = resolved.view().members
    assert (member.topic_names, member.topic_regex) == ((), "f.*")
    assert member.assignment == {"foo": (0, 1, 2)}


def test_regexes_and_names_that_mean_the_same_are_balanced_alike(make_group: MakeGroup) -> None:
    """DEV D15: what counts is the topics, however a member names them."""
    group = make_group(topics=make_topics(foo=4))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n2", topics=("foo",))
    group.wait(1_000)
    group.native("n1", 1, owned={})
    group.native("n2", group.current("n2").member_epoch)
    assert [len(group.consumer.target_of(id_)) for id_ in ("n1", "n2")] == [2, 2]


def test_a_group_without_a_regex_requests_no_resolution(group: GroupScript) -> None:
    """Topic names need nobody who knows all topics."""
    group.native("n1")
    assert group.last_step.resolution is None
    assert group.engine.state.resolution is None


def test_a_regex_without_matches_bumps_no_epoch(group: GroupScript) -> None:
    """Its record says so, and that is all."""
    group.native("n1", regex="x.*")
    group.resolve()
    assert (written(group), causes(group)) == ({"x.*": set()}, [])
    assert group.consumer.epoch == 1


def test_one_of_two_leaves_a_target_behind(group: GroupScript) -> None:
    """DEV D18: one that has too much is enough, whoever else has the same regular expression."""
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
