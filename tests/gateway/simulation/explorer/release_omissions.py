"""What a release must not leave out, planted one at a time. The explorer has to find each."""

import pytest

from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.release import Releasing
from gateway.hosting.states import ReleaseStage
from tests.gateway.simulation.explorer.planted_omissions import Omission, hunt, shows_in


@shows_in("release", "under the anchor's ids gets", {"release": 1, "commit": 1})
def the_anchor_leaves_before_commits_are_answered(patch: pytest.MonkeyPatch) -> None:
    """The anchor's place is given up as soon as all members have."""
    real = Releasing.is_ready
    patch.setattr(Releasing, "is_ready", lambda each, commits: real(each, commits * 0))


@shows_in("release", " own ", {"release": 1})
def a_member_that_does_not_come_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """The group is opened though a member may still hold partitions."""

    def is_ready(releasing: Releasing, commits: int) -> bool:
        is_somebody_back = bool(releasing._returning) or not releasing.holders
        return releasing.stage is ReleaseStage.RECALLING and is_somebody_back and not commits

    patch.setattr(Releasing, "is_ready", is_ready)


@shows_in("release", "ends because of", {"release": 1})
def joins_are_relayed_before_the_log_knows(patch: pytest.MonkeyPatch) -> None:
    """Requests are relayed as soon as nobody holds anything, before the group is open."""

    def treatment(releasing: Releasing) -> Treatment:
        is_recalling = releasing.stage is ReleaseStage.RECALLING
        return Treatment.RECALLED if is_recalling else Treatment.FORWARDED

    patch.setattr(Releasing, "treatment", property(treatment))


OMISSIONS = [each for each in vars().copy().values() if isinstance(each, Omission)]


def main() -> None:
    """Print the table of `gateway/docs/release.md`."""
    for each in OMISSIONS:
        report = hunt(each)
        moves = len(report.finding.moves) if report.finding else "none"
        print(f"| `{each.name}` | {each.what} | {report.transitions:,} | {moves} |", flush=True)


if __name__ == "__main__":
    main()
