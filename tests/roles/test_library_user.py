"""The library user: a script with the public names and both clients, checked by pyright and run without a warning."""

import subprocess
import sys

from tests.roles.user import User
from tests.test_readme import PYTHON as README_CODE

DECISIONS = """\
# pyright: strict
from accord import (
    CapabilityManifest,
    CapabilityRequirements,
    ClientAdapter,
    ClientCapabilities,
    ContentValidator,
    Conversation,
    EmulationEngine,
    StreamPacket,
    generate_report,
    negotiate,
)

manifest = CapabilityManifest.model_validate({"streaming": "native", "tool_use": "emulated"})
needs = CapabilityRequirements.model_validate({"required": [{"capability": "tool_use", "min_support": "native"}]})
result = negotiate(manifest, needs)
assert not result.is_compatible()
assert result == negotiate({"tool_use": "emulated"}, {"required": [{"capability": "tool_use", "min_support": "native"}]})
assert result.reasons == {"tool_use": "emulated is below native"}
assert generate_report(result).summary == "0 native, 0 emulatable, 1 unsupported — incompatible"

verdict = ContentValidator({"image": True}).validate([{"type": "image", "data": "aGk=", "mimeType": "image/png"}])
assert verdict.valid

adapter = ClientAdapter(ClientCapabilities(supported_events=[], prefers_markdown=False))
packets = [*adapter.feed(StreamPacket(op="delta", p="It is **warm**.\\n\\n")), *adapter.feed(StreamPacket(op="close"))]
assert "".join(str(packet.p or "") for packet in packets).strip() == "It is warm."
assert adapter.report.entries[0].rung == "simplified"

conversation = Conversation.model_validate({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
report = EmulationEngine.with_defaults().apply(["extended_thinking", "code_execution"], conversation)
assert [str(entry.capability) for entry in report.applied] == ["extended_thinking"]
assert report.has_unemulatable()
print("decided")
"""

CLIENTS = """\
# pyright: strict
import asyncio
import sys

from accord import ConnectionFailedError
from accord.client import AsyncClient, Client

address = sys.argv[1]


async def ask_nobody() -> None:
    async with AsyncClient("http://127.0.0.1:9", user="me") as client:
        await client.ask("Hello")


async def ask_twice() -> str:
    async with AsyncClient(address, user="me") as client:
        first = await client.ask("Hello")
        words = [text async for text in client.stream("Hello again").text()]
        receipt = await client.receipt(first.request_id)
    assert receipt.outcome.status == "done"
    assert "Hello again" in "".join(words)
    return str(first.output["text"])


try:
    asyncio.run(asyncio.wait_for(ask_nobody(), 10))
except ConnectionFailedError as error:
    assert "127.0.0.1" in str(error)
assert "Hello" in asyncio.run(ask_twice())
with Client(address, user="me") as client:
    assert client.health().status == "ok"
    assert "Good morning" in str(client.ask("Good morning").output["text"])
    stream = client.stream("Good night")
    assert "Good night" in "".join(stream.text())
    again = "".join(client.resume(stream.request_id).text())
    assert "Good night" in again
print("answered")
"""


def test_the_decisions_are_taken_without_a_service_and_without_a_warning(user: User):
    user.write("decisions.py", DECISIONS)
    assert user.run("python", "-W", "error", "decisions.py").stdout == "decided\n"


def test_both_clients_ask_a_served_agent_without_a_warning(user: User):
    user.write("clients.py", CLIENTS)
    with user.serve() as served:
        assert user.run("python", "-X", "dev", "-W", "error", "clients.py", served.address).stdout == "answered\n"
        assert served.press_ctrl_c() == 0


def test_pyright_reads_the_types_of_the_wheel_and_finds_no_fault_with_the_readme(user: User):
    user.write("decisions.py", DECISIONS)
    user.write("clients.py", CLIENTS)
    user.write("wrong.py", "from accord import negotiate\n\nnegotiate(1, 2)\n")
    for number, code in enumerate(README_CODE):
        # The OpenAI SDK is the user's own choice, and not in this environment; make test runs that block.
        user.write(f"readme_{number}.py", "" if "from openai import" in code else code)
    command = [sys.executable, "-m", "pyright", "--pythonpath", str(user.installed.commands / "python"), "."]
    done = subprocess.run(command, cwd=user.folder, capture_output=True, text=True, timeout=50, check=False)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [line for line in errors if "wrong.py" not in line] == []
    assert any("wrong.py" in line for line in errors), done.stdout
