"""The configs of a group. Every refusal has the exact words of Apache Kafka 4.4, which
`tests/gateway/requests/test_config_apis_with_kafka.py` verifies."""

import pytest

from coordinator.handlers.group_configs import KEYS, QUOTED_MAX, describe, in_force
from coordinator.interface.config import INT32_MAX, GroupConfig, MigrationPolicy
from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.interface.records import GroupConfigs
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.simulation.replay import compact_log
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


def refusal_of(group: GroupScript, *changes: tuple[str, ConfigOperation, str | None]) -> str:
    """Code and reason of a refused change, which changed nothing."""
    before = group.engine.state.config_overrides
    event = ConfigsReceived(
        token=900,
        changes=tuple(ConfigChange(name=n, operation=o, value=v) for n, o, v in changes),
    )
    step = group.engine.handle(event, now_ms=group.now_ms, topics=group.topics)
    ((_token, reply),) = step.replies
    assert (bool(reply.error), step.records) == (True, ())
    assert group.engine.state.config_overrides == before
    return f"{reply.error.name}: {reply.reason}"


@pytest.mark.parametrize(
    ("changes", "reason"),
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
            f"INVALID_CONFIG: {HEARTBEAT} must be in the range 5000 to 15000 inclusive.",
        ),
        (
            [(SESSION, SET, "60001"), (INTERVAL, SET, "15001")],
            f"INVALID_CONFIG: {SESSION} must be in the range 45000 to 60000 inclusive.",
        ),
        (
            [(INTERVAL, SET, "15001")],
            f"INVALID_CONFIG: {INTERVAL} must be in the range 0 to 15000 inclusive.",
        ),
    ],
)
def test_checks_run_in_kafkas_order(
    group: GroupScript, changes: list[tuple[str, ConfigOperation, str | None]], reason: str
) -> None:
    """The first failed check decides, and nothing is changed."""
    assert refusal_of(group, *changes) == reason


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "50000.5", "50_000", "0x1", "--1", "2147483648", "-2147483649", "9" * 5_000],
)
def test_invalid_numbers_are_refused(group: GroupScript, text: str) -> None:
    """The syntax is that of Java's parser. The refusal shortens a long text."""
    reason = refusal_of(group, (SESSION, SET, text))
    assert reason.endswith("Not a number of type INT")
    assert len(reason) < QUOTED_MAX + 120


def test_the_least_number_of_32_bits_is_a_number_that_is_too_small(group: GroupScript) -> None:
    """The smallest int is -2147483648, as in Java. The refusal names the minimum of the config."""
    reason = refusal_of(group, (INTERVAL, SET, str(-(2**31))))
    assert reason.endswith("Value must be at least 0")


@pytest.mark.parametrize("text", ["50000", " 50000 ", "+50000", "0000050000", "\t٥٠٠٠٠\n"])  # noqa: RUF001  (Java reads these digits too)
def test_numbers_parse_as_in_java(group: GroupScript, text: str) -> None:
    """The value matters, not its notation."""
    assert group.alter_configs(session_timeout=text).error == 0
    assert group.engine.state.config_overrides == {SESSION: 50_000}


def test_the_session_must_exceed_the_heartbeat_interval(make_group: MakeGroup) -> None:
    """Either one may come from the broker."""
    group = make_group(config=LOOSE)
    for changes in ([(HEARTBEAT, SET, "10000")], [(SESSION, SET, "5000")]):
        assert refusal_of(group, *changes) == (
            f"INVALID_CONFIG: {SESSION} must be greater than {HEARTBEAT}"
        )
    assert group.alter_configs(session_timeout=12_000, heartbeat_interval=11_000).error == 0
    assert "must be greater than" in refusal_of(group, (SESSION, DELETE, None))


def test_configs_need_no_group(group: GroupScript) -> None:
    """A group that is created later has these configs from its first member on."""
    assert group.alter_configs(session_timeout=60_000, heartbeat_interval=7_000).error == 0
    assert group.engine.state.group is None
    assert group.engine.state.is_quiet
    assert group.native("n1").heartbeat_interval_ms == 7_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000


def test_a_change_takes_effect_at_once(group: GroupScript) -> None:
    """A new session timeout applies from the next heartbeat on, as in Kafka. Deleting an override
    restores the broker's value."""
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
    """No target is computed before the interval has passed."""
    group.alter_configs(assignment_interval=5_000)
    group.native("n1")
    assert group.native("n2").member_epoch == 2
    group.wait(4_999)
    assert group.native("n2", 2).member_epoch == 2
    group.alter_configs(assignment_interval=0)
    assert group.native("n2", 2).member_epoch == 3


def test_a_new_interval_applies_to_a_due_target(make_group: MakeGroup) -> None:
    """Only the timer computes the target of a consumer group with only classic members."""
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
    """The answer is that of the real change."""
    assert group.alter_configs(validate_only=True, session_timeout=60_000).error == 0
    assert group.last_step.records == ()
    reply = group.alter_configs(validate_only=True, session_timeout=1)
    assert reply.error is ErrorCode.INVALID_CONFIG


def test_an_unchanged_override_is_not_written(group: GroupScript) -> None:
    """Neither an empty list nor the deletion of an unset or unknown config writes anything."""
    group.alter_configs(session_timeout=60_000)
    group.alter_configs(session_timeout=60_000)
    assert group.last_step.records == ()
    assert group.alter_configs(heartbeat_interval=None, made_up=None).error == 0
    assert group.alter_configs().error == 0
    assert group.last_step.records == ()


def test_deleting_ignores_the_value(group: GroupScript) -> None:
    """A client may send one."""
    group.alter_configs(session_timeout=60_000)
    change = ConfigChange(name=SESSION, operation=DELETE, value="5")
    group.feed(ConfigsReceived(token=900, changes=(change,)))
    assert group.engine.state.config_overrides == {}


def test_configs_survive_the_group_and_a_restart(group: GroupScript) -> None:
    """Configs survive conversions, the last member, DeleteGroups, and compaction."""
    group.given_classic_group(given_classic_group_member("a", {"foo": (0, 1, 2)}))
    group.alter_configs(session_timeout=60_000)
    group.native("n1")
    group.leave("a")
    group.native("n1", -1)
    assert group.delete_group().error == 0
    assert group.engine.state.group is None
    group.restart()
    assert group.engine.state.config_overrides == {SESSION: 60_000}
    assert compact_log(group.log) == [GroupConfigs(overrides={SESSION: 60_000})]
    group.native("n1")
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000
    group.restart()
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 60_000


def test_deleting_the_last_override_leaves_no_record(group: GroupScript) -> None:
    """A record without overrides is its own tombstone."""
    group.alter_configs(session_timeout=60_000)
    group.alter_configs(session_timeout=None)
    assert compact_log(group.log) == []
    assert group.engine.state.config_overrides == {}


def test_changed_bounds_clamp_an_override(make_group: MakeGroup) -> None:
    """The description shows the override as it was set, and the bounds limit its effect. The next
    change must correct it first."""
    group = make_group(config=LOOSE)
    group.load(GroupConfigs(overrides={SESSION: 500, HEARTBEAT: 20_000}))
    assert group.native("n1").heartbeat_interval_ms == 15_000
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 1_000
    shown = {view.name: view.override for view in group.engine.describe_configs()}
    assert shown == {SESSION: 500, HEARTBEAT: 20_000, INTERVAL: None}
    assert HEARTBEAT in refusal_of(group, (INTERVAL, SET, "5"))


def test_unknown_config_names_have_no_effect(group: GroupScript) -> None:
    """A newer version may have written the log. Its names are kept."""
    group.load(GroupConfigs(overrides={"consumer.new.in.5.0": 7}))
    assert group.native("n1").heartbeat_interval_ms == 5_000
    group.alter_configs(heartbeat_interval=6_000)
    assert group.engine.state.config_overrides == {"consumer.new.in.5.0": 7, HEARTBEAT: 6_000}


def test_a_broken_log_leaves_the_configs_unchanged(group: GroupScript) -> None:
    """The client retries."""
    group.log_is_broken = True
    reply = group.alter_configs(session_timeout=60_000)
    assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.native("n1")
    group.log_is_broken = False
    group.native("n1")
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000


def test_a_description_has_every_config() -> None:
    """Each has the group's override, the broker's value, and Kafka's default."""
    views = {view.name: view for view in describe({SESSION: 7}, LOOSE)}
    assert tuple(views) == tuple(KEYS)
    session = views[SESSION]
    assert (session.override, session.broker_value, session.default) == (7, 10_000, 45_000)
    assert session.broker_name == "group.consumer.session.timeout.ms"
    assert (views[INTERVAL].override, views[INTERVAL].broker_value) == (None, 1_000)
    assert all(view.documentation for view in views.values())


def test_every_config_has_broker_bounds() -> None:
    """Their names are Kafka's."""
    widest = dict.fromkeys(KEYS, INT32_MAX)
    config = in_force(GroupConfig(), widest)
    assert config.consumer_session_timeout_ms == 60_000
    assert config.consumer_heartbeat_interval_ms == 15_000
    assert config.consumer_assignment_interval_ms == 15_000


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_classic_member_keeps_its_own_session(group: GroupScript, kind: str) -> None:
    """The member stated its session timeout when it joined. The group's config is for native
    members."""
    if kind == "classic":
        group.given_classic_group(given_classic_group_member("c1", {"foo": (0, 1, 2)}))
    else:
        group.given_consumer_group(given_classic("c1"), given_native("n1"))
    before = group.left_ms(DeadlineKind.SESSION, "c1")
    group.alter_configs(session_timeout=60_000)
    group.restart()
    assert group.left_ms(DeadlineKind.SESSION, "c1") == before
