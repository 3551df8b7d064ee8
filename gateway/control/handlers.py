"""What each command does, whether it arrives at the control socket or at the admin API's port.

An event names the client that gives a command, and the outcome.
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
    SHUTS_DOWN,
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    AssessGroup,
    CommandRefused,
    DescribeClient,
    DescribeGateway,
    DescribeGroup,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    LatestEvents,
    ListGroups,
    NotKnown,
    OfGateway,
    Order,
    Outcome,
    PauseCommand,
    PolicySet,
    Question,
    QuestionToAll,
    ReleaseAnswer,
    ReleaseCommand,
    RemovalAnswer,
    RemoveCommand,
    RestartAnswer,
    RestartCommand,
    RollCommand,
)
from gateway.data_path.removal import Removal, reasons_of_hosted
from gateway.events.event import EventSink
from gateway.events.gateway_events import CommandGiven
from gateway.fleet.member import FleetMember
from gateway.fleet.parent_link import ParentLink
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.groups import Groups
from gateway.state_log.log import StateLogError

_OPEN_END = f"it is not over after {COMMAND_S:g} s; groupferry events tells how it ends"
SERVED_POLL_S = 0.02
REASONS_TOLD_MAX = 10
"""Reasons in the event; the giver of the command gets all of them."""

log = structlog.get_logger()


class Handlers:
    """Carries out commands."""

    def __init__(
        self,
        groups: Groups,
        board: Board,
        emit: EventSink,
        removal: Removal,
        stop: trio.Event,
        *,
        member: FleetMember | None = None,
        link: ParentLink | None = None,
    ) -> None:
        """`stop` ends the gateway. `member`, `link`: this process and its link to the parent, if
        there are others as well."""
        self._member, self._link = member, link
        self._groups = groups
        self._board = board
        self._emit = emit
        self._removal = removal
        self._stop = stop

    async def answer(self, order: Order, given_by: str) -> Outcome:
        """Carry out a command, until the gateway stops. Raises CommandRefused."""
        try:
            with trio.fail_after(COMMAND_S):
                return await self._obey_until_stop(order, given_by)
        except trio.TooSlowError:
            raise CommandRefused(_OPEN_END) from None

    async def _obey_until_stop(self, order: Order, given_by: str) -> Outcome:
        """Raises CommandRefused."""
        outcome: Outcome | CommandRefused = CommandRefused(SHUTS_DOWN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_at_stop, nursery.cancel_scope)
            outcome = await self._obey(order, given_by)
            nursery.cancel_scope.cancel()
        if isinstance(outcome, CommandRefused):
            raise outcome
        return outcome

    async def _cancel_at_stop(self, scope: trio.CancelScope) -> None:
        await self._stop.wait()
        scope.cancel()

    async def show(self, question: Question) -> View:
        """What was asked for. Raises CommandRefused."""
        if not isinstance(question, QuestionToAll):
            await self._check_owner(question.group_id)
        try:
            match question:
                case ListGroups(after=after, since=since):
                    return await self._board.groups(after, since=since)
                case DescribeGroup(group_id=group_id):
                    return await self._board.group(group_id)
                case AssessGroup(group_id=group_id):
                    return await self._board.group_readiness(group_id)
                case LatestEvents(group_id=events_group_id):
                    return self._board.latest_events(events_group_id)
                case DescribeClient(client_id=client_id):
                    return await self._board.client(client_id)
                case DescribeGateway():
                    return self._board.gateway()
        except NoSuchGroup:
            raise NotKnown("the gateway does not know this group: see groupferry groups") from None
        except StateLogError as error:
            raise CommandRefused(_unread(error)) from None

    async def _obey(self, order: Order, given_by: str) -> Outcome | CommandRefused:
        """The outcome of a command, which an event reports."""
        outcome: Outcome | CommandRefused = CommandRefused(SHUTS_DOWN)
        try:
            if not isinstance(order, OfGateway):
                await self._check_owner(order.group_id)
            outcome = await self._carry_out(order)
        except (CommandRefused, GroupRefused) as refused:
            outcome = CommandRefused(str(refused))
        except StateLogError as error:
            outcome = CommandRefused(_unread(error))
        except trio.Cancelled:
            if not self._stop.is_set():
                outcome = CommandRefused(
                    "its client did not wait for the end: see groupferry events"
                )
            raise
        except Exception:  # the boundary: a bug in a command must not end the gateway
            log.exception("command_failed", **order.model_dump(), given_by=given_by)
            outcome = CommandRefused("the gateway failed to carry it out: look at its log")
        finally:
            group_id = None if isinstance(order, OfGateway) else order.group_id
            self._emit(_audit(order, given_by, outcome), group_id)
        return outcome

    async def _carry_out(self, order: Order) -> Outcome:
        """Raises CommandRefused, GroupRefused, StateLogError."""
        match order:
            case AdoptCommand():
                return await self._adopt(order)
            case ReleaseCommand():
                return await self._release(order)
            case HoldCommand() | PauseCommand() | AllowCommand():
                return await self._set_policy(order)
            case RollCommand():
                return await self._announce_roll(order)
            case DrainCommand():
                return self._drain(order)
            case RemoveCommand():
                return await self._remove(order)
            case RestartCommand():
                return self._restart(order)

    async def _check_owner(self, group_id: str | None) -> None:
        """Wait for a group that is about to come from another process. Raises CommandRefused if
        another one has it."""
        if self._member is None or group_id is None:
            return
        while self._member.owns(group_id):
            if self._member.serves(group_id):
                return
            await trio.sleep(SERVED_POLL_S)
        owner = self._member.name_owner(group_id)
        if self._member.process_of(group_id) is None:
            raise CommandRefused(f"{owner} has this group: give the command there")
        raise CommandRefused(
            f"{owner} has this group, and this is process {self._member.process}: give the command"
            " with the --state-dir of the gateway"
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
        reason = await self._groups.orders.set_policy(
            command.group_id, policy, dry_run=command.dry_run
        )
        return PolicySet(
            group_id=command.group_id,
            policy=command.command,
            reasons=_shorten_reasons((reason,) if reason else ()),
        )

    async def _announce_roll(self, command: RollCommand) -> PolicySet:
        """Announce a roll or its end, or say why not. Raises StateLogError."""
        reason = await self._groups.orders.announce_roll(
            command.group_id, is_over=command.end, dry_run=command.dry_run
        )
        return PolicySet(
            group_id=command.group_id,
            policy="end of roll" if command.end else "roll",
            reasons=_shorten_reasons((reason,) if reason else ()),
        )

    def _drain(self, command: DrainCommand) -> DrainAnswer:
        """End the gateway, or have the parent end all processes. Without a checkpoint, so that the
        answer still leaves."""
        gateway = self._board.gateway()
        if not command.dry_run and self._link is not None:
            self._link.ask_drain()
        elif not command.dry_run:
            self._stop.set()
        return DrainAnswer(
            is_draining=not command.dry_run or self._stop.is_set(),
            connections=gateway.connections,
            hosted=len(self._groups.drivers.hosted_ids()),
        )

    def _restart(self, command: RestartCommand) -> RestartAnswer:
        """Have processes restarted. Raises CommandRefused."""
        if self._member is None or self._link is None:
            raise CommandRefused("it is a single process: drain it, and start it again")
        slots = range(self._member.processes)
        processes = tuple(slots) if command.processes is None else command.processes
        if unknown := [slot for slot in processes if slot not in slots]:
            raise CommandRefused(
                f"there is no process {unknown[0]}: give one of 0 to {self._member.processes - 1}"
            )
        if not command.dry_run:
            self._link.ask_restart(processes)
        return RestartAnswer(processes=processes)

    async def _remove(self, command: RemoveCommand) -> RemovalAnswer:
        """Send all clients to the cluster, or say why not. Raises CommandRefused."""
        if self._removal.is_running:
            raise CommandRefused("another command removes it already: wait for its end")
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
            redirected=outcome.redirected,
            reasons=_shorten_reasons(outcome.reasons),
            clients_left=_shorten_reasons(outcome.left),
        )


def _unread(error: StateLogError) -> str:
    return f"the state log cannot be read, look at state_log_failed in the log: {error}"


def _audit(order: Order, given_by: str, outcome: Outcome | CommandRefused) -> CommandGiven:
    reasons: Sequence[str] = ()
    match outcome:
        case AdoptionAnswer() | ReleaseAnswer() | PolicySet():
            reasons = outcome.reasons
        case RemovalAnswer():
            reasons = outcome.reasons or (() if order.dry_run else outcome.clients_left)
        case CommandRefused():
            reasons = (str(outcome),)
        case DrainAnswer() | RestartAnswer():
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
