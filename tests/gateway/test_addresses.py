"""Addresses and hosts, as users write them."""

import pytest

from gateway.addresses import Address, parse_addresses, parse_advertised_host


@pytest.mark.parametrize(
    ("text", "address"),
    [("h:1", Address("h", 1)), ("[::1]:65535", Address("::1", 65535)), (" h:9 ", Address("h", 9))],
)
def test_an_address_is_host_and_port(text: str, address: Address) -> None:
    """The notation is that of Kafka's clients."""
    assert Address.parse(text) == address
    assert str(address) == text.strip()


@pytest.mark.parametrize("text", ["", "h", "h:", ":1", "h:0", "h:65536", "h:x", "::1:9", "h:-1"])
def test_an_invalid_address_is_refused(text: str) -> None:
    """The address is refused at the start, not at the first connection."""
    with pytest.raises(ValueError, match=r"HOST:PORT|IPv6"):
        Address.parse(text)


def test_a_list_of_addresses_is_separated_by_commas() -> None:
    assert parse_addresses("h:1,[::1]:2") == (Address("h", 1), Address("::1", 2))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("[::1]", "::1"),
        ("::1", "::1"),
        (" gateway.example ", "gateway.example"),
        ("gateway.example.", "gateway.example."),
        ("10.0.0.7", "10.0.0.7"),
        ("my_service", "my_service"),
        ("b\u00fccher.example", "b\u00fccher.example"),
    ],
)
def test_the_advertised_host_is_as_clients_take_it(text: str, host: str) -> None:
    """Brokers name hosts without brackets, and some clients cannot connect to a host with them."""
    assert parse_advertised_host(text) == host
