"""Start `accord acp` with a backend at the address in OPENAI_BASE_URL, as agents are pointed at a model."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

config = Path(os.environ["XDG_STATE_HOME"]) / f"relay-{os.getpid()}.toml"
config.write_text(
    f"""\
[[backends]]
name = "fake"
kind = "openai"
model = "gpt-4o"
base_url = "{os.environ["OPENAI_BASE_URL"]}"
key_env = "OPENAI_API_KEY"
"""
)
agent = str(ROOT / "examples" / "02_my_agent.py") + ":agent"
command = [sys.executable, "-m", "accord", "acp", "--config", str(config), agent]
os.execv(sys.executable, command)  # noqa: S606 - this very interpreter
