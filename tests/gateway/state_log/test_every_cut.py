"""Every prefix of a log restores the group of that time, from its bytes.

A log ends between two batches, because a storage drops a torn batch as a whole. Earlier parts may
be compacted, up to any point. The logs come from the simulator, and from a recorded roll of the
demo.
"""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import DurableRecord
from coordinator.interface.topics import Topics
from gateway.hosting.batch import Decision
from gateway.state_log.kafka.content import content_of
from gateway.state_log.record_format import Entry, StoredEntry, encode_record
from tests.simulation.invariants import check_group
from tests.simulation.plan import draw_plan
from tests.simulation.process import Process
from tests.simulation.replay import DurableState, check_same, durable_state
from tests.simulation.run import Run
from tests.simulation.watch import Watch
from tests.simulation.world import World

GROUP = "orders"
DEMO_ROLL = Path(__file__).parents[2] / "golden" / "demo_roll_v1.jsonl"

Bytes = Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Cut:
    """A written batch, and the group after it."""

    batch: Bytes
    state: DurableState


class Recorder(Watch):
    """Records every batch of a run, in addition to the watch's checks."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.world, run.driver, run.network, run.owners)
        self.silence.lag_ms = run.watch.silence.lag_ms
        self.cuts: list[Cut] = []
        self._log = run.driver.log

    def record_applied(self, process: Process, decision: Decision, topics: Topics) -> None:
        super().record_applied(process, decision, topics)
        if decision.step.durable:
            self._cut(decision.step.durable)

    def record_loaded(self, process: Process) -> None:
        """The log may have a doubtful write that did not take effect before."""
        super().record_loaded(process)
        written = [record for batch in self._log.batches[len(self.cuts) :] for record in batch]
        for _ in self._log.batches[len(self.cuts) :]:
            self._cut(written)
            written = []

    def _cut(self, records: Iterable[DurableRecord]) -> None:
        state = durable_state(self._driver.engine.state)
        self.cuts.append(Cut([encode_record(GROUP, record) for record in records], state))


def record_run(seed: int) -> tuple[GroupConfig, Sequence[Cut]]:
    """A run of the simulator with all faults except those of the process itself."""
    plan = replace(
        draw_plan(World(seed)),
        has_crashes=False,
        has_policy_changes=False,
        has_two_gateways=False,
    )
    run = Run(seed, plan)
    run.watch = recorder = Recorder(run)
    run.play()
    return plan.config, recorder.cuts


def compact_entries(entries: Bytes, dice: random.Random) -> Bytes:
    """The part that compaction leaves: the last record of each key, and recent tombstones."""
    last = {entry.key: number for number, entry in enumerate(entries)}
    young = dice.randint(0, len(entries))
    return [
        entry
        for number, entry in enumerate(entries)
        if last[entry.key] == number and (entry.value is not None or number >= young)
    ]


def left_over(batches: Sequence[Bytes], dice: random.Random) -> Iterator[Bytes]:
    """The log, with and without compaction of its older part."""
    entries = [entry for batch in batches for entry in batch]
    yield entries
    cleaned = dice.randint(0, len(entries))
    yield [*compact_entries(entries[:cleaned], dice), *entries[cleaned:]]


def load(entries: Bytes, config: GroupConfig) -> GroupEngine:
    """The group that a gateway loads."""
    engine = GroupEngine(GROUP, config)
    engine.load(
        content_of([StoredEntry(0, *entry) for entry in entries]).groups.read(GROUP), now_ms=1
    )
    return engine


@pytest.mark.parametrize("seed", range(20))
def test_every_cut_restores_the_group(seed: int) -> None:
    """Members, epochs and assignments are the same for every cut and every compaction."""
    config, cuts = record_run(seed)
    dice = random.Random(seed)
    for number, cut in enumerate(cuts):
        batches = [cut.batch for cut in cuts[: number + 1]]
        for entries in left_over(batches, dice):
            engine = load(entries, config)
            check_same(engine.state, cut.state)
            check_group(engine.state)


def test_every_cut_of_a_log_of_the_first_version_loads() -> None:
    """Six real consumers roll from classic to native and back. At the end the group is empty."""
    dice = random.Random(1)
    lines = [json.loads(line) for line in DEMO_ROLL.read_text().splitlines()]
    batches = [
        [
            Entry(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
            for key, value in line
        ]
        for line in lines
    ]
    kinds = set()
    for number in range(len(batches)):
        plain, cleaned = left_over(batches[: number + 1], dice)
        engine = load(plain, GroupConfig())
        check_group(engine.state)
        check_same(load(cleaned, GroupConfig()).state, durable_state(engine.state))
        kinds.add(type(engine.state.group).__name__)
    assert {"ClassicGroup", "ConsumerGroup"} <= kinds
    assert engine.state.group is None or not engine.state.group.members
