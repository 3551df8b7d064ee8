"""The anchors' view of the hosted groups: are they live, and who holds them in the cluster.

A group that another holder has taken gives way here: its members are fenced.
"""

from coordinator.interface.events import OffsetCommitEnded
from gateway.anchor.anchor import GroupHolder
from gateway.events.event import Tell
from gateway.events.group_events import GroupTaken
from gateway.groups.hosting import Hosting, Mode
from gateway.groups.registry import Registry


class AnchoredGroups:
    """See `gateway.anchor.anchor.Groups`."""

    def __init__(self, registry: Registry, hosting: Hosting, tell: Tell) -> None:
        self._registry = registry
        self._hosting = hosting
        self._tell = tell

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""
        return self._registry.is_live(group_id)

    def end_commit(self, group_id: str, event: OffsetCommitEnded) -> None:
        """Tell the group that a commit has ended."""
        self._registry.end_commit(group_id, event)

    async def is_left_behind(self, group_id: str) -> bool:
        """Whether the group holds an anchor with our state log although none is here."""
        return await self._hosting.is_left_behind(group_id)

    async def holder_of(self, group_id: str, *, is_replaced: bool) -> GroupHolder:
        """Look up who holds the group in the cluster. If it is another holder, fence the members
        here."""
        if is_replaced:
            self._hosting.note_replaced(group_id)
        verdict = await self._hosting.look(group_id)
        match verdict.mode:
            case Mode.HOSTED:
                return GroupHolder.OURS
            case Mode.UNKNOWN:
                return GroupHolder.UNKNOWN
            case _:
                pass
        if self._registry.is_live(group_id):
            self._tell(GroupTaken(reason=verdict.why), group_id)
            self._registry.give_way(group_id)
        return GroupHolder.THEIRS
