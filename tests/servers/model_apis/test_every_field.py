"""Every member of a request that the newest SDKs know, to every kind of model endpoint: none is lost without a word.

Each member is sent through a real service to a recorded endpoint, with and without it. What the endpoint gets has it,
or a label of the answer names it, or the request is refused for it. `python -m tests.servers.model_apis.test_every_field`
prints how many of each there are; with `silent` and the like, which.
"""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from scripts.check_fields import FOR_ALL_OTHERS, makes_no_difference
from scripts.sdk_fields import BASES, SdkMember, sdk_members

from accord.core.work.dispositions import API_NAMES
from accord.servers.http.model_calls import PATHS
from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.recorder import Recorder, recording
from tests.servers.model_apis.test_table import serving

KINDS: Final = (Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.GEMINI)
LIMIT_S: Final = 50.0
MARK: Final = "zq-"
"""What every text begins with that the walk makes up."""

NO_DIFFERENCE_AT: Final[Sequence[tuple[Api, Api, str, str]]] = (
    *((Api.RESPONSES, kind, "metadata", "Accord itself keeps and repeats it") for kind in KINDS),
    (Api.MESSAGES, Api.GEMINI, r'.*\.display="summarized"', "thoughts are always requested as summaries"),
    (Api.CHAT, Api.MESSAGES, r'reasoning_effort="none"', "the model does not think unless that is requested"),
    (Api.RESPONSES, Api.MESSAGES, r'.*reasoning\.effort="none"', "the model does not think unless that is requested"),
    (Api.CHAT, Api.GEMINI, r'service_tier="default"', "it has one tier"),
    (Api.RESPONSES, Api.GEMINI, r'service_tier="default"', "it has one tier"),
    (Api.MESSAGES, Api.GEMINI, r'service_tier="standard_only"', "it has one tier"),
)
"""Members that make no difference to one kind of endpoint: the API, the endpoint's, a pattern of paths, and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back for a request, and what the endpoint got."""

    status: int
    labels: dict[str, tuple[str, str]]
    refused: tuple[str, ...]
    message: str
    sent: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a member at a kind of endpoint; `fields` are what the answer says of it, with the reasons."""

    member: SdkMember
    kind: Api
    result: str
    fields: dict[str, str]

    def __str__(self) -> str:
        fields = "; ".join(f"{name}: {reason}" for name, reason in self.fields.items())
        return f"{self.member.api.value} {self.member.path} at {self.kind.value}: {self.result} {fields}".rstrip()


class Prober:
    """Sends requests to a service, each only once."""

    def __init__(self, client: aiohttp.ClientSession, recorder: Recorder) -> None:
        self._client: Final = client
        self._recorder: Final = recorder
        self._outcomes: Final[dict[str, Outcome]] = {}

    async def send(self, api: Api, kind: Api, body: dict[str, Any]) -> Outcome:
        text = json.dumps({"model": kind.value, **body})
        key = f"{api.value} {text}"
        if key not in self._outcomes:
            self._outcomes[key] = await self._post(api, text)
        return self._outcomes[key]

    async def _post(self, api: Api, text: str) -> Outcome:
        self._recorder.sent.clear()
        headers = {"content-type": "application/json"}
        async with self._client.post(PATHS[api], data=text, headers=headers) as reply:
            answer = await reply.text()
        if "event-stream" in reply.headers["content-type"]:
            answer = next(line[6:] for line in answer.splitlines() if line.startswith("data: "))
        body: dict[str, Any] = json.loads(answer)
        accord: dict[str, Any] = body.get("accord", {})
        labels = {each["field"]: (each["disposition"], each["reason"]) for each in accord.get("dispositions", ())}
        details: dict[str, Any] = accord.get("details", {})
        error: dict[str, Any] = body.get("error") or {}
        refused = tuple(details.get("fields") or filter(None, [details.get("field"), error.get("param")]))
        return Outcome(reply.status, labels, refused, error.get("message", ""), [*self._recorder.sent])


async def probe() -> list[Finding]:
    """Send every member to every kind of endpoint."""
    findings: list[Finding] = []
    async with (
        recording() as recorder,
        serving(recorder) as (address, _),
        aiohttp.ClientSession(address) as client,
    ):
        prober = Prober(client, recorder)
        for api in SERVED:
            for member in sdk_members(api):
                for kind in KINDS:
                    outcome = await prober.send(api, kind, member.body)
                    base = await prober.send(api, kind, member.without)
                    if base.status != 200:  # it has to be there, or what it is in is refused
                        base = await prober.send(api, kind, BASES[api])
                    findings.append(judge(member, kind, outcome, base))
    return findings


def judge(member: SdkMember, kind: Api, outcome: Outcome, base: Outcome) -> Finding:
    """What became of the member, seen from outside."""
    if outcome.status != 200:
        named = {name: outcome.message for name in outcome.refused if is_about(name, member.path)}
        return Finding(member, kind, "refused" if named and outcome.status == 400 else "failed", named)
    dropped = {
        name: reason
        for name, (disposition, reason) in outcome.labels.items()
        if disposition == "dropped" and is_about(name, member.path)
    }
    if dropped:
        return Finding(member, kind, "dropped", dropped)
    if new := {name: each[1] for name, each in outcome.labels.items() if base.labels.get(name) != each}:
        return Finding(member, kind, "emulated", new)
    is_mark = isinstance(member.value, str) and member.value.startswith(MARK)
    if is_mark and member.value not in json.dumps(outcome.sent):
        is_lost = not makes_no_difference(member)
    else:
        is_lost = outcome.sent == base.sent and not makes_no_difference(member) and not is_neutral(member, kind)
    return Finding(member, kind, "silent" if is_lost else "carried", {})


def is_neutral(member: SdkMember, kind: Api) -> bool:
    """Whether the member makes no difference to this kind of endpoint."""
    return any(
        (member.api, kind) == (api, at) and re.fullmatch(pattern, member.path)
        for api, at, pattern, _ in NO_DIFFERENCE_AT
    )


def plain(path: str) -> str:
    """A path of a member or a row without its kinds and values."""
    return re.sub(r"\[[^\]]*\]|=.*|^\*\.", "", path)


def is_about(row: str, path: str) -> bool:
    """Whether the row of this name has the member at this path: its last word is there, or it has all that is inside."""
    if row.endswith((*FOR_ALL_OTHERS, ".hosted", ".web_search", ".media")):
        return plain(row).partition(".")[0] in plain(path).split(".")
    words = set(re.split(r"[.\[\]=\"]+", path))
    return plain(path).startswith(plain(row)) or not words.isdisjoint(row.replace("[]", "").split(".")[-2:])


def places(api: Api) -> frozenset[str]:
    """The members at the top of a request of this API, and the last two words of the path of every other one."""
    return frozenset(last_words(member.path) for member in sdk_members(api))


def last_words(path: str) -> str:
    return ".".join(plain(path).split(".")[-2:])


def false_reasons(findings: Sequence[Finding]) -> set[str]:
    """The fields that an API is said not to have although its SDK has them."""
    false: set[str] = set()
    for kind in SERVED:
        sentence, has = f"{API_NAMES[kind]} has no field for it", places(kind)
        for each in findings:
            for name, reason in each.fields.items() if each.kind is kind else ():
                if last_words(name) in has and (reason == sentence or f"{name}: {sentence}" in reason):
                    false.add(str(each))
    return false


def test_no_member_of_a_request_is_lost_without_a_word_or_for_a_false_reason():
    findings = asyncio.run(asyncio.wait_for(probe(), LIMIT_S))
    assert len(findings) > 4_000
    assert not [str(each) for each in findings if each.result in ("silent", "failed")]
    assert not false_reasons(findings)


def main(results: Sequence[str]) -> None:
    """Print how many members became what, by pair of APIs, and those with one of these results."""
    findings = asyncio.run(probe())
    for api in SERVED:
        for kind in KINDS:
            counts = Counter(each.result for each in findings if (each.member.api, each.kind) == (api, kind))
            text = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
            print(f"{api.value} -> {kind.value}: {counts['silent']} of {counts.total()} silent ({text})")
    for each in findings:
        if each.result in results:
            print(each)


if __name__ == "__main__":
    main(sys.argv[1:])
