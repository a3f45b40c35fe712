"""The operator of several models: configures, checks, probes, asks, loses one of them, and reads the receipts."""

import json
from dataclasses import replace
from pathlib import Path

from tests.cli.model_server import KEY, ModelServer
from tests.roles.user import User

CONFIG = """\
default_agent = "relay"

[[backends]]
name = "main"
kind = "openai"
model = "tiny"
base_url = "{main}"
key_env = "MODEL_KEY"
[backends.options]
retries = 0

[[backends]]
name = "spare"
kind = "openai"
model = "tiny"
base_url = "{spare}"
key_env = "MODEL_KEY"
"""


def test_two_models_are_configured_probed_asked_and_one_is_lost(user: User):
    user = replace(user, variables={"MODEL_KEY": KEY})
    with ModelServer().running() as spare:
        with ModelServer().running() as main:
            user.write("accord.toml", CONFIG.format(main=main.url, spare=spare.url))

            # A file is checked before it is trusted, and not used until it is.
            assert "main" in user.accord("config", "check").stdout
            assert "accord config trust" in user.accord("ask", "hi", status=2).stderr
            user.accord("config", "trust", "accord.toml")

            states = json.loads(user.accord("backends", "--json").stdout)["backends"]
            assert [(state["name"], state["ok"]) for state in states] == [("main", True), ("spare", True)]

            # There are no facts about this model, so it is probed, and the result is saved.
            user.accord("backends", "probe", "main", "--write")
            probed = json.loads((user.folder / "accord.main.probed.json").read_text())
            assert probed["found"]["image_input"] == "unsupported"
            assert user.accord("ask", "What is in it?", "--backend", "main", "--require", "image_input", status=1)

            answered = json.loads(user.accord("ask", "Thank you", "--json").stdout)
            assert (answered["text"].strip(), answered["backend"]) == ("You are welcome", "main")

        # The first backend is down: the second one answers, and the output says so.
        done = user.accord("ask", "Thank you", "--receipt")
        assert done.stdout.strip() == "You are welcome"
        assert "failed: main: the endpoint cannot be reached" in done.stderr
        receipt = json.loads(done.stderr.strip().splitlines()[-1])
        assert receipt["work"][0]["backend"]["name"] == "spare"
        states = json.loads(user.accord("backends", "--json", status=1).stdout)["backends"]
        assert [(state["name"], state["ok"]) for state in states] == [("main", False), ("spare", True)]

        # A service does the same, and its receipts show and prove it.
        with user.serve() as served:
            answer = served.ask("Thank you").body
            assert answer["output"]["text"].strip() == "You are welcome"
            assert "spare" in str(answer["metrics"])
            assert served.ask("Thank you again").status == 200
            assert served.press_ctrl_c() == 0
    kept = user.write("receipts.jsonl", user.accord("sessions", "receipts", "mine").stdout)
    text = user.accord("receipts", "show", "receipts.jsonl", "1").stdout
    assert "answered by spare (tiny)" in text
    assert "main failed: " in text
    assert "2 receipts, all in order" in user.accord("receipts", "verify", "receipts.jsonl").stdout
    tamper_with(kept)
    assert "1 altered" in user.accord("receipts", "verify", "receipts.jsonl", status=1).stdout
    assert KEY not in kept.read_text() + text + done.stderr


def tamper_with(receipts: Path) -> None:
    """Claim that somebody else answered first."""
    first, rest = receipts.read_text().split("\n", 1)
    receipts.write_text(first.replace('"name":"spare"', '"name":"main"') + "\n" + rest)
