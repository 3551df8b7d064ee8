"""The gateway that the settings describe."""

from pathlib import Path

from gateway import settings_sources
from gateway.gateway_config import gateway_config
from gateway.reloading import Reloading, limits_of
from gateway.security import security_of


def test_the_admin_port_is_kept_free(tmp_path: Path) -> None:
    """The first process opens the ports of coordinator nodes before the others have started."""
    flags = {"upstream": "127.0.0.1:9092", "state_dir": f"{tmp_path}", "processes": "3"}
    loaded = settings_sources.load({**flags, "admin_listen": "127.0.0.1:9190"})
    security = security_of(loaded)
    reloading = Reloading(loaded, lambda: loaded, security=security, limits=limits_of(loaded))
    config = gateway_config(loaded, security, reloading)
    assert config.data_path.other_ports == (9190,)
