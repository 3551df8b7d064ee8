"""What each command does, however it arrives: at the control socket or by HTTP.

Whoever changes something is named in an event, together with what became of it.
"""

from collections.abc import Sequence

import structlog
import trio

from coordinator.interface.roll_policy import RollMode
from gateway.board.board import Board, NoSuchGroup
from gateway.board.views import View
from gateway.control.messages import (
    COMMAND_S,
    REASON_CHARS_MAX,
    REASONS_MAX,
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    Answer,
    AssessGroup,
    Command,
    CommandRefused,
    DescribeGateway,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    LatestEvents,
    ListGroups,
    NotKnown,
    Order,
    PauseCommand,
    PolicySet,
    Question,
    RefusalAnswer,
    ReleaseAnswer,
    ReleaseCommand,
    RemovalAnswer,
    RemoveCommand,
    RollCommand,
    ViewAnswer,
)
from gateway.data_path.removal import Removal, reasons_of_hosted
from gateway.events.event import Tell
from gateway.events.gateway_events import CommandGiven
from gateway.fleet.member import FleetMember
from gateway.groups.groups import Groups
from gateway.state_log.log import StateLogError

_OPEN_END = f"it is not over after {COMMAND_S:g} s; groupferry events tells how it ends"
REASONS_TOLD_MAX = 10
"""Reasons in the event; the giver of the command gets all of them."""

log = structlog.get_logger()


class Handlers:
    """Carries out commands."""

    def __init__(
        self,
        groups: Groups,
        board: Board,
        tell: Tell,
        removal: Removal,
        stop: trio.Event,
        *,
        member: FleetMember | None = None,
    ) -> None:
        """`stop` ends the gateway. `member`: this process, if others have groups as well."""
        self._member = member
        self._groups = groups
        self._board = board
        self._tell = tell
        self._removal = removal
        self._stop = stop

    async def answer(self, command: Command, given_by: str) -> Answer:
        """The answer to a command. A refusal or a bug is an answer, too."""
        try:
            with trio.fail_after(COMMAND_S):
                if isinstance(command, Question):
                    view = await self.show(command)
                    return ViewAnswer(view=view.model_dump(mode="json"))
                return await self._obey(command, given_by)
        except CommandRefused as refused:
            return RefusalAnswer(why=str(refused))
        except trio.TooSlowError:
            return RefusalAnswer(why=_OPEN_END)
        except Exception:  # the boundary: a bug in a command ends no gateway
            log.exception("command_failed", **command.model_dump(), given_by=given_by)
            return RefusalAnswer(why="the gateway failed to carry it out; its log says why")

    async def show(self, question: Question) -> View:
        """What was asked for. Raises CommandRefused."""
        if not isinstance(question, ListGroups | DescribeGateway):
            self._check_owner(question.group_id)
        try:
            match question:
                case ListGroups(after=after, since=since):
                    return await self._board.groups(after, since=since)
                case DescribeGroup(group_id=group_id):
                    return await self._board.group(group_id)
                case AssessGroup(group_id=group_id):
                    return await self._board.group_readiness(group_id)
                case LatestEvents(group_id=of_group):
                    return self._board.latest_events(of_group)
                case DescribeGateway():
                    return self._board.gateway()
        except NoSuchGroup:
            raise NotKnown("the gateway does not know this group: see groupferry groups") from None
        except StateLogError as error:
            raise CommandRefused(f"the state log cannot be read: {error}") from None

    async def _obey(self, order: Order, given_by: str) -> Answer:
        answer: Answer = RefusalAnswer(why="the gateway is shutting down")
        try:
            if not isinstance(order, DrainCommand | RemoveCommand):
                self._check_owner(order.group_id)
            match order:
                case AdoptCommand():
                    answer = await self._adopt(order)
                case ReleaseCommand():
                    answer = await self._release(order)
                case HoldCommand() | PauseCommand() | AllowCommand():
                    answer = await self._set_policy(order)
                case RollCommand():
                    answer = await self._announce_roll(order)
                case DrainCommand():
                    answer = self._drain(order)
                case RemoveCommand():
                    answer = await self._remove(order)
        except CommandRefused as refused:
            answer = RefusalAnswer(why=str(refused))
        except StateLogError as error:
            answer = RefusalAnswer(why=f"the state log cannot be read: {error}")
        except trio.Cancelled:
            answer = RefusalAnswer(why="nobody waited for its end")
            raise
        except Exception:
            answer = RefusalAnswer(why="the gateway failed to carry it out")
            raise
        finally:
            group_id = None if isinstance(order, DrainCommand | RemoveCommand) else order.group_id
            self._tell(_audit(order, given_by, answer), group_id)
        return answer

    def _check_owner(self, group_id: str | None) -> None:
        """Raises CommandRefused if another process has the group."""
        if self._member is None or group_id is None or self._member.owns(group_id):
            return
        raise CommandRefused(
            f"process {self._member.slot_of(group_id)} of the gateway has this group, and this is"
            f" process {self._member.slot}"
        )

    async def _adopt(self, command: AdoptCommand) -> AdoptionAnswer:
        """Adopt a group, or say why it cannot be adopted. Raises StateLogError."""
        outcome = await self._groups.orders.adopt(command.group_id, dry_run=command.dry_run)
        return AdoptionAnswer(
            group_id=command.group_id,
            is_adopted=outcome.is_adopted,
            is_marked=outcome.is_marked,
            is_known=outcome.is_known,
            reasons=_shorten_reasons(outcome.reasons),
            held_ms=outcome.held_ms,
        )

    async def _release(self, command: ReleaseCommand) -> ReleaseAnswer:
        """Give a group back to the cluster, or say why it cannot be given back. Raises
        StateLogError."""
        outcome = await self._groups.orders.release_to_cluster(
            command.group_id, dry_run=command.dry_run
        )
        return ReleaseAnswer(
            group_id=command.group_id,
            is_released=outcome.is_released,
            reasons=_shorten_reasons(outcome.reasons),
            unowned_ms=outcome.unowned_ms,
        )

    async def _set_policy(self, command: HoldCommand | PauseCommand | AllowCommand) -> PolicySet:
        """Set the policy of a group, or say why not. Raises StateLogError."""
        policy = RollMode(command.command)
        why = await self._groups.orders.set_policy(
            command.group_id, policy, dry_run=command.dry_run
        )
        return PolicySet(
            group_id=command.group_id,
            policy=command.command,
            reasons=_shorten_reasons((why,) if why else ()),
        )

    async def _announce_roll(self, command: RollCommand) -> PolicySet:
        """Announce a roll or its end, or say why not. Raises StateLogError."""
        why = await self._groups.orders.announce_roll(
            command.group_id, is_over=command.end, dry_run=command.dry_run
        )
        return PolicySet(
            group_id=command.group_id,
            policy="end of roll" if command.end else "roll",
            reasons=_shorten_reasons((why,) if why else ()),
        )

    def _drain(self, command: DrainCommand) -> DrainAnswer:
        """End the gateway. Without a checkpoint, so that the answer still leaves."""
        gateway = self._board.gateway()
        if not command.dry_run:
            self._stop.set()
        return DrainAnswer(
            is_draining=self._stop.is_set(),
            connections=gateway.connections,
            hosted=len(self._groups.drivers.hosted_ids()),
        )

    async def _remove(self, command: RemoveCommand) -> RemovalAnswer:
        """Send all clients to the cluster, or say why not. Raises CommandRefused."""
        if self._removal.is_running:
            raise CommandRefused("another command removes it already")
        with self._groups.orders.taking_none():
            hosted = self._groups.drivers.hosted_ids()
            if hosted:
                return RemovalAnswer(
                    is_removed=False, reasons=_shorten_reasons(reasons_of_hosted(hosted))
                )
            if command.dry_run:
                left = self._removal.left_behind()
                return RemovalAnswer(is_removed=False, clients_left=_shorten_reasons(left))
            outcome = await self._removal.run(self._groups.drivers.hosted_ids)
        return RemovalAnswer(
            is_removed=outcome.is_over,
            told=outcome.told,
            reasons=_shorten_reasons(outcome.reasons),
            clients_left=_shorten_reasons(outcome.left),
        )


def _audit(order: Order, given_by: str, answer: Answer) -> CommandGiven:
    reasons: Sequence[str] = ()
    match answer:
        case AdoptionAnswer() | ReleaseAnswer() | PolicySet():
            reasons = answer.reasons
        case RemovalAnswer():
            reasons = answer.reasons or (() if order.dry_run else answer.clients_left)
        case RefusalAnswer(why=why):
            reasons = (why,)
        case DrainAnswer() | ViewAnswer():
            pass
    return CommandGiven(
        command=order.command,
        is_trial=order.dry_run,
        given_by=given_by,
        reasons=tuple(reasons[:REASONS_TOLD_MAX]),
    )


def _shorten_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    shown = (
        reason if len(reason) <= REASON_CHARS_MAX else f"{reason[: REASON_CHARS_MAX - 1]}…"
        for reason in reasons[:REASONS_MAX]
    )
    left_out = len(reasons) - REASONS_MAX
    return (*shown, f"{left_out} more") if left_out > 0 else tuple(shown)
