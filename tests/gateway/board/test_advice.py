"""The step of a roll that comes next, and what the last one did cost."""

from dataclasses import replace

from coordinator.interface.config import GroupConfig
from coordinator.interface.roll_policy import RollMode
from gateway.board.advice import last_step, next_step
from tests.gateway.board.test_group_stats import client_seen
from tests.gateway.events.test_sentences import step
from tests.support.group_script import GroupScript
from tests.support.group_snapshots import glance_of

CONFIG = GroupConfig()


def test_a_roll_that_nobody_has_announced_begins_with_its_announcement() -> None:
    """Without the announcement the first step would cost a rebalance, as in Kafka."""
    group = GroupScript()
    group.stable_classic_group({"c1": {"foo": [0, 1]}, "c2": {"foo": [2]}})
    advice = next_step(
        glance_of(state=group.engine.state, topics=group.topics, now_ms=group.now_ms), CONFIG
    )
    assert advice is not None
    assert advice.startswith("next: groupferry roll g, so that nobody else is disturbed")
    assert "with group.protocol=consumer" in advice


def test_the_next_consumer_of_a_roll_is_named_with_its_cost() -> None:
    group = GroupScript()
    group.stable_classic_group({"c1": {"foo": [0, 1]}, "c2": {"foo": [2]}})
    config = replace(CONFIG, rolled_since_ms=group.now_ms)
    advice = next_step(
        glance_of(state=group.engine.state, topics=group.topics, now_ms=group.now_ms), config
    )
    assert advice is not None
    assert "expected 1 to 2 s without an owner" in advice
    assert advice.endswith("nobody else disturbed")


def test_a_client_without_the_new_protocol_is_not_told_to_switch() -> None:
    """Such a client stays a classic member, even as the last one."""
    group = GroupScript()
    ids = group.stable_classic_group({"c1": {"foo": [0, 1]}, "c2": {"foo": [2]}})
    state = glance_of(state=group.engine.state, topics=group.topics, now_ms=group.now_ms)
    config = replace(CONFIG, rolled_since_ms=group.now_ms)
    first, second = (
        replace(client_seen(ids[name]), software_name="kafka-python", software_version="3.0.12")
        for name in ("c1", "c2")
    )
    advice = next_step(state, config, {first.member_id: first})
    assert advice is not None
    assert "for its 1 partition," in advice
    both = {first.member_id: first, second.member_id: second}
    advice = next_step(state, config, both)
    assert advice is not None
    assert advice.endswith("classic: no version of kafka-python has the new protocol (clients.md)")


def test_nothing_is_advised_while_an_operator_holds_the_group() -> None:
    group = GroupScript()
    group.stable_classic_group({"c1": {"foo": [0, 1, 2]}})
    held = glance_of(state=group.engine.state, policy=RollMode.HOLD)
    assert next_step(held, CONFIG) is None


def test_nothing_is_left_to_do_without_classic_members() -> None:
    group = GroupScript()
    group.native("n1")
    assert next_step(glance_of(state=group.engine.state), CONFIG) is None
    assert next_step(glance_of(), CONFIG) is None


def test_the_last_step_says_what_it_did_cost() -> None:
    assert last_step(None) is None
    advice = last_step(step())
    assert advice is not None
    assert advice.startswith(
        "last: orders-2, 1.2 partition-seconds without an owner, nobody else disturbed"
    )
    assert "2 members disturbed" in (last_step(step(members_disturbed=2)) or "")
