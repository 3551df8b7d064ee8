"""The documented settings are those of the code."""

import tomllib
from pathlib import Path

from gateway.doc_pages.settings import CONFIG_FILE, PAGE, config_file, page
from gateway.settings import SECRETS, Settings, file_key
from gateway.settings_sources import load


def test_the_page_has_the_settings() -> None:
    """Write the settings with `python -m gateway.doc_pages.settings`."""
    assert PAGE.read_text() == page()


def test_the_config_file_has_the_settings() -> None:
    """Write the file with `python -m gateway.doc_pages.settings`."""
    assert CONFIG_FILE.read_text() == config_file()


def test_the_config_file_loads_with_every_default_uncommented(tmp_path: Path) -> None:
    """The file has each setting once; those without a default stay comments."""
    lines = CONFIG_FILE.read_text().splitlines()
    entries = [line.removeprefix("#") for line in lines if line and not line.startswith("# ")]
    assert [entry.partition(" =")[0] for entry in entries] == [
        file_key(name) for name in Settings.model_fields if name != "config"
    ]
    uncommented = tmp_path / "groupferry.toml"
    uncommented.write_text("\n".join(entry for entry in entries if not entry.endswith("=")))
    settings = load({"config": str(uncommented)})
    defaults = load({"config": str(CONFIG_FILE)})
    assert settings.model_dump(exclude={"config"}) == defaults.model_dump(exclude={"config"})


def test_the_config_file_is_valid_as_it_is() -> None:
    """Only the upstream has no default."""
    assert set(tomllib.loads(CONFIG_FILE.read_text())) == {"upstream"}


def test_no_default_is_a_secret() -> None:
    """The page shows defaults."""
    assert all(Settings.model_fields[name].default is None for name in SECRETS)
