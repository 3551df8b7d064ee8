"""The host names of brokers behind one port."""

import pytest

from gateway.data_path.broker_names import BrokerNames

NAMES = BrokerNames("broker-$(id).gateway.example")


@pytest.mark.parametrize("node_id", [0, 1, 42, 2**31 - 1])
def test_each_broker_has_a_name_that_leads_back_to_it(node_id: int) -> None:
    """Capitals work as well, because host names have no case (RFC 4343)."""
    host = NAMES.host_of(node_id)
    assert host == f"broker-{node_id}.gateway.example"
    assert NAMES.node_of(host) == NAMES.node_of(host.upper()) == node_id


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "gateway.example",
        "broker-.gateway.example",
        "broker-x.gateway.example",
        "broker-01.gateway.example",
        "broker-1xgateway.example",
        "broker-1.gateway.example.",
        "broker-\N{ARABIC-INDIC DIGIT ONE}.gateway.example",
        "xbroker-1.gateway.example",
        "broker-1.gateway.example\n",
    ],
)
def test_other_hosts_belong_to_no_broker(host: str | None) -> None:
    """Each broker has exactly one name."""
    assert NAMES.node_of(host) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "gateway.example",
        "$(id)-$(id).gateway.example",
        "broker-$(id).gateway.example:9092",
        "broker $(id).gateway.example",
        "*.gateway.example",
        "broker-$(id)..example",
        "x" * 60 + "$(id).example",
    ],
)
def test_a_pattern_must_make_one_host_name_per_broker(pattern: str) -> None:
    """The message says what to give."""
    with pytest.raises(ValueError, match=r"give a host name with one \$\(id\)"):
        BrokerNames.check(pattern)


def test_a_pattern_must_fit_into_a_host_name() -> None:
    """The pattern must fit with the longest id, too."""
    with pytest.raises(ValueError, match="at most 253 characters"):
        BrokerNames.check("a." * 124 + "$(id)")


def test_a_pattern_has_no_case() -> None:
    """Patterns are kept in lower case."""
    assert BrokerNames.check("Broker-$(id).Example") == "broker-$(id).example"
