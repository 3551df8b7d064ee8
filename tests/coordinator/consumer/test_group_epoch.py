"""The group epoch is bumped at most once per request."""

import pytest

from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, GroupEpoch
from coordinator.interface.volatile_records import TopicsChecked
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript, make_topics


def records_after_bumps(group: GroupScript, *causes: EpochCause | None) -> list[object]:
    """The records that result from these causes in turn."""
    step = StepBuilder(group.engine.state, config=group.config, topics=group.topics, now_ms=0)
    for cause in causes:
        bump_epoch_if_needed(step, cause)
    return [
        (record.epoch, record.cause) if isinstance(record, GroupEpoch) else record
        for record in step.records
    ]


@pytest.mark.parametrize("cause", [EpochCause.MEMBER_JOINED, EpochCause.REGEX_RESOLVED])
def test_a_cause_bumps(group: GroupScript, cause: EpochCause) -> None:
    """The topics count as checked."""
    group.given_consumer_group(given_native("n1"))
    assert records_after_bumps(group, cause, None) == [
        (11, cause),
        TopicsChecked(group.topics.version),
    ]


def test_without_a_cause_the_topics_decide(group: GroupScript) -> None:
    """Only changes of subscribed topics bump the epoch."""
    group.given_consumer_group(given_native("n1"))
    assert records_after_bumps(group, None) == [TopicsChecked(group.topics.version)]
    group.topics = make_topics(version=2, foo=4)
    assert records_after_bumps(group, None, None) == [
        (11, EpochCause.TOPICS_CHANGED),
        TopicsChecked(2),
    ]
    group.topics = make_topics(version=3, foo=3, bar=1)
    assert records_after_bumps(group, None) == [TopicsChecked(3)]
