"""ARCHITECTURE.md is true: its paths exist, and its layout names every part of the package."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "accord"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LAYOUT = PAGE.partition("## Layout")[2].partition("```\n\n")[0]
PATHS = sorted(set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", PAGE)))


def test_every_path_on_the_page_exists():
    assert len(PATHS) > 50
    assert [path for path in PATHS if not ((SOURCE / path).exists() or (ROOT / path).exists())] == []


def test_the_layout_names_every_module_and_package_at_the_top():
    parts = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    named = {name.removesuffix("/") for name in re.findall(r"[a-z_]+(?:\.py|/)", LAYOUT)}
    assert parts - named == {"__main__.py"}


def test_the_layers_on_the_page_are_those_that_are_checked():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'"([^"]+)"', text.partition("\nlayers = [")[2].partition("\n]")[0])
    chain = " → ".join(f"({layer})" if " | " in layer else layer for layer in layers if layer != "__main__")
    assert f"`{chain}`" in " ".join(PAGE.split())


def test_the_page_is_read_in_ten_minutes():
    assert len(PAGE.split()) <= 1_500
