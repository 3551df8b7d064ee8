"""The settings of `groupferry serve`: one table of fields, and what must fit together.

`settings_sources.py` says where their values come from. A setting that is a broker config in Kafka
has Kafka's name: `group.max.size` in the config file.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)
from pydantic_settings import NoDecode

from coordinator.interface.config import (
    INT32_MAX,
    RESOLUTIONS_APART_MS,
    GroupConfig,
    MigrationPolicy,
    StaticTakeover,
)
from coordinator.interface.roll_policy import RollPolicy
from gateway.addresses import Address, can_be_reached, parse_advertised_host
from gateway.cluster.sasl import Mechanism
from gateway.cluster.topics import TOPIC_NAME
from gateway.data_path.broker_names import BrokerNames
from gateway.events.event import Level
from gateway.fleet.member import SHARDS
from gateway.hosting.states import Adoption
from gateway.logs import LogFormat
from gateway.plug_ins.installed import check_assignor
from gateway.state_log.kafka.lease import LEASE_MS, LEASE_MS_MAX, LEASE_MS_MIN
from kafka_codecs.api_keys import ApiKey

STATE_TOPIC = "groupferry-state"
StateKind = Literal["memory", "sqlite", "kafka"]
SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SettingsError(Exception):
    """Invalid settings. Each line of `lines` names one and says what to do."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def _split(value: object) -> object:
    """Split the text of a flag or a variable at commas. A file may have a real list."""
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    return value


def state_folder(value: object) -> Path:
    """The given folder, or the user's default one. Raises ValueError."""
    if value:
        return Path(str(value)).expanduser()
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state")
    try:
        return Path(base).expanduser() / "groupferry"
    except RuntimeError:
        raise ValueError("this user has no home directory; give a folder") from None


def _token_url(value: str) -> str:
    """The secret is sent there. Raises ValueError."""
    parts = urlsplit(value)
    is_near = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or is_near):
        raise ValueError(f"{value}: give an https URL")
    return value


def _processes(value: object) -> object:
    return min(len(os.sched_getaffinity(0)), SHARDS) if value == "auto" else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


_BETWEEN = (
    (
        "group_min_session_timeout_ms",
        "group_min_session_timeout_ms",
        "group_max_session_timeout_ms",
    ),
    (
        "group_consumer_session_timeout_ms",
        "group_consumer_min_session_timeout_ms",
        "group_consumer_max_session_timeout_ms",
    ),
    (
        "group_consumer_heartbeat_interval_ms",
        "group_consumer_min_heartbeat_interval_ms",
        "group_consumer_max_heartbeat_interval_ms",
    ),
    (
        "group_consumer_assignment_interval_ms",
        "group_consumer_min_assignment_interval_ms",
        "group_consumer_max_assignment_interval_ms",
    ),
)
"""A setting, and the two settings that bound it."""

BROKER_CONFIGS = (
    *("group_min_session_timeout_ms", "group_max_session_timeout_ms"),
    *("group_initial_rebalance_delay_ms", "group_max_size"),
    *(name for names in _BETWEEN[1:] for name in names),
    "group_consumer_max_size",
)
"""The settings that are the brokers' own unless they are set here."""

_NEED_PROTOCOL = (
    (("upstream_tls_ca", "upstream_tls_cert", "upstream_tls_key"), ("ssl", "sasl_ssl")),
    (
        (
            "upstream_sasl_mechanism",
            "upstream_sasl_username",
            "upstream_sasl_password",
            "upstream_sasl_password_file",
            "upstream_sasl_token_url",
            "upstream_sasl_token_ca",
            "upstream_sasl_scope",
        ),
        ("sasl_plaintext", "sasl_ssl"),
    ),
)
"""Settings, and the values of `upstream_security_protocol` that use them."""
SECRETS = frozenset({"upstream_sasl_password"})
"""Settings that have no flag, and whose values appear in no message."""

_TopicName = Annotated[str, Field(pattern=f"^{TOPIC_NAME}$")]
_GatewayName = Annotated[str, Field(pattern="^[A-Za-z0-9._-]+$", max_length=200)]
_Patterns = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
_Milliseconds = Annotated[int, Field(ge=1, le=INT32_MAX)]
_Delay = Annotated[int, Field(ge=0, le=INT32_MAX)]
_Count = Annotated[int, Field(ge=1, le=INT32_MAX)]
_Path = Annotated[Path, AfterValidator(Path.expanduser)]
_AdvertisedHost = Annotated[str, Field(min_length=1), BeforeValidator(parse_advertised_host)]
_Address = Annotated[Address, NoDecode, BeforeValidator(Address.parse)]


class Settings(BaseModel):
    """All settings, validated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: Path | None = Field(None, description="TOML file with settings")
    upstream: Annotated[tuple[_Address, ...], NoDecode, BeforeValidator(_split)] = Field(
        min_length=1, description="bootstrap addresses of the Kafka cluster"
    )
    upstream_security_protocol: Annotated[SecurityProtocol, BeforeValidator(_lower)] = Field(
        "plaintext",
        description="how the gateway connects to the brokers, as in Kafka; ssl means TLS",
    )
    upstream_tls_ca: _Path | None = Field(
        None,
        description="PEM file with the authorities that the brokers' certificates must lead to; by"
        " default the system's",
    )
    upstream_tls_cert: _Path | None = Field(
        None, description="PEM file with the gateway's own certificate, if the brokers want one"
    )
    upstream_tls_key: _Path | None = Field(
        None, description="PEM file with its key, if `upstream_tls_cert` does not have it"
    )
    upstream_tls_check_host: bool = Field(
        True, description="whether a broker's certificate must name the broker's host"
    )
    upstream_sasl_mechanism: Annotated[Mechanism, BeforeValidator(_upper)] | None = Field(
        None, description="how the gateway authenticates to the brokers"
    )
    upstream_sasl_username: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="the gateway's own user in the cluster; with OAUTHBEARER its client id"
    )
    upstream_sasl_password: SecretStr | None = Field(
        None, description="its password; no flag, because other users can read command lines"
    )
    upstream_sasl_password_file: _Path | None = Field(
        None, description="file with the password, read for each new connection"
    )
    upstream_sasl_token_url: Annotated[str, AfterValidator(_token_url)] | None = Field(
        None,
        description="token endpoint for OAUTHBEARER, an https URL; the password is the client's"
        " secret there",
    )
    upstream_sasl_token_ca: _Path | None = Field(
        None,
        description="PEM file with the authorities that the token endpoint's certificate must lead"
        " to; by default the system's",
    )
    upstream_sasl_scope: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="scope of the tokens, if the endpoint needs one"
    )
    listen: _Address = Field(
        Address("127.0.0.1", 19092),
        description="bootstrap address for clients; the brokers take the ports after it",
    )
    advertise: (
        Annotated[str, Field(min_length=1), BeforeValidator(parse_advertised_host)] | None
    ) = Field(
        None,
        description="host that clients are told to connect to; by default that of `listen`",
    )
    processes: Annotated[int, Field(ge=1, le=SHARDS), BeforeValidator(_processes)] | None = Field(
        None,
        description="how many processes share the work, or auto for one per core of the machine;"
        " by default the gateway is one process. Not with `state` memory",
    )
    fleet: bool = Field(
        False,
        description="whether the gateway shares its groups with all others that have the same"
        " `state_topic`, on this machine and on others; needs `state` kafka",
    )
    gateway_name: _GatewayName | None = Field(
        None,
        description="the name of the gateway in its fleet, which no other one has; by default the"
        " host that clients are told, and the port of `listen`. With `processes`, the number of"
        " each follows",
    )
    listen_sni: Annotated[str, AfterValidator(BrokerNames.check)] | None = Field(
        None,
        description="host names of the brokers, such as broker-$(id).gateway.example: the port of"
        " `listen` then serves them all, by the name that a TLS client asks for; needs `tls_cert`",
    )
    tls_cert: _Path | None = Field(
        None,
        description="PEM file with the certificate shown to clients; all ports then speak TLS",
    )
    tls_key: _Path | None = Field(
        None, description="PEM file with its key, if `tls_cert` does not have it"
    )
    tls_client_ca: _Path | None = Field(
        None,
        description="PEM file with authorities; clients must then show a certificate of theirs",
    )
    state_dir: Annotated[Path, BeforeValidator(state_folder)] = Field(
        None,
        validate_default=True,
        description="folder for the gateway's state; by default $XDG_STATE_HOME/groupferry",
    )
    state: Annotated[StateKind, BeforeValidator(_lower)] = Field(
        "sqlite",
        description="storage for the groups: sqlite, a file in `state_dir`; kafka, a topic of the"
        " cluster; or memory, which is lost when the gateway exits",
    )
    state_topic: _TopicName = Field(
        STATE_TOPIC, description="the topic for `state` kafka, created if missing"
    )
    owner_lease_ms: Annotated[int, Field(ge=LEASE_MS_MIN, le=LEASE_MS_MAX)] = Field(
        LEASE_MS,
        description="with `state` kafka: how long the gateway answers members after it has last"
        " written to the topic, which it does four times in this time. Another gateway may have"
        " taken the state since",
    )
    events_topic: _TopicName | None = Field(
        None,
        description="a topic of the cluster to which events are written too, created if missing",
    )
    log_format: LogFormat = Field("console", description="console for people, json for machines")
    log_level: Level = Field("info", description="the lowest level that is logged")
    groups_host: _Patterns = Field(
        (),
        description="patterns (* and ?) of groups all of whose consumers are behind the gateway:"
        " they are hosted from their first join on. Any other group is hosted after `groupferry"
        " adopt`",
    )
    groups_forward: _Patterns = Field(
        (),
        description="patterns (* and ?) of group ids that stay with the cluster; those that are"
        " hosted at the start are released",
    )
    groups_hold: _Patterns = Field(
        (),
        description="patterns (* and ?) of groups whose migration is on hold: none of their"
        " consumers switches to the new protocol before `groupferry allow`",
    )
    groups_adopt: Annotated[Adoption, BeforeValidator(_lower)] = Field(
        "manual",
        description="what becomes of groups that are not hosted: manual hosts them after"
        " `groupferry adopt`; auto also adopts a live group once all its members come through the"
        " gateway; never leaves every group to the cluster, also those that match `groups_host`",
    )

    hold_on_regression: bool = Field(
        False,
        description="whether a group is put on hold when it falls behind after a consumer has"
        " changed its protocol, or when a consumer does so again and again",
    )
    regression_share_percent: Annotated[int, Field(ge=1, le=1_000)] = Field(
        30,
        description="the part of what a group or a consumer reads that may stay behind in the"
        " minute after that consumer has changed its protocol",
    )
    refuse_defective_clients: bool = Field(
        False,
        description="whether to refuse the new protocol to client versions that are known to be"
        " defective with it, such as librdkafka before 2.15; `groupferry readiness` names them",
    )
    describe_groups_consumer: Annotated[Literal["members", "dead"], BeforeValidator(_lower)] = (
        Field(
            "members",
            description="how DescribeGroups shows consumer groups: members, or dead as in Kafka",
        )
    )

    admin_listen: _Address | None = Field(
        None,
        description="address for the admin API, the page and the metrics, such as 127.0.0.1:9190;"
        " by default there is none. Beyond loopback it speaks TLS with `tls_cert`, and needs"
        " `admin_token_file`",
    )
    admin_token_file: _Path | None = Field(
        None,
        description="file with the token that clients of the admin API show, read for each request",
    )
    admin_view_token_file: _Path | None = Field(
        None,
        description="file with a second token, which allows its clients to look and to command"
        " nothing; read for each request",
    )

    metrics_groups_max: _Delay = Field(
        500, description="limit on groups with metrics of their own; 0 for none"
    )

    group_min_session_timeout_ms: _Milliseconds = 6_000
    group_max_session_timeout_ms: _Milliseconds = 1_800_000
    group_initial_rebalance_delay_ms: _Delay = 3_000
    group_max_size: _Count = INT32_MAX
    group_consumer_session_timeout_ms: _Milliseconds = 45_000
    group_consumer_min_session_timeout_ms: _Milliseconds = 45_000
    group_consumer_max_session_timeout_ms: _Milliseconds = 60_000
    group_consumer_heartbeat_interval_ms: _Milliseconds = 5_000
    group_consumer_min_heartbeat_interval_ms: _Milliseconds = 5_000
    group_consumer_max_heartbeat_interval_ms: _Milliseconds = 15_000
    group_consumer_max_size: _Count = INT32_MAX
    group_consumer_assignors: Annotated[
        tuple[Annotated[str, AfterValidator(check_assignor)], ...],
        NoDecode,
        BeforeValidator(_split),
    ] = Field(
        ("uniform", "range"),
        min_length=1,
        description="the server assignors: `uniform`, `range`, and those of installed packages;"
        " members that request none get the first",
    )
    group_consumer_migration_policy: Annotated[MigrationPolicy, BeforeValidator(_lower)] = (
        MigrationPolicy.BIDIRECTIONAL
    )
    group_consumer_assignment_interval_ms: _Delay = 1_000
    group_consumer_min_assignment_interval_ms: _Delay = 0
    group_consumer_max_assignment_interval_ms: _Delay = 15_000
    group_consumer_regex_refresh_interval_ms: Annotated[
        int, Field(ge=RESOLUTIONS_APART_MS, le=INT32_MAX)
    ] = 600_000
    group_conversion_rest_max_ms: _Delay = Field(
        900_000,
        description="the longest time that a group stays classic after short-lived native consumers"
        " have converted it back and forth; 0 lets it convert each time",
    )
    group_unsettled_heartbeat_interval_ms: Annotated[int, Field(ge=1_000, le=INT32_MAX)] = Field(
        1_000,
        description="the heartbeat interval of native members while their group moves or is rolled,"
        " if it is shorter than the group's; never shorter than ten times what answers took",
    )
    group_second_target_waits: bool = Field(
        False,
        description="whether the assignment interval delays a target assignment even if it is the"
        " second after a quiet time, as in Kafka; a consumer that restarts changes its group twice",
    )
    group_unaffected_members_rejoin: bool = Field(
        False,
        description="whether classic members of a group with native ones rejoin with each new"
        " target assignment, as in Kafka, even if it changes nothing for them",
    )
    group_eager_imbalance_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        50,
        description="how far from its even share a new target assignment may leave a member of a"
        " group with native and eager classic members, rather than disturb an eager one",
    )
    group_replacement_grace_ms: _Delay = Field(
        3_000,
        description="how long the slot of a member that left is kept for its replacement, before"
        " other members are told, and three times as long if they would all have to rejoin; 0:"
        " not at all",
    )
    group_temporary_assignment_ms: _Delay = Field(
        45_000,
        description="how long another member may have the partitions of one that left and has not"
        " been replaced within the grace, while the group is rolled, before they are distributed;"
        " 0: not at all",
    )
    group_roll_pause_ms: _Delay = Field(
        300_000,
        description="how long a group counts as being rolled after a member has changed its"
        " protocol; only then are the slots of members that leave kept",
    )
    group_replacement_needs_host: bool = Field(
        True,
        description="whether a replacement must have its predecessor's address, and not only its"
        " client id; pods change their addresses",
    )
    group_rack_aware: bool = Field(
        False,
        description="whether the server assignors give members partitions with a replica in their"
        " rack (`client.rack`), as far as the balance allows",
    )
    client_side_assignors: bool = Field(
        False,
        description="whether members may compute the assignment of their group, as in KIP-848; no"
        " released Kafka or client has this",
    )
    client_side_api_key: Annotated[int, Field(ge=1_000, le=0x7FFE)] = Field(
        ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT.value,
        description="with `client_side_assignors`, the api key of ConsumerGroupPrepareAssignment;"
        " that of ConsumerGroupInstallAssignment is the next one",
    )
    group_static_takeover: Annotated[StaticTakeover, BeforeValidator(_lower)] = Field(
        StaticTakeover.KAFKA,
        description="`connection-closed`: a static member of the new protocol that crashed may be"
        " replaced as soon as its client has closed its connections, by the same user, or without"
        " authentication from the same address; `kafka`: only after its session",
    )
    group_pending_id_timeout_ms: _Milliseconds = Field(
        INT32_MAX,
        description="how long an unused member id delays a classic rebalance; at most the client's"
        " session timeout",
    )

    max_connections: _Count | None = Field(
        None,
        description="limit on client connections at a time; by default 100,000, or as many as the"
        " limit on open files allows",
    )
    max_connections_per_address: _Count | None = Field(
        None,
        description="limit on client connections from one address; by default half of"
        " what others leave of `max_connections`",
    )
    max_connections_per_principal: _Count | None = Field(
        None,
        description="limit on client connections of one user of the cluster, or of one"
        " certificate's subject, which then do not count towards their addresses; by default half"
        " of what others leave of `max_connections`",
    )
    max_groups: _Count = Field(10_000, description="limit on hosted groups at a time")
    max_groups_per_address: _Count | None = Field(
        None,
        description="limit on hosted groups begun from one client address; by default half of"
        " what others leave of `max_groups`",
    )
    max_groups_per_principal: _Count | None = Field(
        None,
        description="limit on hosted groups begun by one user of the cluster, or by one"
        " certificate's subject; by default half of what others leave of `max_groups`",
    )
    max_names_per_address: _Count | None = Field(
        None,
        description="limit on names of one client address, such as group and topic names, that each"
        " memory of the gateway keeps; by default half of what it keeps",
    )
    max_names_per_principal: _Count | None = Field(
        None,
        description="limit on names of one user of the cluster, or of one certificate's subject,"
        " that each memory of the gateway keeps; by default half of what it keeps",
    )
    broker_timeout_ms: _Milliseconds = Field(
        3_000,
        description="how long a broker may take to accept a connection and to answer members;"
        " their heartbeats wait behind, so keep it below every session timeout",
    )
    permission_lifetime_ms: _Milliseconds = Field(
        120_000,
        description="how long a client's permission counts after the cluster has confirmed it, and"
        " so how long a permission that is taken away may still count",
    )
    anchor_linger_ms: _Milliseconds = Field(
        60_000,
        description="how long the gateway holds a group in the cluster after its last member",
    )
    drain_timeout_ms: _Milliseconds = Field(
        10_000, description="how long SIGTERM waits for requests in flight"
    )

    @property
    def has_shards(self) -> bool:
        """Whether the gateway keeps its state in shards in any case."""
        return self.fleet or self.processes is not None

    @property
    def fleet_group(self) -> str | None:
        """The id of the group by which a fleet on several machines shares its groups."""
        return f"groupferry-fleet-{self.state_topic}" if self.fleet else None

    @property
    def name_in_fleet(self) -> str:
        """The name of the gateway in its fleet. Kafka allows few characters in it."""
        address = f"{self.advertised_host}-{self.listen.port}"
        return self.gateway_name or re.sub("[^A-Za-z0-9._-]", "_", address)

    @property
    def advertised_host(self) -> str:
        """The host in the addresses that clients are told."""
        return self.advertise or self.listen.host

    @property
    def is_admin_local(self) -> bool:
        """Whether the admin API listens on loopback only, if at all."""
        return self.admin_listen is None or self.admin_listen.host in _LOOPBACK

    def with_broker_configs(self, configs: Mapping[str, int]) -> Self:
        """The settings with these `BROKER_CONFIGS` where none is set. Raises ValueError if they do
        not fit those that are."""
        unset = configs.keys() - self.model_fields_set
        settings = self.model_copy(update={name: configs[name] for name in unset})
        settings._check_group_configs()
        return settings

    def group_config(self) -> GroupConfig:
        """The engine's configuration."""
        return GroupConfig(
            classic_min_session_timeout_ms=self.group_min_session_timeout_ms,
            classic_max_session_timeout_ms=self.group_max_session_timeout_ms,
            classic_initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            classic_pending_id_timeout_ms=self.group_pending_id_timeout_ms,
            classic_max_size=self.group_max_size,
            consumer_session_timeout_ms=self.group_consumer_session_timeout_ms,
            consumer_min_session_timeout_ms=self.group_consumer_min_session_timeout_ms,
            consumer_max_session_timeout_ms=self.group_consumer_max_session_timeout_ms,
            consumer_heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            consumer_min_heartbeat_interval_ms=self.group_consumer_min_heartbeat_interval_ms,
            consumer_max_heartbeat_interval_ms=self.group_consumer_max_heartbeat_interval_ms,
            consumer_max_size=self.group_consumer_max_size,
            consumer_assignors=self.group_consumer_assignors,
            consumer_migration_policy=self.group_consumer_migration_policy,
            consumer_assignment_interval_ms=self.group_consumer_assignment_interval_ms,
            consumer_min_assignment_interval_ms=self.group_consumer_min_assignment_interval_ms,
            consumer_max_assignment_interval_ms=self.group_consumer_max_assignment_interval_ms,
            unsettled_heartbeat_interval_ms=self.group_unsettled_heartbeat_interval_ms,
            second_target_waits=self.group_second_target_waits,
            unaffected_members_rejoin=self.group_unaffected_members_rejoin,
            eager_imbalance_percent=self.group_eager_imbalance_percent,
            replacement_grace_ms=self.group_replacement_grace_ms,
            temporary_assignment_ms=self.group_temporary_assignment_ms,
            roll_pause_ms=self.group_roll_pause_ms,
            replacement_needs_host=self.group_replacement_needs_host,
            static_takeover=self.group_static_takeover,
            client_side_assignors=self.client_side_assignors,
            rack_aware=self.group_rack_aware,
            consumer_regex_refresh_interval_ms=self.group_consumer_regex_refresh_interval_ms,
            roll_policy=RollPolicy(rest_max_ms=self.group_conversion_rest_max_ms),
        )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Check settings against each other, as Kafka does for its configs."""
        if self.advertise is None and not can_be_reached(self.listen.host):
            raise ValueError(
                f"advertise: clients cannot connect to {self.listen.host}; "
                "give the host name under which they reach the gateway"
            )
        if self.processes is not None:
            self._check_fleet()
        if self.fleet:
            self._check_machines()
        elif self.gateway_name is not None:
            raise ValueError("gateway_name: needs fleet")
        if self.events_topic == self.state_topic:
            raise ValueError(f"events_topic: {self.events_topic} is the topic of the state log")
        self._check_group_configs()
        return self

    def _check_fleet(self) -> None:
        if self.state == "memory":
            raise ValueError("processes: needs state sqlite or kafka; with memory, leave it out")
        if self.listen_sni is not None:
            raise ValueError("processes: does not work with listen_sni; leave one of them out")

    def _check_machines(self) -> None:
        if self.state != "kafka":
            raise ValueError(f"fleet: needs state kafka, not {self.state}")
        if self.listen_sni is not None:
            raise ValueError("listen_sni: does not work with fleet; leave one of them out")

    def _check_group_configs(self) -> None:
        for value, low, high in _BETWEEN:
            if not getattr(self, low) <= getattr(self, value) <= getattr(self, high):
                raise ValueError(
                    f"{file_key(value)}: {getattr(self, value)} must lie between "
                    f"{file_key(low)} ({getattr(self, low)}) and "
                    f"{file_key(high)} ({getattr(self, high)})"
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ValueError(
                "group.consumer.heartbeat.interval.ms must be below "
                f"group.consumer.session.timeout.ms ({self.group_consumer_session_timeout_ms})"
            )
        # A new owner must time out no member while the former one may still answer it.
        for name in ("group_min_session_timeout_ms", "group_consumer_min_session_timeout_ms"):
            if self.state == "kafka" and self.owner_lease_ms > getattr(self, name):
                raise ValueError(
                    f"owner_lease_ms: {self.owner_lease_ms} is longer than the shortest session,"
                    f" {file_key(name)} ({getattr(self, name)})"
                )

    @model_validator(mode="after")
    def _fit_the_protocol(self) -> Self:
        """Check that what protects the upstream is complete, and that nothing is given in vain."""
        protocol = self.upstream_security_protocol
        for names, fitting in _NEED_PROTOCOL:
            for name in names:
                if getattr(self, name) is not None and protocol not in fitting:
                    raise ValueError(
                        f"{name}: needs upstream_security_protocol {' or '.join(fitting)}"
                    )
        if protocol.startswith("sasl"):
            for name in ("upstream_sasl_mechanism", "upstream_sasl_username"):
                if getattr(self, name) is None:
                    raise ValueError(f"{name}: not set; {protocol} needs it")
            if (self.upstream_sasl_password is None) is (self.upstream_sasl_password_file is None):
                raise ValueError(
                    "upstream_sasl_password_file: give it, or upstream_sasl_password in the"
                    " environment or the config file, and not both"
                )
        for name in ("tls_key", "tls_client_ca", "listen_sni"):
            if getattr(self, name) is not None and self.tls_cert is None:
                raise ValueError(f"{name}: needs tls_cert, the certificate shown to clients")
        if self.upstream_tls_key is not None and self.upstream_tls_cert is None:
            raise ValueError("upstream_tls_key: needs upstream_tls_cert, the key's certificate")
        return self

    @model_validator(mode="after")
    def _fit_the_admin_api(self) -> Self:
        """Check that the admin API cannot be reached from outside without a token, and that no
        token can be read."""
        if self.admin_listen is None and self.admin_token_file is not None:
            raise ValueError("admin_token_file: needs admin_listen")
        if self.admin_view_token_file is not None and self.admin_token_file is None:
            raise ValueError("admin_view_token_file: needs admin_token_file, the operators' token")
        if self.admin_listen is None:
            return self
        if not self.is_admin_local:
            for name, what in (("admin_token_file", "a token"), ("tls_cert", "TLS")):
                if getattr(self, name) is None:
                    raise ValueError(
                        f"{name}: not set; admin_listen {self.admin_listen} is not on loopback, and"
                        f" needs {what}"
                    )
        return self

    @model_validator(mode="after")
    def _fit_the_mechanism(self) -> Self:
        """Check that what OAUTHBEARER needs is given, and for nothing else."""
        wants_tokens = self.upstream_sasl_mechanism == "OAUTHBEARER"
        if wants_tokens is (self.upstream_sasl_token_url is None):
            reason = "not set; OAUTHBEARER needs it" if wants_tokens else "needs OAUTHBEARER"
            raise ValueError(f"upstream_sasl_token_url: {reason}")
        for name in ("upstream_sasl_scope", "upstream_sasl_token_ca"):
            if getattr(self, name) is not None and not wants_tokens:
                raise ValueError(f"{name}: needs OAUTHBEARER")
        return self


def file_key(field_name: str) -> str:
    """A field's name in the file and in messages: Kafka's own names have dots."""
    return field_name.replace("_", ".") if field_name.startswith("group_") else field_name
