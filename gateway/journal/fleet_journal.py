"""The journal of a process of a fleet, which takes shards from others while it runs.

Lines of a group have growing runs, whichever processes have had it. So the shards that a process
takes at one time have a run of their own, with a journal of its own in the same files.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from gateway.events.event import DecisionEvents, Envelope, Listener
from gateway.events.gateway_events import ShardsGivenUp, ShardsTaken
from gateway.fleet.member import is_in_shard, shard_of
from gateway.journal.journal import Journal, Sinks


class FleetJournal(Journal):
    """Passes on what concerns a group to the journal of its shard's run. It is itself that of the
    process and of the shards that it had from the beginning."""

    def __init__(self, shards: int, gateway_id: str, sinks: Sinks, **options: Any) -> None:
        """`shards`: how many the fleet has. The rest is as for `Journal`."""
        super().__init__(gateway_id, sinks, **options)
        self._shards = shards
        self._sinks, self._options = sinks, options
        self._runs: dict[int, Journal] = {}
        """The journals of the shards that were taken, by shard."""
        self._given_up: set[int] = set()
        """Shards that this process had, and has not taken again."""

    def begin_run(self, run: int, shards: Sequence[int], taken: ShardsTaken) -> None:
        """Begin a run for shards that this process takes."""
        options = {**self._options, "run": run, "written": self._written}
        journal = Journal(self.gateway_id, self._sinks, **options)
        journal.snapshot_of = self.snapshot_of
        for listener in self._listeners:
            journal.listen(listener)
        self._runs.update(dict.fromkeys(shards, journal))
        self._given_up.difference_update(shards)
        journal.emit(taken)

    def give_up(self, shard: int, *, groups: int, took_ms: int) -> None:
        """End what the journal has of a shard that another process takes. `groups`: how many of its
        groups have members."""
        concerns = partial(is_in_shard, shard, self._shards)
        journal = self._runs.pop(shard, None)
        if journal is None:
            super().end_hostings(concerns)
            super().forget_groups(concerns)
        else:
            journal.end_hostings(concerns)
            journal.forget_groups(concerns)
        ends_run = journal is not None and journal not in self._runs.values()
        (journal or self).emit(
            ShardsGivenUp(shards=(shard,), groups=groups, took_ms=took_ms, ends_run=ends_run)
        )
        self._given_up.add(shard)

    def _find(self, group_id: str | None) -> Journal | None:
        """The journal of the group, None if it is this one."""
        if not self._runs or group_id is None:
            return None
        return self._runs.get(shard_of(group_id, self._shards))

    def listen(self, listener: Listener) -> None:
        """See `Journal`."""
        super().listen(listener)
        for journal in set(self._runs.values()):
            journal.listen(listener)

    def emit_decision(self, decision: DecisionEvents, group_id: str | None) -> None:
        """See `Journal`. An event that comes too late, about a group of a shard that was given up,
        has no line: the lines of the next process may have its number."""
        given_up = self._given_up
        if given_up and group_id is not None and shard_of(group_id, self._shards) in given_up:
            return
        if (journal := self._find(group_id)) is None:
            super().emit_decision(decision, group_id)
        else:
            journal.emit_decision(decision, group_id)

    def stamp_batch(
        self, batch: Sequence[DecisionEvents], group_id: str
    ) -> Sequence[Sequence[Envelope]]:
        """See `Journal`."""
        if (journal := self._find(group_id)) is None:
            return super().stamp_batch(batch, group_id)
        return journal.stamp_batch(batch, group_id)

    def drop_batch(self, group_id: str) -> None:
        """See `Journal`."""
        if (journal := self._find(group_id)) is None:
            super().drop_batch(group_id)
        else:
            journal.drop_batch(group_id)

    def pass_on(self, envelopes: Sequence[Envelope], owner: Hashable | None = None) -> None:
        """See `Journal`."""
        group_id = envelopes[0].group_id if envelopes else None
        if (journal := self._find(group_id)) is None:
            super().pass_on(envelopes, owner)
        else:
            journal.pass_on(envelopes, owner)

    def take_up(self, group_id: str) -> None:
        """See `Journal`."""
        if (journal := self._find(group_id)) is None:
            super().take_up(group_id)
        else:
            journal.take_up(group_id)

    def forget(self, group_id: str) -> None:
        """See `Journal`."""
        if (journal := self._find(group_id)) is None:
            super().forget(group_id)
        else:
            journal.forget(group_id)

    def sequence_of(self, group_id: str) -> int:
        """See `Journal`."""
        journal = self._find(group_id)
        return super().sequence_of(group_id) if journal is None else journal.sequence_of(group_id)

    def has_told(self, group_id: str) -> bool:
        """See `Journal`."""
        journal = self._find(group_id)
        return super().has_told(group_id) if journal is None else journal.has_told(group_id)

    def quiet_ms(self, group_id: str) -> int:
        """See `Journal`."""
        journal = self._find(group_id)
        return super().quiet_ms(group_id) if journal is None else journal.quiet_ms(group_id)

    def end_hostings(self, concerns: Callable[[str], bool] = lambda _group_id: True) -> None:
        """See `Journal`. Ends the runs as well."""
        super().end_hostings(concerns)
        for journal in set(self._runs.values()):
            shards = tuple(shard for shard, taken_by in self._runs.items() if taken_by is journal)
            journal.end_hostings(concerns)
            journal.emit(ShardsGivenUp(shards=shards, groups=0, took_ms=0, ends_run=True))
