"""The configs of a group. Every refusal is word for word that of Apache Kafka 4.3, which is checked
by `tests/gateway/groups/test_config_apis_with_kafka.py`."""

import pytest

from coordinator.config import INT32_MAX, GroupConfig, MigrationPolicy
from coordinator.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.group_configs import KEYS, QUOTED_MAX, describe, in_force
from coordinator.records import GroupConfigs
from coordinator.simulation.replay import compacted
from coordinator.volatile import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
LOOSE = GroupConfig(
    consumer_session_timeout_ms=10_000,
    consumer_min_session_timeout_ms=1_000,
    consumer_min_heartbeat_interval_ms=1_000,
)


def refused(group: GroupScript, *changes: tuple[str, ConfigOperation, str | None]) -> str:
    """Code and reason of an alteration, which left everything as it was."""
    before = group.engine.state.config_overrides
    event = ConfigsReceived(
        token=900,
        changes=tuple(ConfigChange(name=n, operation=o, value=v) for n, o, v in changes),
    )
    step = group.engine.handle(event, now_ms=group.now_ms, topics=group.topics)
    ((_token, reply),) = step.replies
    assert (bool(reply.error), step.records) == (True, ())
    assert group.engine.state.config_overrides == before
    return f"{reply.error.name}: {reply.why}"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            [(SESSION, SET, "50000"), (SESSION, DELETE, None)],
            "INVALID_REQUEST: Error due to duplicate config keys",
        ),
        (
            [("foo", SET, "1"), (SESSION, SET, None), (HEARTBEAT, ConfigOperation.APPEND, None)],
            f"INVALID_REQUEST: Null value not supported for : {SESSION}, {HEARTBEAT}",
        ),
        (
            [("foo", SET, "1"), (SESSION, ConfigOperation.APPEND, "1")],
            f"INVALID_CONFIG: Can't APPEND to key {SESSION} because its type is not LIST.",
        ),
        (
            [(SESSION, ConfigOperation.SUBTRACT, "1")],
            f"INVALID_CONFIG: Can't SUBTRACT to key {SESSION} because its type is not LIST.",
        ),
        (
            [("foo", SET, "1"), ("bar", SET, "1"), (SESSION, SET, "x")],
            "INVALID_CONFIG: Unknown group config name: bar",
        ),
        (
            [("share.session.timeout.ms", SET, "50000")],
            "INVALID_CONFIG: Unknown group config name: share.session.timeout.ms",
        ),
        (
            [(HEARTBEAT, SET, "x"), (SESSION, SET, "1")],
            f"INVALID_CONFIG: Invalid value x for configuration {HEARTBEAT}: Not a number of type"
            " INT",
        ),
        (
            [(SESSION, SET, "0"), (HEARTBEAT, SET, "1")],
            f"INVALID_CONFIG: Invalid value 0 for configuration {SESSION}: Value must be at least"
            " 1",
        ),
        (
            [(INTERVAL, SET, "-1")],
            f"INVALID_CONFIG: Invalid value -1 for configuration {INTERVAL}: Value must be at"
            " least 0",
        ),
        (
            [(SESSION, SET, "1"), (HEARTBEAT, SET, "4999")],
            f"INVALID_CONFIG: {HEARTBEAT} must be greater than or equal to"
            " group.consumer.min.heartbeat.interval.ms",
        ),
        (
            [(SESSION, SET, "60001"), (INTERVAL, SET, "15001")],
            f"INVALID_CONFIG: {SESSION} must be less than or equal to"
            " group.consumer.max.session.timeout.ms",
        ),
        (
            [(INTERVAL, SET, "15001")],
            f"INVALID_CONFIG: {INTERVAL} must be less than or equal to"
            " group.consumer.max.assignment.interval.ms",
        ),
    ],
)
def test_checks_run_in_kafkas_order(
    group: GroupScript, changes: list[tuple[str, ConfigOperation, str | None]], why: str
) -> None:
    """The first check that fails decides; nothing of the request is done."""
    assert refused(group, *changes) == why


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "50000.5", "50_000", "0x1", "--1", "2147483648", "-2147483649", "9" * 5_000],
)
def test_invalid_numbers_are_refused(group: GroupScript, text: str) -> None:
    """As Java's parser has it; a long text is not repeated."""
    why = refused(group, (SESSION, SET, text))
    assert why.endswith("Not a number of type INT")
    assert len(why) < QUOTED_MAX + 120


def test_the_least_number_of_32_bits_is_a_number_that_is_too_small(group: GroupScript) -> None:
    """As in Java, where an int goes down to -2147483648: the refusal names the least value."""
    why = refused(group, (INTERVAL, SET, str(-(2**31))))
    assert why.endswith("Value must be at least 0")


@pytest.mark.parametrize("text", ["50000", " 50000 ", "+50000", "0000050000", "\t٥٠٠٠٠\n"])  # noqa: RUF001  (Java reads these digits too)
def test_numbers_parse_as_in_java(group: GroupScript, text: str) -> None:
    """The value counts, however it is written."""
    assert group.alter_configs(session_timeout=text).error == 0
    assert group.engine.state.config_overrides == {SESSION: 50_000}


def test_a_heartbeat_comes_within_the_session(make_group: MakeGroup) -> None:
    """Whichever of the two is the broker's."""
    group = make_group(config=LOOSE)
    for changes in ([(HEARTBEAT, SET, "10000")], [(SESSION, SET, "5000")]):
        assert refused(group, *changes) == (
            f"INVALID_CONFIG: {SESSION} must be greater than {HEARTBEAT}"
        )
    assert group.alter_configs(session_timeout=12_000, heartbeat_interval=11_000).error == 0
    assert "must be greater than" in refused(group, (SESSION, DELETE, None))


def test_a_group_is_not_needed(group: GroupScript) -> None:
    """One that comes into being later goes by its configs from its first member on."""
    assert group.alter_configs(session_timeout=60_000, heartbeat_interval=7_000).error == 0
    assert group.engine.state.group is None
    assert group.engine.state.is_quiet
    assert group.native("n1").heartbeat_interval_ms == 7_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000


def test_a_change_counts_at_once(group: GroupScript) -> None:
    """The session from the next heartbeat on, as in Kafka; deleting restores the broker's."""
    group.native("n1")
    group.alter_configs(session_timeout=60_000, heartbeat_interval=7_000)
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000
    assert group.native("n1", 2).heartbeat_interval_ms == 7_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000
    group.alter_configs(session_timeout=None)
    assert group.native("n1", 2).heartbeat_interval_ms == 7_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000
    assert group.engine.state.config_overrides == {HEARTBEAT: 7_000}


def test_the_assignment_interval_of_a_group(group: GroupScript) -> None:
    """No target is computed sooner after the last one."""
    group.alter_configs(assignment_interval=5_000)
    group.native("n1")
    assert group.native("n2").member_epoch == 2
    group.wait(4_999)
    assert group.native("n2", 2).member_epoch == 2
    group.alter_configs(assignment_interval=0)
    assert group.native("n2", 2).member_epoch == 3


def test_a_target_that_is_due_is_due_by_the_new_interval(make_group: MakeGroup) -> None:
    """Where only the timer computes it: classic members left alone in a consumer group."""
    group = make_group(config=GroupConfig(consumer_migration_policy=MigrationPolicy.UPGRADE))
    group.alter_configs(assignment_interval=10_000)
    group.given_consumer_group(
        given_classic("c1"), given_classic("c2"), timestamp_ms=group.now_ms - 1_000
    )
    group.leave("c2")
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 9_000
    group.alter_configs(assignment_interval=2_000)
    assert group.left_ms(DeadlineKind.TARGET_DUE) == 1_000


def test_validate_only_writes_no_record(group: GroupScript) -> None:
    """It answers what the change would be answered."""
    assert group.alter_configs(validate_only=True, session_timeout=60_000).error == 0
    assert group.last_step.records == ()
    reply = group.alter_configs(validate_only=True, session_timeout=1)
    assert reply.error is ErrorCode.INVALID_CONFIG


def test_an_unchanged_override_is_not_written(group: GroupScript) -> None:
    """Nor is anything by an empty list, or by deleting what was never set or is unknown."""
    group.alter_configs(session_timeout=60_000)
    group.alter_configs(session_timeout=60_000)
    assert group.last_step.records == ()
    assert group.alter_configs(heartbeat_interval=None, made_up=None).error == 0
    assert group.alter_configs().error == 0
    assert group.last_step.records == ()


def test_deleting_minds_no_value(group: GroupScript) -> None:
    """A client may send one."""
    group.alter_configs(session_timeout=60_000)
    change = ConfigChange(name=SESSION, operation=DELETE, value="5")
    group.feed(ConfigsReceived(token=900, changes=(change,)))
    assert group.engine.state.config_overrides == {}


def test_configs_outlive_the_group_and_a_restart(group: GroupScript) -> None:
    """Its conversions, its last member, DeleteGroups, and the compaction of its log."""
    group.given_classic_group(given_classic_group_member("a", {"foo": (0, 1, 2)}))
    group.alter_configs(session_timeout=60_000)
    group.native("n1")
    group.leave("a")
    group.native("n1", -1)
    assert group.delete_group().error == 0
    assert group.engine.state.group is None
    group.restart()
    assert group.engine.state.config_overrides == {SESSION: 60_000}
    assert compacted(group.log) == [GroupConfigs(overrides={SESSION: 60_000})]
    group.native("n1")
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000
    group.restart()
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000


def test_deleting_the_last_override_leaves_no_record(group: GroupScript) -> None:
    """The record of an empty set is its own tombstone."""
    group.alter_configs(session_timeout=60_000)
    group.alter_configs(session_timeout=None)
    assert compacted(group.log) == []
    assert group.engine.state.config_overrides == {}


def test_changed_bounds_clamp_an_override(make_group: MakeGroup) -> None:
    """It is shown as it was set, and counts as far as the bounds allow; before anything else is
    changed it has to be put right."""
    group = make_group(config=LOOSE)
    group.load(GroupConfigs(overrides={SESSION: 500, HEARTBEAT: 20_000}))
    assert group.native("n1").heartbeat_interval_ms == 15_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 1_000
    shown = {view.name: view.override for view in group.engine.describe_configs()}
    assert shown == {SESSION: 500, HEARTBEAT: 20_000, INTERVAL: None}
    assert HEARTBEAT in refused(group, (INTERVAL, SET, "5"))


def test_unknown_config_names_have_no_effect(group: GroupScript) -> None:
    """A log may have been written by a later one; what it knows is not lost here."""
    group.load(GroupConfigs(overrides={"consumer.new.in.5.0": 7}))
    assert group.native("n1").heartbeat_interval_ms == 5_000
    group.alter_configs(heartbeat_interval=6_000)
    assert group.engine.state.config_overrides == {"consumer.new.in.5.0": 7, HEARTBEAT: 6_000}


def test_a_broken_log_leaves_the_configs_unchanged(group: GroupScript) -> None:
    """The client is told to try again."""
    group.log_is_broken = True
    reply = group.alter_configs(session_timeout=60_000)
    assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.native("n1")
    group.log_is_broken = False
    group.native("n1")
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000


def test_a_description_has_every_key() -> None:
    """What the group set, what the broker has, and what Kafka has where nobody says anything."""
    views = {view.name: view for view in describe({SESSION: 7}, LOOSE)}
    assert tuple(views) == tuple(KEYS)
    session = views[SESSION]
    assert (session.override, session.broker_value, session.default) == (7, 10_000, 45_000)
    assert session.broker_name == "group.consumer.session.timeout.ms"
    assert (views[INTERVAL].override, views[INTERVAL].broker_value) == (None, 1_000)
    assert all(view.documentation for view in views.values())


def test_every_key_has_bounds_of_the_broker() -> None:
    """Named as Kafka names them."""
    widest = dict.fromkeys(KEYS, INT32_MAX)
    config = in_force(GroupConfig(), widest)
    assert config.consumer_session_timeout_ms == 60_000
    assert config.consumer_heartbeat_interval_ms == 15_000
    assert config.consumer_assignment_interval_ms == 15_000


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_classic_member_keeps_its_own_session(group: GroupScript, kind: str) -> None:
    """It stated one when it joined; the group's is for native members."""
    if kind == "classic":
        group.given_classic_group(given_classic_group_member("c1", {"foo": (0, 1, 2)}))
    else:
        group.given_consumer_group(given_classic("c1"), given_native("n1"))
    before = group.left_ms(DeadlineKind.SESSION, "c1")
    group.alter_configs(session_timeout=60_000)
    group.restart()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == before
