"""Environment variables: each overrides one value of the file."""

from collections.abc import Callable
from typing import Any

import pytest

from accord.config import Config, read_config
from accord.config.read import VARIABLES

FILE = """
policy = "strict"

[[backends]]
name = "cloud"
kind = "anthropic"

[emulation]
preset = { tool_use = true, streaming = false }

[agents]
helper = "my.agents:helper"
"""

SET_BY: dict[str, tuple[str, Callable[[Config], Any], Any]] = {
    "ACCORD_POLICY": ("permissive", lambda config: config.policy, "permissive"),
    "ACCORD_UNKNOWN": ("try", lambda config: config.unknown, "try"),
    "ACCORD_DEFAULT_AGENT": ("helper", lambda config: config.default_agent, "helper"),
    "ACCORD_RETENTION_DAYS": ("7", lambda config: config.retention_days, 7),
    "ACCORD_EMULATION_PRESET": ("off", lambda config: config.emulation.preset, {}),
    "ACCORD_EMULATION_MAX_RETRIES": ("4", lambda config: config.emulation.max_retries, 4),
    "ACCORD_EMULATION_DESCRIBE_IMAGES_WITH": ("cloud", lambda config: config.emulation.describe_images_with, "cloud"),
    "ACCORD_LIMITS_FIRST_PACKET_S": ("1.5", lambda config: config.limits.first_packet_s, 1.5),
    "ACCORD_LIMITS_GAP_S": ("2.5", lambda config: config.limits.gap_s, 2.5),
    "ACCORD_LIMITS_TURN_S": ("3.5", lambda config: config.limits.turn_s, 3.5),
    "ACCORD_LIMITS_CONCURRENT_TURNS": ("6", lambda config: config.limits.concurrent_turns, 6),
    "ACCORD_SERVER_HOST": ("127.0.0.2", lambda config: config.server.host, "127.0.0.2"),
    "ACCORD_SERVER_PORT": ("8123", lambda config: config.server.port, 8123),
    "ACCORD_SERVER_WORKERS": ("3", lambda config: config.server.workers, 3),
    "ACCORD_STORE_KIND": ("memory", lambda config: config.store.kind, "memory"),
    "ACCORD_STORE_PATH": ("other.db", lambda config: config.store.path, "other.db"),
    "ACCORD_QUEUE_KIND": ("nats", lambda config: config.queue.kind, "nats"),
}
"""Each variable with a text for it, the value that it sets, and what that value is then."""


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_each_variable_sets_its_own_value(name: str):
    text, value_in, value = SET_BY[name]
    assert value_in(read_config(FILE).config) != value
    loaded = read_config(FILE, environ={name: text})
    assert value_in(loaded.config) == value
    assert str(loaded.origin(VARIABLES[name][0])) == f"env {name}"


def test_each_word_for_yes_turns_the_whole_preset_on():
    words = ["true", "yes", "on", "1", "True", "YES"]
    presets = [read_config(FILE, environ={"ACCORD_EMULATION_PRESET": word}).config.emulation.preset for word in words]
    assert presets[0]["streaming"] is True
    assert presets == [presets[0]] * len(words)


@pytest.mark.parametrize("word", ["false", "no", "off", "0", "False"])
def test_each_word_for_no_turns_the_whole_preset_off(word: str):
    assert read_config(FILE, environ={"ACCORD_EMULATION_PRESET": word}).config.emulation.preset == {}
