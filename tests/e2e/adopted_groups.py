"""Groups that begin in the cluster and are adopted by a command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gateway.control.client import give
from gateway.control.messages import AdoptCommand, AdoptionAnswer
from tests.support.clients import Client
from tests.support.group_client import group_client
from tests.support.group_stage import GroupStage
from tests.support.kafka_broker import KafkaCluster
from tests.support.serve_process import ServeProcess
from tests.support.until import until_answered

NOBODY: Mapping[str, ServeProcess] = MappingProxyType({})
LONG_SESSIONS = "--session-timeout-ms=45000"
"""The clients' default: no member is fenced on a busy machine, or while the gateway restarts."""


async def adopt(folder: Path, group_id: str, *, dry_run: bool = False) -> AdoptionAnswer:
    """What `groupferry adopt` does, without its process."""
    return await give(folder, AdoptCommand(group_id=group_id, dry_run=dry_run))


def flags_of(client: Client, flags: Sequence[str] = ()) -> Sequence[str]:
    """The program in Go has no flag for its session, which is as long."""
    return flags or (() if client.library == "franz-go" else (LONG_SESSIONS,))


async def begin_in_cluster(
    kafka: KafkaCluster,
    group: GroupStage,
    clients: Mapping[str, Client],
    *flags: str,
    behind: Mapping[str, ServeProcess] = NOBODY,
) -> None:
    """Start members behind the gateway, or behind another one. The group is live in the cluster:
    another member is there first, and leaves when all of them have come."""
    async with group_client(kafka.addresses[0], group.group) as first:
        joined = await first.enter()
        for name, client in clients.items():
            await group.join(name, client, *flags_of(client, flags), behind=behind.get(name))

        async def have_all_come() -> bool:
            nonlocal joined
            if (await first.beat(joined)).error_code:
                joined = await first.join(joined.member_id)
                await first.sync(joined)  # as the leader, it assigns nothing
            return len((await first.describe()).members) > len(clients)

        await until_answered(have_all_come)
        await first.leave(joined.member_id)
