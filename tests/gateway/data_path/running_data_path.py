"""A gateway's data path in front of a cluster, for the length of a block."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from gateway.cluster.cluster import Cluster
from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.group_apis import GroupApis
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.removal import Removal
from gateway.data_path.server import serve
from tests.gateway.data_path.forward_everything import ForwardEverything

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGateway:
    """A data path that serves clients."""

    address: Address
    cluster: Cluster
    limiter: ConnectionLimiter
    """The clients' connections, and what passes on them."""
    stop: trio.Event
    """Set this to let the gateway drain. The block then ends when it has drained."""

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.address
        return f"{host}:{port}"


@asynccontextmanager
async def running_gateway(
    bootstrap: Sequence[Address],
    *,
    group_apis: GroupApis | None = None,
    config: DataPathConfig | None = None,
    limits: Limits | None = None,
    poll_interval_s: float = 5.0,
    private_names: PrivateNames = NOTHING_PRIVATE,
    removal: Removal | None = None,
) -> AsyncIterator[RunningGateway]:
    """Run a data path in front of the cluster at `bootstrap`."""
    stop = trio.Event()
    cluster = Cluster(bootstrap, poll_interval_s=poll_interval_s)
    config = config or DataPathConfig(
        listen_port=0, advertised_host="127.0.0.1", limits=limits or Limits()
    )
    limiter = ConnectionLimiter(config.limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)

        async def start(task_status: trio.TaskStatus[Address]) -> None:
            apis = group_apis or ForwardEverything()
            await serve(
                config,
                apis,
                cluster,
                stop=stop,
                limiter=limiter,
                private_names=private_names,
                removal=removal,
                task_status=task_status,
            )

        address = await nursery.start(start)
        yield RunningGateway(address=address, cluster=cluster, limiter=limiter, stop=stop)
        nursery.cancel_scope.cancel()
