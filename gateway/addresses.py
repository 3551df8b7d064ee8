"""Addresses and hosts, as users and clients write them."""

import re
from ipaddress import ip_address
from typing import NamedTuple

_BRACKETED = re.compile(r"\[(.*:.*)\]")
"""An IPv6 address, as in URLs."""
_HOST_NAME = re.compile(rb"(?![0-9.]+$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
"""A number with too few dots is no name: resolvers read `0` as an address."""


class Address(NamedTuple):
    """A host and a port, written HOST:PORT, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: object) -> "Address":
        """Parse HOST:PORT. Raises ValueError."""
        if isinstance(text, Address):
            return text
        if "://" in str(text):
            raise ValueError(f"{text}: give HOST:PORT, and set upstream_security_protocol")
        host, _, port = str(text).strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"{text}: write an IPv6 address as [ADDRESS]:PORT")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{text} is not HOST:PORT, with a port from 1 to 65535")
        return cls(check_host(host), int(port))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse HOST:PORT[,...]. Raises ValueError."""
    return tuple(map(Address.parse, text.split(",")))


def check_host(host: str) -> str:
    """The host, if it can be one. Raises ValueError."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"{host}: no host can have this name") from None
    return host


def parse_advertised_host(value: object) -> object:
    """A host as clients take it: a name, or an address without brackets. Raises ValueError."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    bracketed = _BRACKETED.fullmatch(text)
    host = bracketed[1] if bracketed else text
    if "://" in host or "]:" in host or host.count(":") == 1:
        raise ValueError(f"{text}: give a host without scheme and port; the ports follow `listen`")
    if text and not can_be_reached(host):
        raise ValueError(
            f"{text}: clients cannot connect to it; give the host name or the address under which"
            " they reach the gateway"
        )
    return host


def can_be_reached(host: str) -> bool:
    """Whether a client may connect to this host. Raises ValueError if it cannot be one."""
    try:
        return not ip_address(host).is_unspecified
    except ValueError:
        return _HOST_NAME.fullmatch(check_host(host).encode("idna")) is not None
