"""The rows of Gemini's answers and the writers of the served APIs: what a row says of a client is what the client gets."""

import json
from typing import Any, Final

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import AnswerLabels, ServedApi
from accord.apis.gemini.answer_rows import ROWS
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.core.sse import EventDecoder
from accord.wire.disposition import SERVED, AnswerDisposition, Api
from accord.wire.work import AnyPiece, EndPiece
from tests.apis.test_gemini_answers import CHUNK, PART, answer, example
from tests.apis.test_gemini_answers import read as read_stream

HELLO: Final = [{"role": "user", "content": "Hi"}]
CODECS: Final[dict[Api, tuple[ServedApi, dict[str, Any]]]] = {
    Api.CHAT: (ChatCodec(), {"model": "m", "messages": HELLO, "stream_options": {"include_usage": True}}),
    Api.RESPONSES: (ResponsesCodec(), {"model": "m", "input": "Hi"}),
    Api.MESSAGES: (MessagesCodec(), {"model": "m", "max_tokens": 9, "messages": HELLO}),
}
LABELS: Final = AnswerLabels(id="0" * 32, created=1, model="m", accord={})
SO: Final = {"text": "Hallo: so"}


def media(member: str, media_type: str, **more: Any) -> dict[str, Any]:
    value = "https://zq.test/" if member == "fileUri" else "enEAAAAA"
    name = "fileData" if member == "fileUri" else "inlineData"
    return answer(SO, {name: {"mimeType": media_type, member: value}, **more})


def grounded(**chunk: Any) -> dict[str, Any]:
    return answer(SO, groundingMetadata={"groundingChunks": [chunk]})


def cited(name: str, **source: Any) -> dict[str, Any]:
    return answer(SO, citationMetadata={name: [{"uri": "https://a.test/", **source}]})


def tokens(name: str, value: Any) -> dict[str, Any]:
    plain = {"token": "so", "logProbability": -1}
    is_top = name.startswith("top")
    chosen, top = (
        [plain | ({} if is_top else {name: value})],
        {"candidates": [plain | {name.removeprefix("top_"): value}]},
    )
    return answer(SO, logprobsResult={"chosenCandidates": chosen, **({"topCandidates": [top]} if is_top else {})})


def usage(**counts: Any) -> dict[str, Any]:
    return {**answer(SO), "usageMetadata": {"promptTokenCount": 7000, "candidatesTokenCount": 9, **counts}}


CALL: Final = {"functionCall": {"id": "c1", "name": "f", "args": {"a": "zq"}}}
PLACE: Final = {"startIndex": 3, "endIndex": 7}
LOGPROBS: Final = "candidates[].logprobsResult"
SEEN: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    f"{PART}.text": (answer({"text": "zq"}), ("zq",)),
    f"{PART}.functionCall": (answer(CALL), ("zq",)),
    f"{PART}.thought": (answer({"text": "zq", "thought": True}, SO), ("zq",)),
    f"{PART}.thoughtSignature": (answer({"text": "Hm", "thought": True, "thoughtSignature": "zq"}, SO), ("zq",)),
    f"{PART}.inlineData=image": (media("data", "image/png"), ("enEAAAAA",)),
    f"{PART}.inlineData=audio": (media("data", "audio/wav"), ("enEAAAAA",)),
    f"{PART}.inlineData=file": (media("data", "video/mp4"), ("enEAAAAA",)),
    f"{PART}.fileData=image": (media("fileUri", "image/png"), ("https://zq.test/",)),
    f"{PART}.fileData=audio": (media("fileUri", "audio/wav"), ("https://zq.test/",)),
    f"{PART}.fileData=file": (media("fileUri", "text/csv"), ("https://zq.test/",)),
    f"{PART}.audioTranscription.text": (media("data", "audio/wav", audioTranscription={"text": "zq"}), ("zq",)),
    f"{PART}.thought=media": (media("data", "image/png", thought=True), ("enEAAAAA",)),
    "candidates[].finishReason=CONTINUATION": (
        answer(SO, reason="CONTINUATION"),
        ('"length"', '"max_output_tokens"', '"max_tokens"'),
    ),
    f"{LOGPROBS}.chosenCandidates[].token": (tokens("token", "zq"), ("zq",)),
    f"{LOGPROBS}.chosenCandidates[].logProbability": (tokens("logProbability", -7.125), ("-7.125",)),
    f"{LOGPROBS}.topCandidates[].candidates[].token": (tokens("top_token", "zq"), ("zq",)),
    f"{LOGPROBS}.topCandidates[].candidates[].logProbability": (tokens("top_logProbability", -7.125), ("-7.125",)),
    **{
        f"candidates[].citationMetadata.{name}[].{member}": (cited(name, **PLACE | {member: value}), (text,))
        for name in ("citations", "citationSources")
        for member, value, text in (
            ("uri", "https://zq.test/", "https://zq.test/"),
            ("title", "zq", "zq"),
            ("startIndex", 3, '"start_index":3'),
            ("endIndex", 7, '"end_index":7'),
        )
    },
    **{
        f"{CHUNK}.{name}.{member}": (grounded(**{name: {address: "https://a.test/", member: "zq"}}), ("zq",))
        for name, address, members in (
            ("web", "uri", ("uri", "title")),
            ("retrievedContext", "uri", ("uri", "title", "text")),
            ("maps", "uri", ("uri", "title", "text")),
            ("image", "sourceUri", ("sourceUri", "title")),
        )
        for member in members
    },
    "candidates[].groundingMetadata.groundingSupports[].segment": (
        answer(
            SO,
            groundingMetadata={
                "groundingChunks": [{"web": {"uri": "https://a.test/"}}],
                "groundingSupports": [{"segment": PLACE, "groundingChunkIndices": [0]}],
            },
        ),
        ('"start_index":3',),
    ),
    f"{CHUNK}=no_address": (grounded(web={"title": "zq"}), ("zq",)),
    "candidates[].citationMetadata.citations[]=no_address": (cited("citations", uri="", title="zq"), ("zq",)),
    "candidates[].citationMetadata.citationSources[]=no_address": (
        cited("citationSources", uri="", title="zq"),
        ("zq",),
    ),
    "usageMetadata.promptTokenCount": (usage(), ("7000",)),
    "usageMetadata.toolUsePromptTokenCount": (usage(toolUsePromptTokenCount=77), ("7077",)),
    "usageMetadata.candidatesTokenCount": (usage(candidatesTokenCount=777), ("777",)),
    "usageMetadata.thoughtsTokenCount": (usage(thoughtsTokenCount=777), ("777",)),
    "usageMetadata.cachedContentTokenCount": (usage(cachedContentTokenCount=777), ("777",)),
    "usageMetadata.serviceTier=flex": (usage(serviceTier="flex"), ('"service_tier":"flex"',)),
    "usageMetadata.trafficType=ON_DEMAND_FLEX": (usage(trafficType="ON_DEMAND_FLEX"), ('"service_tier":"flex"',)),
    "usageMetadata.serviceTier": (usage(serviceTier="zq"), ("zq",)),
    "usageMetadata.trafficType": (usage(trafficType="zq"), ("zq",)),
    "candidates[].finishReason": (answer(SO, reason="MAX_TOKENS"), ('"length"', '"max_output_tokens"', '"max_tokens"')),
}
"""An answer that has the part, and the text by which it is seen in the client's answer, of each API if they differ."""
FILTERED: Final = ('"content_filter"', '"content_filter"', '"refusal"')
SEEN.update(
    {
        row: (answer(SO, reason=row.partition("=")[2]), FILTERED)
        for row in ROWS
        if row.startswith("candidates[].finishReason=") and row not in SEEN
    }
)
OWN: Final = {"responseId", "modelVersion", "createTime", "candidates[].content.role"}
"""What clients get as Accord's own, or as their API has it in every answer."""
COUNTED: Final = {
    "candidates[].groundingMetadata.groundingSupports[].groundingChunkIndices",  # by the citations themselves
    "promptFeedback.blockReason",  # by the end of the answer
    "usageMetadata.totalTokenCount",  # the sum of the others
    f"{PART}.inlineData",  # by its kind
    f"{PART}.fileData",
    f"{PART}.thoughtSignature=late",  # of streams alone
}
"""What clients get by another row."""
LOST: Final = [row for row in ROWS if row not in SEEN.keys() | OWN | COUNTED and not ROWS[row].is_native]


def read(body: dict[str, Any]) -> list[AnyPiece]:
    return list(GeminiCodec().read_answer(json.dumps(body).encode()))


def write(api: Api, pieces: list[AnyPiece]) -> tuple[str, str]:
    """The client's answer, whole and streamed, as JSON without blanks."""
    codec, body = CODECS[api]
    request = codec.read_request(body)
    whole = codec.write_answer(request, LABELS, [pieces])
    writer = codec.answer_writer(request, LABELS)
    raw = writer.start() + b"".join(writer.write(piece) for piece in pieces) + writer.finish()
    events = [json.loads(event.data) for event in EventDecoder().feed(raw) if event.data != b"[DONE]"]
    return json.dumps(whole, separators=(",", ":"), default=dict), json.dumps(events, separators=(",", ":"))


def test_every_row_is_seen_or_lost_or_accords_own():
    assert {*SEEN, *LOST, *OWN, *COUNTED} == ROWS.keys()
    letters = {ROWS[row].cells[api] for row in LOST for api in SERVED}
    assert letters == {AnswerDisposition.LOST}


@pytest.mark.parametrize("api", SERVED)
@pytest.mark.parametrize("row", SEEN)
def test_a_client_gets_what_a_row_says(row: str, api: Api):
    body, texts = SEEN[row]
    text = texts[SERVED.index(api) % len(texts)]
    is_carried = ROWS[row].cells[api] is not AnswerDisposition.LOST
    whole, streamed = write(api, read(body))
    assert [text in whole, text in streamed] == [is_carried, is_carried]


@pytest.mark.parametrize("api", SERVED)
def test_the_signature_of_a_call_is_beside_the_call(api: Api):
    member = '"signature":"zq"' if api is Api.MESSAGES else '"extra_content":{"google":{"thought_signature":"zq"}}'
    signed: dict[str, Any] = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "zq"}
    assert all(member in written for written in write(api, read(answer(signed))))


@pytest.mark.parametrize("api", SERVED)
def test_the_signature_of_a_call_that_has_begun_is_beside_the_call_or_lost(api: Api):
    def chunk(call: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"functionCall": call, **more}]}}]}

    begun = chunk({"id": "c1", "name": "f", "willContinue": True})
    *pieces, end = read_stream(begun, chunk({}, thoughtSignature="zq"), {"candidates": [{"finishReason": "STOP"}]})
    assert isinstance(end, EndPiece)
    row = ROWS[f"{PART}.thoughtSignature=late"]
    assert row.name in end.parts
    assert ("zq" in write(api, [*pieces, end])[1]) is (row.cells[api] is not AnswerDisposition.LOST)


@pytest.mark.parametrize("api", SERVED)
@pytest.mark.parametrize("row", LOST)
def test_a_client_gets_nothing_of_what_is_lost(row: str, api: Api):
    assert not any("zq" in written for written in write(api, read(example(row))))


@pytest.mark.parametrize("tier", ["standard", "priority"])
@pytest.mark.parametrize("api", SERVED)
def test_a_tier_reaches_the_client(api: Api, tier: str):
    name = "default" if tier == "standard" and api is not Api.MESSAGES else tier
    assert all(f'"service_tier":"{name}"' in written for written in write(api, read(usage(serviceTier=tier))))
