"""Send the same requests to each gateway and write what happened to docs/acceptance.md: `make demo-gateways`.

python -m bench.gateways.demo PEERS        (ONLY=accord,litellm: print, do not write)
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import aiohttp

from .__main__ import interrupt
from .contestants import CHAT_PATH, CONTESTANTS, ROOT, Launch, Place, UnavailableError
from .demo_cases import CASES, Answer, Case, labels_of, shorten, verdict
from .demo_gateways import GATEWAYS, DemoGateway
from .demo_upstreams import Body, FakeUpstreams, Received, serving
from .process import PROCESSORS, Program, free_port, running

START_LIMIT_S: Final = 120.0
ANSWER_LIMIT_S: Final = 60.0
REPEATS: Final = 5
"""How often the request to the dead first backend is repeated, to see whether later ones wait as well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one gateway did with one case."""

    gateway: DemoGateway
    case: Case
    answer: Answer
    received: Sequence[Received]
    later_ms: float | None = None

    @property
    def verdict(self) -> str:
        """What happened, in a few words."""
        return verdict(self.case, self.answer, self.received)


class Demo:
    """The running upstreams, and the gateways one after the other."""

    def __init__(self, peers: Path, scratch: Path, upstreams: FakeUpstreams) -> None:
        self._peers: Final = peers
        self._scratch: Final = scratch
        self._upstreams: Final = upstreams
        self.findings: Final[list[Finding]] = []
        self.problems: Final[list[str]] = []

    async def run(self, gateway: DemoGateway) -> None:
        """Start a gateway and send it every case; one that cannot be started is a problem."""
        folder = self._scratch / gateway.name
        folder.mkdir()
        place = Place(self._peers, folder, free_port(), self._upstreams.port)
        try:
            launch = await asyncio.to_thread(gateway.launch, place)
            log = folder / "output.log"
            with running(launch.command, log, processor=PROCESSORS[-1], cwd=launch.cwd, env=launch.env) as program:
                await self._wait(gateway, place, launch, program)
                for case in CASES:
                    self.findings.append(await self._try(gateway, place, launch, case))
        except UnavailableError as error:
            self.problems.append(f"{gateway.title}: {error}")

    async def _wait(self, gateway: DemoGateway, place: Place, launch: Launch, program: Program) -> None:
        """Wait until a plain request is answered."""
        body = {"model": "alive", "messages": [{"role": "user", "content": "Hello?"}]}
        last = "no connection"
        while perf_counter() < program.started_at + START_LIMIT_S:
            if program.has_ended():
                raise UnavailableError(f"ended at its start: {program.last_lines()}")
            try:
                answer = await send(place.port, gateway.headers(place, launch, "alive"), body)
            except (aiohttp.ClientError, TimeoutError) as error:
                last = str(error)
            else:
                if answer.status == 200:
                    return
                last = f"{answer.status} {answer.raw[:200]}"
                if answer.status == 404:
                    raise UnavailableError(f"has no POST {CHAT_PATH}: {last}")
            await asyncio.sleep(0.05)
        raise UnavailableError(f"gave no answer within {START_LIMIT_S:.0f} s: {last}; {program.last_lines()}")

    async def _try(self, gateway: DemoGateway, place: Place, launch: Launch, case: Case) -> Finding:
        """Send one case; the one with the dead backend several times."""
        headers = gateway.headers(place, launch, case.model)
        body = {"model": case.model, **case.body}
        self._upstreams.received.clear()
        answer = await send(place.port, headers, body)
        received = [*self._upstreams.received]
        later_ms = None
        if case.name == "dead":
            later = [await send(place.port, headers, body) for _ in range(REPEATS)]
            later_ms = later[-1].milliseconds
        return Finding(gateway, case, answer, received, later_ms)


async def send(port: int, headers: Any, body: dict[str, Any]) -> Answer:
    """Send one chat request and read its answer, streamed or not."""
    began_at = perf_counter()
    limit = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
    async with (
        aiohttp.ClientSession(timeout=limit) as client,
        client.post(f"http://127.0.0.1:{port}{CHAT_PATH}", json=body, headers=headers) as response,
    ):
        raw = await response.text()
        answer = Answer(response.status, dict(response.headers), raw, (perf_counter() - began_at) * 1_000)
    if answer.status == 200:
        if body.get("stream"):
            read_stream(answer)
        else:
            read_whole(answer)
    return answer


def read_whole(answer: Answer) -> None:
    """Fill in the texts and the tool calls of an answer in one piece."""
    answer.body = json.loads(answer.raw)
    for choice in answer.body.get("choices", []):
        message: Body = choice["message"]
        calls: list[Body] = message.get("tool_calls") or []
        answer.texts.append(message.get("content") or "")
        answer.calls += [call["function"]["arguments"] for call in calls]


def read_stream(answer: Answer) -> None:
    """The same of a stream, put together as OpenAI's clients do it: by the index of the choice and of the call."""
    texts: dict[int, str] = {}
    calls: dict[tuple[int, int], str] = {}
    for line in answer.raw.splitlines():
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line.removeprefix("data: "))
        answer.body = {**chunk, **answer.body}
        for choice in chunk.get("choices", []):
            number: int = choice["index"]
            delta: Body = choice.get("delta") or {}
            texts[number] = texts.get(number, "") + (delta.get("content") or "")
            fragments: list[Body] = delta.get("tool_calls") or []
            for fragment in fragments:
                key = (number, int(fragment.get("index", 0)))
                calls[key] = calls.get(key, "") + (fragment["function"].get("arguments") or "")
    answer.texts, answer.calls = [*texts.values()], [*calls.values()]


def received_text(finding: Finding) -> str:
    """What the upstreams got: the fields that matter, of each request."""
    if not finding.received:
        return "nothing"
    lines: list[str] = []
    for received in finding.received:
        body = received.body
        fields = [
            f"`{name}`: {field_text(body[name])}" if name in body else f"no `{name}`" for name in finding.case.fields
        ]
        lines.append(f"{received.upstream}: {', '.join(fields)}")
    return "<br>".join(lines)


def field_text(value: Any) -> str:
    """A value in short; the beginning of a picture's data would say nothing."""
    text = json.dumps(value, ensure_ascii=False)
    if "data:image" in text:
        return "with the image"
    return f"`{shorten(text)}`"


def client_text(finding: Finding) -> str:
    """What the client got."""
    answer = finding.answer
    if answer.status != 200:
        return shorten(answer.raw)
    parts = [shorten(text) for text in answer.texts if text] + [f"call `{shorten(call)}`" for call in answer.calls]
    return f"{len(answer.texts)} choice{'s' if len(answer.texts) != 1 else ''}: " + "; ".join(parts)


def document(demo: Demo) -> str:
    """The page."""
    shown = [contestant for contestant in CONTESTANTS if contestant.name in [gateway.name for gateway in GATEWAYS]]
    names = ", ".join(f"{contestant.title} {contestant.version(demo_peers())}" for contestant in shown)
    problems = "".join(f"- {problem}\n" for problem in demo.problems)
    return f"""# The same requests to several gateways

`make demo-gateways` wrote this page on {datetime.now(UTC):%Y-%m-%d}; do not edit it. Every gateway got the same
requests of OpenAI's chat API, with the same fake models behind it, which lack what real models lack; we chose the
cases. Each gateway had its default settings and the facts about the models that its configuration can hold
({names}).

The verdicts are computed: from the status, from a check of the answer, and from a search for the name of the field in
the headers and in the body beside the answer. Bold is what a client would not want: a wrong answer that nothing tells
of, a failure, or a refusal because of a setting without which the answer would have been right.

{matrix(demo)}
{"Not run:" + chr(10) + chr(10) + problems if problems else ""}
{"".join(case_section(case, demo) for case in CASES)}"""


def demo_peers() -> Path:
    """The folder of the installed gateways."""
    return Path(sys.argv[1]).resolve()


def matrix(demo: Demo) -> str:
    """One line for each case, one column for each gateway."""
    found = {(finding.case.name, finding.gateway.name): finding.verdict for finding in demo.findings}
    lines = ["| | " + " | ".join(gateway.title for gateway in GATEWAYS) + " |", "|---|" + "---|" * len(GATEWAYS)]
    for case in CASES:
        cells = [found.get((case.name, gateway.name), "not run") for gateway in GATEWAYS]
        lines.append(f"| {case.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def case_section(case: Case, demo: Demo) -> str:
    """What each gateway did with one case."""
    rows: list[str] = []
    for finding in demo.findings:
        if finding.case is not case:
            continue
        labels = "<br>".join(labels_of(case, finding.answer)) or "nothing"
        status = str(finding.answer.status)
        if finding.later_ms is not None:
            status += f" ({finding.answer.milliseconds:.0f} ms, {REPEATS} requests later {finding.later_ms:.0f} ms)"
        cells = (finding.gateway.title, status, received_text(finding), client_text(finding), labels, finding.verdict)
        rows.append("| " + " | ".join(cells) + " |")
    titles = ("", "status", "the upstream received", "the client got", "what tells of a change", "verdict")
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"
    return f"## {case.title}\n\n{head}\n" + "\n".join(rows) + "\n\n"


async def run_all(gateways: Sequence[DemoGateway], scratch: Path) -> Demo:
    """Run the demonstration with these gateways."""
    async with serving(free_port()) as upstreams:
        demo = Demo(demo_peers(), scratch, upstreams)
        for gateway in gateways:
            print(f"{gateway.title} ...", flush=True)
            await demo.run(gateway)
    return demo


def main() -> None:
    """Run all gateways, print the verdicts, and write the page of a full run."""
    signal.signal(signal.SIGTERM, interrupt)
    only = [name for name in (os.environ.get("ONLY") or "").split(",") if name]
    chosen = [gateway for gateway in GATEWAYS if not only or gateway.name in only]
    if not chosen or len(only) > len(chosen):
        sys.exit(f"ONLY={','.join(only)}: use some of {', '.join(gateway.name for gateway in GATEWAYS)}")
    with TemporaryDirectory() as scratch:
        demo = asyncio.run(run_all(chosen, Path(scratch)))
    print(matrix(demo))
    for problem in demo.problems:
        print(problem)
    if len(chosen) == len(GATEWAYS):
        (ROOT / "docs" / "acceptance.md").write_text(document(demo), encoding="utf-8")
        print("Wrote docs/acceptance.md")
    else:
        print("\n".join(case_section(case, demo) for case in CASES))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; everything that was started has been ended.")
