"""The demo's gateway."""

from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path

import trio

from coordinator.interface.config import GroupConfig
from gateway.addresses import parse_addresses
from gateway.cluster.finding import find_cluster
from gateway.data_path.config import DataPathConfig
from gateway.events.event import Listener
from gateway.gateway import GatewayConfig, run_gateway
from gateway.journal.journal import Sinks
from gateway.journal.line_files import FOLDER_NAME, LineFiles
from gateway.operators import OperatorsConfig
from gateway.security import UNPROTECTED, Security
from gateway.state_folder import bind_to_cluster, lock_folder
from gateway.state_log.sqlite import open_sqlite_log

MAX_GROUPS = 16


async def run_demo_gateway(
    upstream: str,
    group_config: GroupConfig,
    listener: Listener,
    *,
    state_dir: Path,
    security: Security = UNPROTECTED,
    task_status: trio.TaskStatus[str],
) -> None:
    """Run the demo's gateway until cancelled, on ports that the system chooses. `state_dir` is its
    state folder. Its listeners are without TLS.

    Raises what `run_gateway` does, StateFolderError, and StateLogUnusable.
    """
    async with AsyncExitStack() as resources, trio.open_nursery() as nursery:
        resources.enter_context(lock_folder(state_dir))
        cluster = await find_cluster(parse_addresses(upstream), security.own)
        bind_to_cluster(state_dir, cluster.cluster_id)
        state_log = await resources.enter_async_context(open_sqlite_log(state_dir))
        files = resources.enter_context(closing(LineFiles(state_dir / FOLDER_NAME)))
        config = GatewayConfig(
            upstream=cluster.addresses,
            cluster_id=cluster.cluster_id,
            access=security.own,
            data_path=DataPathConfig(
                listen_port=0,
                advertised_host="127.0.0.1",
                to_brokers=security.client_access,
                clients_authenticate=security.clients_authenticate,
            ),
            groups=group_config,
            max_groups=MAX_GROUPS,
            host_patterns=("*",),  # there are no consumers but the demo's
            operators=OperatorsConfig(control_folder=state_dir),
        )
        sinks = Sinks(files=files, listener=listener)
        host, port = await nursery.start(
            partial(run_gateway, config, state_log, sinks, stop=trio.Event())
        )
        task_status.started(f"{host}:{port}")
