"""What each extra gives: it does its work with what it declares, and names the extra for what it lacks."""

from collections.abc import Callable

import pytest

from tests.roles.test_library_user import DECISIONS
from tests.roles.test_wheel import IMPORT_ALL
from tests.roles.user import User

UserWith = Callable[[str], User]

ENGINE = """\
import asyncio

from accord import Agent, ServiceRequest
from accord.run import Dispatcher, Engine

agent = Agent(name="greeter")


@agent
async def answer(turn):
    yield f"You said {turn.text}."

context = {"session_id": "s", "user": {"id": "ada", "name": "Ada"}}
values = {"request_id": "00000000-0000-4000-8000-000000000001", "context": context, "payload": {"query": "hello"}}
request = ServiceRequest.model_validate(values)
print(asyncio.run(Engine(agent, Dispatcher([])).respond(request)).output["text"])
"""
IMPORTS_CLIENT = """\
from accord import MissingExtraError

try:
    import accord.client
except ImportError as error:
    assert isinstance(error, MissingExtraError)
    print(error)
"""
NEEDS_SERVE = "which is not installed: pip install 'accord-agents[serve]'"


def test_the_library_alone_decides_and_names_the_extras(user_with: UserWith):
    user = user_with("")
    user.write("decisions.py", DECISIONS)
    user.write("engine.py", ENGINE)
    user.write("imports_client.py", IMPORTS_CLIENT)
    assert user.run("python", "-W", "error", "decisions.py").stdout == "decided\n"
    assert user.run("python", "-W", "error", "engine.py").stdout == "You said hello.\n"
    assert user.run("python", "imports_client.py").stdout == f"accord.client needs aiohttp, {NEEDS_SERVE}\n"
    message = "accord: The accord command needs typer, which is not installed: pip install 'accord-agents[cli]'\n"
    assert user.accord("--version", status=2).stderr == message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("negotiate --example", "fully compatible"),
        ("capabilities", "image_url"),
        ("models gpt-4o --limit 1", "shown"),
        ("schemas out", "Wrote"),
        ("config check", "the defaults are in effect"),
        ("ask hi", "hi"),
        ("inspect --only handshake -- accord proxy -- cat", ""),
    ],
)
def test_commands_without_a_server_or_database_need_the_extra_cli_only(
    user_with: UserWith, arguments: str, expected: str
):
    done = user_with("cli").accord(*arguments.split(), status=1 if arguments.startswith("inspect") else 0)
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        ("serve", "uvicorn"),
        ("chat", "uvicorn"),
        ("worker", "uvicorn"),
        ("keys add ada", "sqlalchemy"),
        ("inspect --mock-llm -- cat", "aiohttp"),
    ],
)
def test_other_commands_name_the_extra_in_one_sentence(user_with: UserWith, arguments: str, module: str):
    errors = user_with("cli").accord(*arguments.split(), status=2).stderr
    assert f"needs {module}, {NEEDS_SERVE}\n" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("extra", "program"),
    [
        ("images", "import accord.images, PIL.Image"),
        ("nats", "import accord.queues.nats.connection"),
        ("oidc", "import accord.servers.http.oidc"),
        ("otel", "import accord, opentelemetry.trace"),
        ("postgres", "import accord.stores.postgres"),
        (
            "signing",
            "from pathlib import Path; from accord.assembly.signing import make_key; make_key(Path('key.pem'))",
        ),
    ],
)
def test_each_other_extra_brings_what_its_part_needs(user_with: UserWith, extra: str, program: str):
    assert user_with(extra).run("python", "-W", "error", "-c", program).stdout == ""


def test_all_has_everything(user_with: UserWith):
    user = user_with("all")
    user.write("import_all.py", IMPORT_ALL)
    assert user.run("python", "-W", "error", "import_all.py").stdout == ""
    assert "pub" in user.accord("receipts", "keygen", "key.pem").stdout
