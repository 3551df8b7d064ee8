"""What each command does, apart from how it arrives."""

from collections.abc import Sequence

from gateway.control.messages import REASON_CHARS_MAX, REASONS_MAX, Adopt, Adoption
from gateway.groups.groups import Groups


async def adopt(groups: Groups, command: Adopt) -> Adoption:
    """Adopt a group, or say why it cannot be adopted."""
    outcome = await groups.adopt(command.group_id, dry_run=command.dry_run)
    return Adoption(
        group_id=command.group_id,
        is_adopted=outcome.is_adopted,
        reasons=_bounded(outcome.reasons),
        held_ms=outcome.held_ms,
    )


def _bounded(reasons: Sequence[str]) -> tuple[str, ...]:
    shown = (
        each if len(each) <= REASON_CHARS_MAX else f"{each[: REASON_CHARS_MAX - 1]}…"
        for each in reasons[:REASONS_MAX]
    )
    left_out = len(reasons) - REASONS_MAX
    return (*shown, f"{left_out} more reasons") if left_out > 0 else tuple(shown)
