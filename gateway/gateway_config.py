"""The gateway that the settings describe."""

from gateway.admin.config import AdminConfig
from gateway.cluster.secret import Secret
from gateway.data_path.broker_names import BrokerNames
from gateway.data_path.config import DataPathConfig
from gateway.fleet.member import FleetMember
from gateway.fleet.process import FleetProcess
from gateway.gateway import GatewayConfig
from gateway.operators import OperatorsConfig
from gateway.quotas.shares import ShareRule
from gateway.reloading import Reloading, share_of_groups
from gateway.security import Security
from gateway.settings import Settings
from gateway.state_log.kafka.shards import (
    writers_of,
)


def gateway_config(
    settings: Settings,
    security: Security,
    reloading: Reloading,
    process: FleetProcess | None = None,
) -> GatewayConfig:
    """The gateway that the settings describe, or one process of it."""
    control_folder = settings.state_dir
    member: FleetMember | None = None
    if process is not None:
        control_folder = control_folder / process.folder_name
        member = None if process.shards is None else process.shards.member
    data_path = DataPathConfig(
        listen_host=settings.listen.host,
        listen_port=settings.listen.port,
        advertised_host=settings.advertised_host,
        broker_names=None if settings.listen_sni is None else BrokerNames(settings.listen_sni),
        state_folder=settings.state_dir,
        member=member,
        leaving=None if process is None else process.link.leaving,
        other_ports=() if settings.admin_listen is None else (settings.admin_listen.port,),
        tls=security.listening,
        to_brokers=security.client_access,
        clients_authenticate=security.clients_authenticate,
        client_side_api_key=settings.client_side_api_key
        if settings.client_side_assignors
        else None,
        limits=reloading.limits,
        names=ShareRule(
            per_address=settings.max_names_per_address,
            per_principal=settings.max_names_per_principal,
        ),
    )
    return GatewayConfig(
        upstream=settings.upstream,
        access=security.own,
        access_to_gateways=security.to_gateways,
        data_path=data_path,
        groups=settings.group_config(),
        max_groups=settings.max_groups,
        share_of_groups=share_of_groups(settings),
        host_patterns=settings.groups_host,
        forward_patterns=settings.groups_forward,
        hold_patterns=settings.groups_hold,
        adoption=settings.groups_adopt,
        shows_members=settings.describe_groups_consumer == "members",
        refuses_defective=settings.refuse_defective_clients,
        anchor_linger_s=settings.anchor_linger_ms / 1000,
        private_topics=_private_topics(settings),
        private_transactional_ids=_private_transactional_ids(settings),
        operators=OperatorsConfig(
            control_folder=control_folder,
            admin=_admin(settings, security),
            fleet_folder=None if process is None else settings.state_dir,
            member=member,
            link=None if process is None else process.link,
            hold_on_regression=settings.hold_on_regression,
            regression_share=settings.regression_share_percent / 100,
        ),
        take_rules=reloading.take_rules,
    )


def _admin(settings: Settings, security: Security) -> AdminConfig | None:
    """How the admin API is reached: at one port, which the processes of a fleet share."""
    if settings.admin_listen is None:
        return None
    path, view_path = settings.admin_token_file, settings.admin_view_token_file
    return AdminConfig(
        listen=(settings.admin_listen.host, settings.admin_listen.port),
        token=None if path is None else Secret(path=path),
        view_token=None if view_path is None else Secret(path=view_path),
        tls=security.admin,
        is_shared=settings.processes is not None,
        metrics_groups_max=settings.metrics_groups_max,
    )


def _private_topics(settings: Settings) -> tuple[str, ...]:
    state_topic = settings.state_topic if settings.state == "kafka" else None
    return tuple(filter(None, (state_topic, settings.events_topic)))


def _private_transactional_ids(settings: Settings) -> tuple[str, ...]:
    """The transactional ids of all shards: a single process may have them too."""
    return writers_of(settings.state_topic) if settings.state == "kafka" else ()
