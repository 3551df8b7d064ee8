"""The description of the admin API is that of the API."""

from typing import get_args

from gateway.admin.app import ApiContext, admin_app
from gateway.admin.openapi import description
from gateway.control.messages import ORDERS, Order


class _Nothing:
    """Stands in for board and handlers, which no route needs to be listed."""


def test_every_address_is_described() -> None:
    """The page itself is the exception."""
    guard = admin_app(ApiContext(board=_Nothing(), handlers=_Nothing(), measure=_Nothing()))  # type: ignore[arg-type]
    routes = {route.path for route in guard._app.routes}  # type: ignore[attr-defined]
    described = {
        "/api/commands/{command}" if path.startswith("/api/commands/") else path
        for path in description()["paths"]
    }
    assert routes - guard._free | {"/livez", "/readyz"} == described  # type: ignore[attr-defined]


def test_every_order_is_described() -> None:
    """Each order is described by its name."""
    assert set(ORDERS.values()) == set(get_args(Order))
    assert {f"/api/commands/{name}" for name in ORDERS} <= description()["paths"].keys()
