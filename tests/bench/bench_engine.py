"""How fast the engine of one group is: heartbeats per second, and how long it takes to form.

    .venv/bin/python tests/bench/bench_engine.py

Processor time of one process; each step is decided and applied, nothing is written to a disk.
Heartbeats are those of groups in which nothing happens, the median of several rounds.
"""

import statistics
import sys
from collections.abc import Sequence

from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ClassicPhase
from tests.bench.engine_stage import (
    CLASSIC,
    PARTITIONS_PER_MEMBER,
    TOPIC_NAMES,
    Stage,
    members_of,
    seconds,
)
from tests.support.group_values import embedded_assignment

STABLE_MEMBERS = 1_000
ROUNDS = 20
CLASSIC_JOINERS = 1_000
NATIVE_JOINERS = 10_000
JOIN_EVERY_MS = 1

StableGroup = tuple[Stage, Sequence[str], int]
"""A group, its members, and their common epoch or generation."""


def native_members() -> StableGroup:
    """A consumer group of native members."""
    stage = Stage(STABLE_MEMBERS)
    stage.load_without_target(STABLE_MEMBERS)
    stage.settle()
    return stage, members_of(STABLE_MEMBERS), stage.group.epoch


def classic_members_in_a_consumer_group() -> StableGroup:
    """Members that joined and synced one by one."""
    stage = Stage(STABLE_MEMBERS)
    stage.load_without_target(STABLE_MEMBERS, CLASSIC)
    for member_id in members_of(STABLE_MEMBERS):
        stage.join(member_id)
        stage.sync(member_id, stage.group.assignments[member_id].member_epoch)
    assert stage.group.state == "Stable"
    _check_answers(stage)
    return stage, members_of(STABLE_MEMBERS), stage.group.epoch


def classic_members_in_a_classic_group(size: int = STABLE_MEMBERS) -> StableGroup:
    """Members that took ids, joined together, and got assignments from their leader."""
    stage = Stage(size)
    ids = [_answer(stage, stage.join("")).member_id for _ in range(size)]
    tokens = [stage.join(member_id) for member_id in ids]
    stage.wait(30_000)
    (leader,) = {_answer(stage, token).leader for token in tokens}
    generation = 1
    share = embedded_assignment({TOPIC_NAMES[0]: range(PARTITIONS_PER_MEMBER)})
    for member_id in ids:
        assignments = tuple((id_, share) for id_ in ids) if member_id == leader else ()
        stage.sync(member_id, generation, assignments)
    group = stage.engine.state.group
    assert isinstance(group, ClassicGroup)
    assert group.phase is ClassicPhase.STABLE
    _check_answers(stage)
    return stage, ids, generation


def _check_answers(stage: Stage) -> None:
    """No request was refused."""
    refused = [answer for answer in stage.answers.values() if getattr(answer, "error", None)]
    assert not refused, refused[0]
    stage.answers.clear()


def _answer(stage: Stage, token: int) -> JoinGroupReply:
    reply = stage.answers.pop(token)
    assert isinstance(reply, JoinGroupReply)
    return reply


def measure_heartbeats(name: str, group: StableGroup, *, is_native: bool) -> None:
    """Print the number of answers per second."""
    stage, ids, epoch = group
    beat = stage.native if is_native else stage.beat

    def everybody() -> None:
        for member_id in ids:
            beat(member_id, epoch)

    rates = []
    for _ in range(ROUNDS):
        stage.wait(500)
        rates.append(len(ids) / seconds(everybody))
    say(f"{len(ids):,} {name}: {statistics.median(rates):,.0f} heartbeats/s")


def measure_native_joins() -> None:
    """Print the duration. The target is computed at most once a second."""
    stage = Stage(NATIVE_JOINERS, interval_ms=1_000)

    def everybody() -> None:
        for member_id in members_of(NATIVE_JOINERS):
            stage.native(member_id, 0)
            stage.wait(JOIN_EVERY_MS)
        stage.wait(1_000)

    joining_s = seconds(everybody)
    settling_s = seconds(stage.settle)
    say(
        f"{NATIVE_JOINERS:,} native members join one after the other: {joining_s:.1f} s,"
        f" and have their parts {settling_s:.1f} s later"
    )


def measure_classic_joins() -> None:
    """Print the time until the group is Stable."""
    joining_s = seconds(lambda: classic_members_in_a_classic_group(CLASSIC_JOINERS))
    say(f"{CLASSIC_JOINERS:,} classic members join one classic group: {joining_s:.2f} s")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run everything and print it."""
    measure_heartbeats("native members", native_members(), is_native=True)
    measure_heartbeats(
        "classic members of a classic group", classic_members_in_a_classic_group(), is_native=False
    )
    measure_heartbeats(
        "classic members of a consumer group",
        classic_members_in_a_consumer_group(),
        is_native=False,
    )
    measure_classic_joins()
    measure_native_joins()


if __name__ == "__main__":
    main()
