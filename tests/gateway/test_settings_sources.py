"""The sources of the settings, their precedence, and what is said of wrong values."""

from dataclasses import fields
from pathlib import Path

import pytest

from coordinator.interface.config import GroupConfig, MigrationPolicy
from gateway.addresses import Address
from gateway.settings import SECRETS, Settings, SettingsError, file_key
from gateway.settings_sources import flag, load
from tests.support.settings import refusal

pytestmark = pytest.mark.usefixtures("bare_environment")

VALUES = {
    "upstream": "k:1",
    "upstream_security_protocol": "SASL_SSL",
    "upstream_sasl_mechanism": "oauthbearer",
    "upstream_sasl_token_url": "https://id.example/token",
    "upstream_sasl_scope": "kafka",
    "upstream_sasl_token_ca": "token-ca.pem",
    "upstream_sasl_username": "gateway",
    "upstream_sasl_password_file": "/etc/password",
    "upstream_tls_ca": "/etc/ca.pem",
    "upstream_tls_cert": "/etc/gateway.pem",
    "upstream_tls_key": "/etc/gateway.key",
    "upstream_tls_check_host": "false",
    "listen_sni": "broker-$(id).gateway.example",
    "tls_cert": "/etc/gateway.pem",
    "tls_key": "/etc/gateway.key",
    "tls_client_ca": "/etc/clients.pem",
    "listen": "10.0.0.1:9",
    "advertise": "gateway.example",
    "state_dir": "/var/lib/x",
    "state": "MEMORY",
    "state_topic": "elsewhere",
    "owner_lease_ms": "3000",
    "events_topic": "events",
    "log_format": "json",
    "log_level": "error",
    "groups_host": "o*",
    "groups_forward": "connect-*,schema-*",
    "groups_hold": "orders-*",
    "groups_adopt": "NEVER",
    "hold_on_regression": "true",
    "regression_share_percent": "20",
    "describe_groups_consumer": "DEAD",
    "refuse_defective_clients": "true",
    "admin_listen": "10.0.0.1:8",
    "admin_token_file": "/etc/token",
    "admin_view_token_file": "/etc/view",
    "metrics_groups_max": "7",
    "group_min_session_timeout_ms": "5",
    "group_max_session_timeout_ms": "6",
    "group_initial_rebalance_delay_ms": "0",
    "group_pending_id_timeout_ms": "4",
    "group_max_size": "7",
    "group_consumer_session_timeout_ms": "50000",
    "group_consumer_min_session_timeout_ms": "1",
    "group_consumer_max_session_timeout_ms": "50001",
    "group_consumer_heartbeat_interval_ms": "500",
    "group_consumer_min_heartbeat_interval_ms": "2",
    "group_consumer_max_heartbeat_interval_ms": "501",
    "group_consumer_max_size": "8",
    "group_consumer_assignors": "range",
    "group_consumer_migration_policy": "UPGRADE",
    "group_consumer_assignment_interval_ms": "3",
    "group_consumer_min_assignment_interval_ms": "3",
    "group_consumer_max_assignment_interval_ms": "4",
    "group_conversion_rest_max_ms": "15",
    "group_unsettled_heartbeat_interval_ms": "1001",
    "group_second_target_waits": "true",
    "group_unaffected_members_rejoin": "true",
    "group_eager_imbalance_percent": "16",
    "group_replacement_grace_ms": "15",
    "group_temporary_assignment_ms": "16",
    "group_roll_pause_ms": "17",
    "group_replacement_needs_host": "false",
    "group_rack_aware": "true",
    "client_side_assignors": "true",
    "client_side_api_key": "31000",
    "group_static_takeover": "CONNECTION-CLOSED",
    "group_consumer_regex_refresh_interval_ms": "10000",
    "max_connections": "9",
    "max_connections_per_address": "8",
    "max_connections_per_principal": "7",
    "max_groups": "10",
    "max_groups_per_address": "5",
    "max_groups_per_principal": "4",
    "max_names_per_address": "3",
    "max_names_per_principal": "2",
    "permission_lifetime_ms": "14",
    "anchor_linger_ms": "12",
    "broker_timeout_ms": "13",
    "drain_timeout_ms": "11",
}
"""A value of each setting, other than its default. `processes` excludes some of them."""


def test_flag_precedes_variable_precedes_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source nearest to the command wins."""
    file = tmp_path / "groupferry.toml"
    file.write_text("max_groups = 1\nmax_connections = 1\ndrain_timeout_ms = 1\n")
    monkeypatch.setenv("GROUPFERRY_MAX_GROUPS", "2")
    monkeypatch.setenv("GROUPFERRY_MAX_CONNECTIONS", "2")
    settings = load({"upstream": "k:1", "config": str(file), "max_groups": "3"})
    assert (settings.max_groups, settings.max_connections, settings.drain_timeout_ms) == (3, 2, 1)


def test_a_variable_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GROUPFERRY_CONFIG is equivalent to --config."""
    file = tmp_path / "groupferry.toml"
    file.write_text('upstream = ["k:1"]')
    monkeypatch.setenv("GROUPFERRY_CONFIG", str(file))
    assert load({}).upstream == (Address("k", 1),)


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files and charts pass on empty variables."""
    monkeypatch.setenv("GROUPFERRY_LISTEN", "")
    assert load({"upstream": "k:1"}).listen == Address("127.0.0.1", 19092)


OF_FLEETS = ("processes", "fleet", "gateway_name")
"""Settings that do not fit all others."""


def test_the_processes_can_be_set_in_every_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "groupferry.toml"
    file.write_text('upstream = ["k:1"]\nprocesses = 2\n')
    assert load({"upstream": "k:1", "processes": "2"}).processes == 2
    assert load({"config": str(file)}).processes == 2
    monkeypatch.setenv("GROUPFERRY_PROCESSES", "2")
    assert load({"upstream": "k:1"}).processes == 2


def test_the_fleet_can_be_set_in_every_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "groupferry.toml"
    file.write_text('upstream = ["k:1"]\nstate = "kafka"\nfleet = true\ngateway_name = "g1"\n')
    flags = {"upstream": "k:1", "state": "kafka"}
    by_flag = load({**flags, "fleet": "true", "gateway_name": "g1"})
    by_file = load({"config": str(file)})
    monkeypatch.setenv("GROUPFERRY_FLEET", "true")
    monkeypatch.setenv("GROUPFERRY_GATEWAY_NAME", "g1")
    for settings in (by_flag, by_file, load(flags)):
        assert (settings.fleet, settings.name_in_fleet) == (True, "g1")


def test_every_setting_can_be_set_in_every_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table of fields defines flag, variable and key."""
    settable = set(Settings.model_fields) - {"config", *OF_FLEETS} - SECRETS
    assert set(VALUES) == settable, "a new setting needs a value there"
    by_flag = load(VALUES)
    file = tmp_path / "all.toml"
    file.write_text("\n".join(f'{file_key(name)} = "{VALUES[name]}"' for name in VALUES))
    by_file = load({"config": str(file)})
    for name, value in VALUES.items():
        monkeypatch.setenv(f"GROUPFERRY_{name.upper()}", value)
    by_variable = load({})
    assert by_flag == by_variable == by_file.model_copy(update={"config": None})
    assert by_flag.group_consumer_migration_policy is MigrationPolicy.UPGRADE
    assert by_flag.groups_forward == ("connect-*", "schema-*")


def test_the_engine_gets_every_setting_of_groups() -> None:
    """The other fields of its config are no settings."""
    default, config = load({"upstream": "k:1"}).group_config(), load(VALUES).group_config()
    assert {
        field.name
        for field in fields(GroupConfig)
        if getattr(config, field.name) == getattr(default, field.name)
    } == {
        *("broker_limits", "classic_new_member_join_timeout_ms", "is_served_by_setting"),
        *("lost_commit_hold_ms", "reconnect_timeout_ms", "rolled_since_ms"),
    }


def test_kafka_names_work_in_the_file_as_dotted_keys_and_as_tables(tmp_path: Path) -> None:
    """A line from a broker's server.properties has the same meaning."""
    file = tmp_path / "groupferry.toml"
    file.write_text(
        'upstream = "k:1"\ngroup.max.size = 5\n[group.consumer]\nheartbeat.interval.ms = 6000\n'
        '[groups]\nforward = ["connect-*"]\n'
    )
    settings = load({"config": str(file)})
    assert settings.group_max_size == 5
    assert settings.group_consumer_heartbeat_interval_ms == 6000
    assert settings.groups_forward == ("connect-*",)


def test_all_refusals_are_reported_together_with_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user should not need one run per mistake."""
    file = tmp_path / "groupferry.toml"
    file.write_text("upstrem = 'k:1'\nxyz = 1\ngroup.max.size = 0\n")
    monkeypatch.setenv("GROUPFERRY_MAX_GROUPS", "x")
    lines = refusal({"upstream": "k:1,k:x", "config": str(file)})
    assert sorted(line.split(":")[0] for line in lines) == [
        "--upstream",
        "GROUPFERRY_MAX_GROUPS",
        "group.max.size in the config file",
        "upstrem",
        "xyz",
    ]
    assert any(line.endswith("did you mean upstream?") for line in lines)


def test_a_misspelled_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelled variable would silently have no effect."""
    monkeypatch.setenv("GROUPFERRY_MAX_GROUP", "7")
    monkeypatch.setenv("GROUPFERRY_XYZ", "")
    assert refusal({"upstream": "k:1"}) == [
        "GROUPFERRY_MAX_GROUP: no such setting; did you mean GROUPFERRY_MAX_GROUPS?",
        "GROUPFERRY_XYZ: no such setting; see groupferry serve --help",
    ]


def test_a_password_appears_in_no_message_and_no_representation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither when another setting is wrong, nor when it is wrong itself."""
    monkeypatch.setenv("GROUPFERRY_UPSTREAM_SASL_PASSWORD", "hunter2")
    flags = {
        "upstream": "k:1",
        "upstream_security_protocol": "sasl_ssl",
        "upstream_sasl_mechanism": "PLAIN",
        "upstream_sasl_username": "u",
    }
    settings = load(flags)
    assert settings.upstream_sasl_password
    assert settings.upstream_sasl_password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)
    with pytest.raises(SettingsError) as caught:
        load({**flags, "upstream_sasl_mechanism": "GSSAPI"})
    assert "hunter2" not in str(caught.value)
    monkeypatch.delenv("GROUPFERRY_UPSTREAM_SASL_PASSWORD")
    file = tmp_path / "gateway.toml"
    file.write_text("upstream_sasl_password = 47110815")
    with pytest.raises(SettingsError) as caught:
        load({**flags, "config": f"{file}"})
    assert caught.value.lines[0].startswith("upstream_sasl_password in the config file: ")
    assert "47110815" not in str(caught.value)


def test_kubernetes_service_variables_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod gets them for each Service of its namespace, which may be called groupferry."""
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_KAFKA", "PORT", "PORT_19092_TCP"):
        monkeypatch.setenv(f"GROUPFERRY_{name}", "x")
    monkeypatch.setenv("GROUPFERRY_PORT_19092_TCP_ADDR", "x")
    monkeypatch.setenv("GROUPFERRY_BLUE_SERVICE_HOST", "x")
    assert load({"upstream": "k:1"}).upstream


@pytest.mark.parametrize("content", [b"upstream = ", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    """A syntax error causes no traceback."""
    file = tmp_path / "groupferry.toml"
    file.write_bytes(content)
    (line,) = refusal({"config": str(file)})
    assert line.startswith(f"config: {file} is not a TOML file: ")


def test_a_flag_is_the_field_name_with_dashes() -> None:
    """Names differ between sources only in their separators."""
    assert flag("group_max_size") == "--group-max-size"
