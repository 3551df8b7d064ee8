"""What a command does with the groups of the gateway."""

from typing import cast

from gateway.control import handlers
from gateway.control.messages import ANSWER_BYTES_MAX, REASONS_MAX, Adopt, Adoption
from gateway.groups.groups import Groups
from gateway.hosting.adoption_steps import AdoptionOutcome


class FakeGroups:
    """Adopts nothing, for these reasons."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons
        self.dry_runs: list[bool] = []

    async def adopt(self, group_id: str, *, dry_run: bool = False) -> AdoptionOutcome:
        """The outcome."""
        self.dry_runs.append(dry_run)
        return AdoptionOutcome(
            group_id=group_id, is_adopted=not self.reasons, reasons=self.reasons, held_ms=120
        )


async def adopt(groups: FakeGroups, *, dry_run: bool = False) -> Adoption:
    """The answer for a group with a long id."""
    command = Adopt(group_id="\x01" * 32_767, dry_run=dry_run)
    return await handlers.adopt(cast("Groups", groups), command)


async def test_the_outcome_is_that_of_the_groups() -> None:
    """So is the wish."""
    groups = FakeGroups()
    told = await adopt(groups, dry_run=True)
    assert (told.is_adopted, told.reasons, told.held_ms) == (True, (), 120)
    assert groups.dry_runs == [True]


async def test_the_reasons_are_bounded() -> None:
    """Clients choose the ids in them. The answer fits into its line."""
    told = await adopt(FakeGroups(*["\x01" * 70_000] * (REASONS_MAX + 5)))
    assert len(told.reasons) == REASONS_MAX + 1
    assert told.reasons[-1] == "5 more reasons"
    assert len(told.model_dump_json()) < ANSWER_BYTES_MAX
