"""The configs of one group: validation, effective values and description (KIP-848, "Group
Configurations"; rules 1.2, 1.5).

Overrides belong to the group id. They exist independently of the group and survive its conversions,
its last member and DeleteGroups. Defaults and bounds come from `GroupConfig`, whose fields have the
same names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface import roll_policy
from coordinator.interface.config import INT32_MAX, GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.interface.records import GroupConfigs
from coordinator.interface.replies import ConfigsReply, ConfigView
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode

Overrides = Mapping[str, int]

QUOTED_MAX = 64
"""How many characters of a client's text a refusal quotes."""

# The syntax of Java's Integer.parseInt, which accepts Unicode digits.
_NUMBER = re.compile(r"([+-]?)0*(\d{1,10})")
_JAVA_WHITESPACE = "".join(map(chr, range(ord(" ") + 1)))
_KAFKAS_DEFAULTS = GroupConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One config of a group, in milliseconds. Brokers permit no bound below `value_min`."""

    name: str
    value_min: int
    documentation: str

    @property
    def broker_name(self) -> str:
        return f"group.{self.name}"

    @property
    def low_name(self) -> str:
        return self.broker_name.replace(".consumer.", ".consumer.min.")

    @property
    def high_name(self) -> str:
        return self.broker_name.replace(".consumer.", ".consumer.max.")


SESSION_TIMEOUT = ConfigKey(
    name="consumer.session.timeout.ms",
    value_min=1,
    documentation="The timeout to detect client failures when using the consumer group protocol.",
)
ASSIGNMENT_INTERVAL = ConfigKey(
    name="consumer.assignment.interval.ms",
    value_min=0,
    documentation="The interval between assignment updates for a consumer group.",
)
HEARTBEAT_INTERVAL = ConfigKey(
    name="consumer.heartbeat.interval.ms",
    value_min=1,
    documentation="The heartbeat interval given to the members of a consumer group.",
)
KEYS = {key.name: key for key in (SESSION_TIMEOUT, ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL)}
"""Kafka describes and parses them in this order."""

_BOUNDS_CHECKED = (HEARTBEAT_INTERVAL, SESSION_TIMEOUT, ASSIGNMENT_INTERVAL)


def in_force(config: GroupConfig, overrides: Overrides) -> GroupConfig:
    """The effective configs. The broker's bounds may have changed since, so they clamp
    overrides."""
    if not overrides:
        return config
    since = overrides.get(roll_policy.ROLLED_SINCE)
    since_ms = config.rolled_since_ms if since is None else since * roll_policy.MINUTE_MS
    return replace(
        config,
        roll_policy=config.roll_policy.overridden(overrides),
        rolled_since_ms=since_ms,
        consumer_session_timeout_ms=_clamp(SESSION_TIMEOUT, config, overrides),
        consumer_assignment_interval_ms=_clamp(ASSIGNMENT_INTERVAL, config, overrides),
        consumer_heartbeat_interval_ms=_clamp(HEARTBEAT_INTERVAL, config, overrides),
    )


def describe(overrides: Overrides, config: GroupConfig) -> tuple[ConfigView, ...]:
    """Every config. An override is shown as it was set, even where bounds now clamp it."""
    return tuple(
        ConfigView(
            name=name,
            override=overrides.get(name),
            broker_name=key.broker_name,
            broker_value=_value(key.broker_name, config),
            default=_value(key.broker_name, _KAFKAS_DEFAULTS),
            documentation=key.documentation,
        )
        for name, key in KEYS.items()
    )


def alter(step: StepBuilder, event: ConfigsReceived, config: GroupConfig) -> None:
    """Change the overrides, all or none; `config` is the broker's.

    Raises GroupError INVALID_REQUEST for a key that is named twice or set to null, INVALID_CONFIG
    for an unknown key or a value that cannot be; in Kafka's order of checks.
    """
    _check_form(event.changes)
    before = step.state.config_overrides
    after = dict(_apply_changes(before, event.changes))
    _check_bounds(after, config)
    if event.policy is not None:
        after = {name: value for name, value in after.items() if name not in roll_policy.NAMES}
        group = step.state.group
        native = group.native_count if isinstance(group, ConsumerGroup) else event.native_members
        after |= config.roll_policy.overrides_for(event.policy, native + event.native_away)
    if event.announces_roll is not None:
        after.pop(roll_policy.ROLLED_SINCE, None)
    if event.announces_roll:
        after[roll_policy.ROLLED_SINCE] = step.now_ms // roll_policy.MINUTE_MS
    if after != before and not event.validate_only:
        step.emit(GroupConfigs(overrides=after))
        step.config = in_force(config, after)
        step.disarm(DeadlineKind.TARGET_DUE)  # the assignment interval may have changed
    step.answer(event.token, ConfigsReply())


def _check_form(changes: Sequence[ConfigChange]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise GroupError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        _quote(change.name)
        for change in changes
        if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if nulls:
        reason = f"Null value not supported for : {', '.join(nulls[:QUOTED_MAX])}"
        raise GroupError(ErrorCode.INVALID_REQUEST, reason)
    for change in changes:
        if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise _invalid(
                f"Can't {change.operation.name} to key {_quote(change.name)} because its type is"
                " not LIST."
            )


def _apply_changes(before: Overrides, changes: Sequence[ConfigChange]) -> Iterator[tuple[str, int]]:
    """The overrides after these changes. Deleting an unset or unknown config is no error."""
    texts = {
        change.name: None if change.operation is ConfigOperation.DELETE else change.value
        for change in changes
    }
    unknown = sorted(name for name, text in texts.items() if text is not None and name not in KEYS)
    if unknown:
        raise _invalid(f"Unknown group config name: {_quote(unknown[0])}")
    remaining = before.keys() - (texts.keys() - set(roll_policy.HIDDEN_NAMES))
    yield from ((name, before[name]) for name in before if name in remaining)
    for name, key in KEYS.items():
        text = texts.get(name)
        if text is not None:
            yield name, _parse_value(key, text)


def _parse_value(key: ConfigKey, text: str) -> int:
    number = _NUMBER.fullmatch(text.strip(_JAVA_WHITESPACE))
    value = int(number[1] + number[2]) if number else INT32_MAX + 1
    prefix = f"Invalid value {_quote(text)} for configuration {key.name}: "
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise _invalid(f"{prefix}Not a number of type INT")
    if value < key.value_min:
        raise _invalid(f"{prefix}Value must be at least {key.value_min}")
    return value


def _check_bounds(overrides: Overrides, config: GroupConfig) -> None:
    """Check all overrides, also unchanged ones, because the broker's bounds may have changed."""
    for key in _BOUNDS_CHECKED:
        if key.name in overrides:
            low, high = _bounds(key, config)
            if not low <= overrides[key.name] <= high:
                raise _invalid(f"{key.name} must be in the range {low} to {high} inclusive.")
    after = in_force(config, overrides)
    if after.consumer_session_timeout_ms <= after.consumer_heartbeat_interval_ms:
        raise _invalid(f"{SESSION_TIMEOUT.name} must be greater than {HEARTBEAT_INTERVAL.name}")


def _clamp(key: ConfigKey, config: GroupConfig, overrides: Overrides) -> int:
    if key.name not in overrides:
        return _value(key.broker_name, config)
    low, high = _bounds(key, config)
    return max(low, min(high, overrides[key.name]))


def _bounds(key: ConfigKey, config: GroupConfig) -> tuple[int, int]:
    return _value(key.low_name, config), _value(key.high_name, config)


def _value(broker_name: str, config: GroupConfig) -> int:
    value: int = getattr(config, broker_name.removeprefix("group.").replace(".", "_"))
    return value


def _invalid(reason: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_CONFIG, reason)


def _quote(text: str) -> str:
    return text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}..."
