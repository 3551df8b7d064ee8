"""The table of settings: defaults, what fits together, and error messages."""

import os
from pathlib import Path

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.roll_policy import RollPolicy
from gateway.addresses import Address
from gateway.fleet.member import SHARDS
from gateway.settings import BROKER_CONFIGS, Settings, SettingsError
from gateway.settings_sources import load
from tests.support.settings import refusal

pytestmark = pytest.mark.usefixtures("bare_environment")


def test_only_the_upstream_is_required(tmp_path: Path) -> None:
    """Other settings have defaults; those of the engine are mostly Kafka's."""
    settings = load({"upstream": "kafka-1:9092, kafka-2:9093"})
    assert settings.upstream == (Address("kafka-1", 9092), Address("kafka-2", 9093))
    assert settings.listen == Address("127.0.0.1", 19092)
    assert settings.advertised_host == "127.0.0.1"
    assert settings.state_dir == tmp_path / "state" / "groupferry"
    assert settings.group_config() == GroupConfig(
        roll_policy=RollPolicy(rest_max_ms=900_000),
        unsettled_heartbeat_interval_ms=1_000,
        second_target_waits=False,
        unaffected_members_rejoin=False,
        eager_imbalance_percent=50,
        replacement_grace_ms=3_000,
        temporary_assignment_ms=45_000,
    )


def test_a_gateway_is_named_in_its_fleet_after_its_address() -> None:
    """Kafka allows few characters in the name of a static member."""
    flags = {"upstream": "h:1", "state": "kafka", "fleet": "true", "listen": "[::1]:9092"}
    assert load(flags).name_in_fleet == "__1-9092"
    assert load({**flags, "gateway_name": "g.1"}).name_in_fleet == "g.1"


def test_processes_may_follow_the_machine() -> None:
    """One per core that the gateway may use, and no more than it has shards."""
    assert load({"upstream": "h:1"}).processes is None
    assert load({"upstream": "h:1", "processes": "3"}).processes == 3
    cores = len(os.sched_getaffinity(0))
    assert load({"upstream": "h:1", "processes": "auto"}).processes == min(cores, SHARDS)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({}, "upstream: not set; give --upstream, GROUPFERRY_UPSTREAM, or upstream in a file"),
        ({"upstream": ","}, "--upstream: give at least one"),
        ({"upstream": "SASL_SSL://k:1"}, "give HOST:PORT, and set upstream_security_protocol"),
        ({"listen": "19092"}, "--listen: 19092 is not HOST:PORT"),
        ({"processes": "0"}, "--processes: "),
        ({"processes": "17"}, "--processes: "),
        ({"processes": "2", "state": "memory"}, "processes: needs state sqlite or kafka"),
        ({"fleet": "true"}, "fleet: needs state kafka, not sqlite"),
        (
            {"fleet": "true", "state": "kafka", "listen_sni": "b-$(id).example", "tls_cert": "c"},
            "listen_sni: does not work with fleet",
        ),
        ({"gateway_name": "g1"}, "gateway_name: needs fleet"),
        ({"owner_lease_ms": "999"}, "--owner-lease-ms: "),
        ({"owner_lease_ms": "5001"}, "--owner-lease-ms: "),
        (
            {"state": "kafka", "group_min_session_timeout_ms": "1999"},
            "owner_lease_ms: 2000 is longer than the shortest session, group.min.session.timeout.ms"
            " (1999)",
        ),
        ({"gateway_name": "g 1"}, "--gateway-name: "),
        (
            {"processes": "2", "listen_sni": "b-$(id).example", "tls_cert": "c"},
            "processes: does not work with listen_sni",
        ),
        ({"listen": "0.0.0.0:1"}, "advertise: clients cannot connect to 0.0.0.0"),
        ({"listen": "a..b:1"}, "--listen: a..b: no host can have this name"),
        ({"advertise": "a..b"}, "--advertise: a..b: no host can have this name"),
        ({"advertise": "h:1"}, "--advertise: h:1: give a host without scheme and port"),
        ({"advertise": "[::1]:1"}, "--advertise: [::1]:1: give a host without scheme and port"),
        ({"advertise": "PLAINTEXT://h:1"}, "--advertise: PLAINTEXT://h:1: give a host without"),
        ({"advertise": "0.0.0.0"}, "--advertise: 0.0.0.0: clients cannot connect to it; give the"),
        ({"advertise": "[::]"}, "--advertise: [::]: clients cannot connect to it"),
        ({"advertise": "*"}, "--advertise: *: clients cannot connect to it"),
        ({"advertise": "0"}, "--advertise: 0: clients cannot connect to it"),
        ({"advertise": "a b"}, "--advertise: a b: clients cannot connect to it"),
        ({"advertise": "a,b"}, "--advertise: a,b: clients cannot connect to it"),
        ({"advertise": "[h]"}, "--advertise: [h]: clients cannot connect to it"),
        ({"advertise": " "}, "--advertise: String should have at least 1 character"),
        ({"listen": "*:1"}, "advertise: clients cannot connect to *"),
        ({"log_format": "xml"}, "--log-format: 'xml' should be 'console' or 'json'"),
        ({"max_groups": "0"}, "--max-groups: '0' should be greater than or equal to 1"),
        ({"max_groups": "many"}, "--max-groups: 'many' should be a valid integer"),
        ({"group_consumer_assignors": "sticky"}, "--group-consumer-assignors: 'sticky' is neither"),
        (
            {"group_consumer_heartbeat_interval_ms": "4999"},
            "group.consumer.heartbeat.interval.ms: 4999 must lie between "
            "group.consumer.min.heartbeat.interval.ms (5000) and "
            "group.consumer.max.heartbeat.interval.ms (15000)",
        ),
        (
            {
                "group_consumer_session_timeout_ms": "5000",
                "group_consumer_min_session_timeout_ms": "1",
            },
            "group.consumer.heartbeat.interval.ms must be below group.consumer.session.timeout.ms",
        ),
        (
            {"group_min_session_timeout_ms": "7", "group_max_session_timeout_ms": "6"},
            "group.min.session.timeout.ms: 7 must lie between",
        ),
        (
            {"events_topic": "one", "state_topic": "one"},
            "events_topic: one is the topic of the state log",
        ),
        ({"config": "/nowhere.toml"}, "config: cannot read /nowhere.toml: No such file"),
    ],
)
def test_a_refusal_names_the_setting(flags: dict[str, str], line: str) -> None:
    """One line names the setting and a valid value."""
    lines = refusal(flags if flags in ({}, {"upstream": ","}) else {"upstream": "k:1"} | flags)
    assert len(lines) == 1
    assert line in lines[0]
    assert "\n" not in lines[0]


USER = {
    "upstream_security_protocol": "sasl_ssl",
    "upstream_sasl_username": "u",
    "upstream_sasl_password_file": "f",
}


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            {"upstream_tls_ca": "ca"},
            "upstream_tls_ca: needs upstream_security_protocol ssl or sasl_ssl",
        ),
        (
            {"tls_client_ca": "ca"},
            "tls_client_ca: needs tls_cert, the certificate shown to clients",
        ),
        ({"admin_token_file": "/etc/token"}, "admin_token_file: needs admin_listen"),
        (
            {"admin_listen": "127.0.0.1:8", "admin_view_token_file": "/etc/view"},
            "admin_view_token_file: needs admin_token_file, the operators' token",
        ),
        (
            {"admin_listen": "10.0.0.1:8", "tls_cert": "x"},
            "admin_token_file: not set; admin_listen 10.0.0.1:8 is not on loopback, and needs a"
            " token",
        ),
        (
            {"admin_listen": "10.0.0.1:8", "admin_token_file": "x"},
            "tls_cert: not set; admin_listen 10.0.0.1:8 is not on loopback, and needs TLS",
        ),
        (
            {"listen_sni": "broker-$(id).gateway.example"},
            "listen_sni: needs tls_cert, the certificate shown to clients",
        ),
        (
            {"listen_sni": "gateway.example"},
            "--listen-sni: gateway.example: give a host name with one $(id) for the broker's id",
        ),
        (
            {"upstream_security_protocol": "ssl", "upstream_tls_key": "k"},
            "upstream_tls_key: needs upstream_tls_cert, the key's certificate",
        ),
        (
            {"upstream_security_protocol": "ssl", "upstream_sasl_username": "u"},
            "upstream_sasl_username: needs upstream_security_protocol sasl_plaintext or sasl_ssl",
        ),
        (
            {"upstream_security_protocol": "sasl_ssl", "upstream_sasl_username": "u"},
            "upstream_sasl_mechanism: not set; sasl_ssl needs it",
        ),
        (
            {
                "upstream_security_protocol": "sasl_ssl",
                "upstream_sasl_username": "u",
                "upstream_sasl_mechanism": "plain",
            },
            "upstream_sasl_password_file: give it, or upstream_sasl_password in the environment or"
            " the config file, and not both",
        ),
        (
            {**USER, "upstream_sasl_mechanism": "oauthbearer"},
            "upstream_sasl_token_url: not set; OAUTHBEARER needs it",
        ),
        (
            {
                **USER,
                "upstream_sasl_mechanism": "plain",
                "upstream_sasl_token_url": "https://id.example/token",
            },
            "upstream_sasl_token_url: needs OAUTHBEARER",
        ),
        (
            {**USER, "upstream_sasl_mechanism": "plain", "upstream_sasl_scope": "kafka"},
            "upstream_sasl_scope: needs OAUTHBEARER",
        ),
        (
            {
                **USER,
                "upstream_sasl_mechanism": "oauthbearer",
                "upstream_sasl_token_url": "http://id.example/token",
            },
            "--upstream-sasl-token-url: http://id.example/token: give an https URL",
        ),
    ],
)
def test_the_security_protocol_and_its_settings_belong_together(
    flags: dict[str, str], line: str
) -> None:
    """An operator must not believe that unprotected connections are protected."""
    with pytest.raises(SettingsError) as caught:
        load({"upstream": "k:1", **flags})
    assert caught.value.lines == [line]


def test_limits_of_groups_are_the_brokers_unless_they_are_set() -> None:
    """A group must not meet other limits behind the gateway than at the cluster."""
    settings = load({"upstream": "a:1", "group_max_session_timeout_ms": "50000"})
    theirs = {"group_min_session_timeout_ms": 1_000, "group_max_session_timeout_ms": 60_000}
    taken = settings.with_broker_configs(theirs).group_config()
    assert taken.classic_min_session_timeout_ms == 1_000
    assert taken.classic_max_session_timeout_ms == 50_000


def test_all_numbers_of_groups_that_kafka_has_too_are_the_brokers() -> None:
    """A broker that gathers the first members for no time at all does so behind the gateway too.
    Brokers do not reveal how often they resolve regular expressions."""
    as_in_kafka = {
        name
        for name, field in Settings.model_fields.items()
        if name.startswith("group_") and isinstance(field.default, int) and not field.description
    }
    assert as_in_kafka - {"group_consumer_regex_refresh_interval_ms"} == set(BROKER_CONFIGS)
    settings = load({"upstream": "a:1"})
    taken = settings.with_broker_configs({"group_initial_rebalance_delay_ms": 0}).group_config()
    assert taken.classic_initial_rebalance_delay_ms == 0


def test_limits_that_do_not_fit_those_that_are_set_are_refused() -> None:
    """The caller then keeps its own, and says so."""
    settings = load({"upstream": "a:1", "group_max_session_timeout_ms": "50000"})
    with pytest.raises(ValueError, match=r"group\.min\.session\.timeout\.ms"):
        settings.with_broker_configs({"group_min_session_timeout_ms": 90_000})
