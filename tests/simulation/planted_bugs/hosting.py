"""Bugs of the hosting machine: the anchor, the log, commits in flight, batches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coordinator.engine import GroupEngine
from coordinator.interface.events import GroupLost, Happening, OffsetCommitEnded
from gateway.hosting import answers
from gateway.hosting.anchor import Anchor
from gateway.hosting.answers import GroupApi
from gateway.hosting.batch import Batch
from gateway.hosting.call_stages import CallStages
from gateway.hosting.calls import LOST, Call, Commit, Commits, Refused, StoreCommits, Unanswerable
from gateway.hosting.commits import CommitsInFlight
from gateway.hosting.group import HostedGroup
from gateway.hosting.identity import AnchorIds
from gateway.hosting.inputs import Damage
from gateway.hosting.logged_engine import Item, LoggedEngine
from gateway.hosting.lookup_outcome import LiveMembers, LookupOutcome
from gateway.hosting.upstream_member import UpstreamMember
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatResponse
from tests.simulation import network
from tests.simulation.cluster import GROUP
from tests.simulation.coordinator import anchored_group
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by
from tests.simulation.process import LOG_ID

# -- the anchor ------------------------------------------------------------------------------------


@noticed_by(Invariant.ANCHORED)
def a_grant_precedes_the_anchor(patch: Patch) -> None:
    """An answer that grants partitions leaves before the anchor is confirmed."""

    def on_decision(stages: CallStages, call: Call, outcome: Any, _now_ms: int) -> None:
        stages.answer(call, outcome)

    patch.setattr(CallStages, "_on_decision", on_decision)


@noticed_by(Invariant.ANCHORED)
def an_old_confirmation_counts(patch: Patch) -> None:
    """A grant leaves on a confirmation that is older than its decision."""
    patch.setattr(Anchor, "confirm", lambda _anchor: -1)


@noticed_by(Invariant.ANCHORED)
def a_lost_anchor_still_counts(patch: Patch) -> None:
    """The last known ids of the anchor are used, whatever has happened to it since."""

    def ids(anchor: Anchor, _now_ms: int, *, since: int = -1) -> AnchorIds | None:
        return anchor._held

    patch.setattr(Anchor, "ids", ids)


@noticed_by(Invariant.ANCHORED)
def a_removed_anchor_goes_unnoticed(patch: Patch) -> None:
    """Any answer to its heartbeat counts as a confirmation of the anchor."""
    real = UpstreamMember.on_answer

    def on_answer(member: UpstreamMember, answer: Struct, now_ms: int) -> Struct | None:
        if isinstance(answer, HeartbeatResponse):
            answer = replace(answer, error_code=0)
        return real(member, answer, now_ms)

    patch.setattr(UpstreamMember, "on_answer", on_answer)


@noticed_by(Invariant.ANCHORED)
def a_grant_in_doubt_is_not_withheld(patch: Patch) -> None:
    """A client that has waited long enough for the anchor gets its partitions without it."""
    real = CallStages._give_up

    def give_up(calls: CallStages, call: Call) -> None:
        if call.unconfirmed is not None:
            calls.answer(call, call.unconfirmed.reply)
        else:
            real(calls, call)

    patch.setattr(CallStages, "_give_up", give_up)


@noticed_by(Invariant.ANCHORED)
def a_grant_to_a_member_that_has_left_is_not_confirmed(patch: Patch) -> None:
    """Once a group is empty, its answers leave without a confirmation."""
    real = CallStages._on_decision

    def on_decision(stages: CallStages, call: Call, outcome: Any, now_ms: int) -> None:
        if stages._engine.is_live or isinstance(outcome, Refused | Unanswerable):
            real(stages, call, outcome, now_ms)
        else:
            stages.answer(call, outcome)

    patch.setattr(CallStages, "_on_decision", on_decision)


@noticed_by(Invariant.INTRUDER, Invariant.OFFSETS)
def an_intruder_goes_unnoticed(patch: Patch) -> None:
    """The members of a group stay although another consumer is in it."""
    real = LoggedEngine.observe

    def observe(engine: LoggedEngine, event: Happening) -> None:
        if not isinstance(event, GroupLost):
            real(engine, event)

    patch.setattr(LoggedEngine, "observe", observe)


# -- the lease -------------------------------------------------------------------------------------


@noticed_by(Invariant.LEASE)
def a_gateway_answers_without_its_lease(patch: Patch) -> None:
    """A gateway continues answering members after another one has taken its log."""
    patch.setattr(answers, "OF_MEMBERSHIP", frozenset())


@noticed_by(Invariant.LEASE)
def a_gateway_refuses_commits_without_its_lease(patch: Patch) -> None:
    """A gateway continues refusing commits after another one has taken its log."""

    def needs_lease(api: GroupApi, _error: ErrorCode = ErrorCode.NONE) -> bool:
        return api in answers.OF_MEMBERSHIP

    patch.setattr(network, "needs_lease", needs_lease)


@noticed_by(Invariant.GIVEN_UP)
def whoever_replaces_the_anchor_is_a_successor(patch: Patch) -> None:
    """The late request of a killed gateway takes the group from the next one."""
    real = HostedGroup._on_look

    def on_look(group: HostedGroup, outcome: LookupOutcome, now_ms: int) -> None:
        was_replaced = "FENCED_INSTANCE_ID" in (group.anchor._reported or "")
        if was_replaced and isinstance(outcome, LiveMembers) and outcome.anchored is not None:
            outcome = anchored_group(LOG_ID, 1000, group_id=GROUP)
        real(group, outcome, now_ms)

    patch.setattr(HostedGroup, "_on_look", on_look)


# -- commits in flight -----------------------------------------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_commit_ends_when_it_is_sent(patch: Patch) -> None:
    """The partitions of a commit are free as soon as it is on its way to the cluster."""
    real = CommitsInFlight.send

    def send(
        flight: CommitsInFlight, call: Commits, commits: list[Commit], *rest: Any
    ) -> StoreCommits:
        pending_action = real(flight, call, commits, *rest)
        for commit in commits:
            flight._engine.observe(OffsetCommitEnded(commit=commit.token))
        return pending_action

    patch.setattr(CommitsInFlight, "send", send)


@noticed_by(Invariant.OFFSETS)
def a_commit_overtakes_an_earlier_one(patch: Patch) -> None:
    """A client commits on a new connection while its commit on the old one is on its way."""
    patch.setattr(CommitsInFlight, "is_next", lambda _flight, _call: True)


@noticed_by(Invariant.OFFSETS)
def a_commit_on_an_abandoned_connection_is_stored(patch: Patch) -> None:
    """A connection is read on after its client has committed on a newer one."""
    patch.setattr(CommitsInFlight, "is_abandoned", lambda _flight, _call: False)


@noticed_by(Invariant.OFFSETS)
def a_stray_commit_ends_at_once(patch: Patch) -> None:
    """A commit counts as ended once its answer is lost."""
    patch.setattr(
        CommitsInFlight, "_lose", lambda flight, call, commit, _now_ms: flight._end(call, commit)
    )


@noticed_by(Invariant.OFFSETS)
def any_anchor_ends_stray_commits(patch: Patch) -> None:
    """A stray commit ends although the anchor has not changed its member id."""

    def end_strays(anchor: Anchor, _now_ms: int) -> None:
        anchor._end([*anchor._strays.values()])

    patch.setattr(Anchor, "_end_strays", end_strays)


@noticed_by(Invariant.LIVENESS, Invariant.OFFSETS)
def the_commit_of_a_gone_client_never_ends(patch: Patch) -> None:
    """The commits of a client that disconnects stay in flight."""
    patch.setattr(CommitsInFlight, "abandon", lambda *_: None)


@noticed_by(Invariant.HIDDEN)
def a_client_sees_the_refusal_of_the_anchor(patch: Patch) -> None:
    """A commit is not sent again if the cluster refused the anchor."""
    patch.setattr(CommitsInFlight, "_is_displaced", lambda *_: False)


@noticed_by(Invariant.OFFSETS)
def a_lost_commit_counts_as_never_sent(patch: Patch) -> None:
    """A commit without an answer ends like one that did not reach the cluster."""
    real = CommitsInFlight.on_stored

    def on_stored(
        flight: CommitsInFlight, call: Commits, codes: Mapping[int, Any], now_ms: int
    ) -> None:
        away = {token: "away" if code == LOST else code for token, code in codes.items()}
        real(flight, call, away, now_ms)

    patch.setattr(CommitsInFlight, "on_stored", on_stored)


# -- the log ---------------------------------------------------------------------------------------


# The anchor is confirmed while the log is written, so before the decision takes effect.
@noticed_by(Invariant.ANCHORED, Invariant.LOGGED)
def an_answer_precedes_the_log(patch: Patch) -> None:
    """Clients get their answers when the engine has decided."""
    real = LoggedEngine._decide

    def decide(engine: LoggedEngine, item: Item | Happening, batch: Batch, now_ms: int) -> None:
        before = len(batch.decisions)
        real(engine, item, batch, now_ms)
        for decision in batch.decisions[before:]:
            for token, reply in decision.step.replies:
                if (answered := engine._waiting.pop(token, None)) is not None:
                    engine.outcomes.append((answered, reply))

    patch.setattr(LoggedEngine, "_decide", decide)


@noticed_by(Invariant.LOGGED)
def a_failed_write_takes_effect(patch: Patch) -> None:
    """A batch that the log did not take is applied all the same."""
    patch.setattr(
        LoggedEngine, "write_failed", lambda engine, _damage, now_ms: engine.on_written(now_ms)
    )


@noticed_by(Invariant.LOGGED, Invariant.REPLAY)
def a_doubtful_write_counts_as_failed(patch: Patch) -> None:
    """The group is not read again after a write with an unknown outcome."""
    real = LoggedEngine.write_failed

    def write_failed(engine: LoggedEngine, _damage: Damage, now_ms: int) -> None:
        real(engine, Damage.NONE, now_ms)

    patch.setattr(LoggedEngine, "write_failed", write_failed)


@noticed_by(Invariant.BATCHED)
def a_batch_forgets_its_earlier_decisions(patch: Patch) -> None:
    """All requests of a batch are decided on the group as it was before the batch."""

    def latest(batch: Batch) -> GroupEngine:
        return batch._engine

    patch.setattr(Batch, "_latest", latest)
