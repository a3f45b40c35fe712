"""docs/keys.md tells the truth: its commands run, its configuration is valid, its requests are answered."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from accord.backends.prices import backend_price, shipped_prices
from accord.config import ServerConfig, load_config
from accord.core.work.backend_call import MAX_COUNT
from accord.run.costs import OTHER
from accord.run.write_behind import BEHIND_S
from accord.wire.keys import KeyRequest
from accord.wire.routes import KEY_PATH, KEYS_PATH, REFUSALS_PATH, USAGE_PATH
from tests.cli.test_app import accord

PAGE = (Path(__file__).parent.parent / "docs/keys.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))


def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")  # the table's rows are not broken then
    commands = [shlex.split(line)[1:] for line in BLOCKS["sh"].splitlines()]
    done = [accord(*command) for command in commands]
    assert [each.returncode for each in done] == [0, 0, 0]
    assert "models gpt-* auto, 10/second, 20 USD per month" in done[1].stdout


def test_the_configuration_of_the_page_is_valid_and_sets_a_price(tmp_path: Path):
    file = tmp_path / "accord.toml"
    file.write_text(BLOCKS["toml"])
    price = backend_price(load_config(str(file), environ={}).config.backends[0])
    assert price is not None
    assert price.cost({"input_tokens": 1, "output_tokens": 1}) == 0


def test_the_page_names_every_path_and_a_body_that_is_accepted():
    for path in (KEYS_PATH, KEY_PATH.replace("key_id", "id"), USAGE_PATH, REFUSALS_PATH.replace("backend}", "name}")):
        assert path in PAGE
    found: Any = re.search(r"POST /v1/admin/keys` with `(\{.*?\})`", PAGE)
    KeyRequest.parse(json.dumps(json.loads(found[1])))


def test_the_number_of_prices_is_about_right():
    assert 1500 < sum(1 for _ in shipped_prices().names()) < 3000


def test_the_figures_of_the_page_are_those_of_the_code():
    assert f"{MAX_COUNT:,} tokens" in PAGE
    assert f"`{OTHER}`" in PAGE
    assert f"`server.lease_s` ({ServerConfig().lease_s:.0f} s)" in PAGE
    assert BEHIND_S < 0.05
