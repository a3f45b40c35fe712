"""What answers of the Gemini API hold beside text and calls: sources, media, tokens, calls in pieces; and their rows."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.codec import AnswerLabels, MalformedAnswerError, ReportedError
from accord.apis.gemini.answer_rows import LIKELIEST_ALONE, ROWS
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.gemini.read_answer import ENDS, FAILURES, NOT_FINISHED, REFUSALS, GeminiReader
from accord.core.sse import EventDecoder, ServerEvent
from accord.errors import BackendError, ErrorCode, RefusedError
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

GEMINI: Final = GeminiCodec()
REQUEST: Final = GEMINI.read_request({"contents": []}, "gemini-3-pro")
LABELS: Final = AnswerLabels(id="0" * 32, created=1, model="gemini-3-pro", accord={})
PATHS: Final = (Path(__file__).parent / "gemini_answer_paths.txt").read_text(encoding="utf-8").split()
"""Every member of `GenerateContentResponse` in google-genai 3.3.0 that is sent by the API."""
FINISH_REASONS: Final = (
    "STOP MAX_TOKENS SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL "
    "IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_OTHER NO_IMAGE IMAGE_RECITATION UNEXPECTED_TOOL_CALL "
    "TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE ESCALATION PUP_LIMITED_DISABLED CONTINUATION "
    "MODEL_ARMOR FINISH_REASON_UNSPECIFIED"
).split()
CHUNK: Final = "candidates[].groundingMetadata.groundingChunks[]"
PART: Final = "candidates[].content.parts[]"


def answer(*parts: dict[str, Any], reason: str = "STOP", **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": reason, **candidate}]}


def read(*chunks: dict[str, Any]) -> list[AnyPiece]:
    reader = GEMINI.answer_reader()
    pieces = [piece for each in chunks for piece in reader.feed(ServerEvent(json.dumps(each).encode()))]
    return [*pieces, *reader.finish()]


def read_whole(body: dict[str, Any]) -> list[AnyPiece]:
    return list(GEMINI.read_answer(json.dumps(body).encode()))


def read_end(body: dict[str, Any]) -> EndPiece:
    end = read_whole(body)[-1]
    assert isinstance(end, EndPiece)
    assert read(body)[-1] == end
    return end


def write_stream(*pieces: AnyPiece, **labels: Any) -> bytes:
    writer = GEMINI.answer_writer(REQUEST, LABELS)
    return writer.start() + b"".join(writer.write(piece, **labels) for piece in pieces) + writer.finish()


def read_stream(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in EventDecoder().feed(raw)]


# Rows.


@pytest.mark.parametrize("path", PATHS)
def test_every_member_of_googles_own_types_has_a_row(path: str):
    assert any(path == row or path.startswith((f"{row}.", f"{row}[]")) for row in ROWS)


@pytest.mark.parametrize("reason", FINISH_REASONS)
def test_every_finish_reason_has_a_rule(reason: str):
    rules: list[Any] = [ENDS, FAILURES, REFUSALS, NOT_FINISHED, {"CONTINUATION"}]
    assert [reason in rule for rule in rules].count(True) == 1
    assert reason != "CONTINUATION" or f"candidates[].finishReason={reason}" in ROWS


def nested(path: str, value: Any) -> Any:
    """An object that has this value at this path, and nothing else."""
    for name in reversed(path.split(".")):
        value = {name.removesuffix("[]"): [value] if name.endswith("[]") else value}
    return value


def merged(ours: Any, more: Any) -> Any:
    """Both objects in one; of lists, the first items."""
    if isinstance(ours, dict) and isinstance(more, dict):
        return ours | {name: merged(ours[name], value) if name in ours else value for name, value in more.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(ours, list) and isinstance(more, list) and ours and more:
        return [merged(ours[0], more[0])]
    return more  # pyright: ignore[reportUnknownVariableType]


VALUES: dict[str, Any] = {
    "candidates[].index": 1,
    f"{PART}.thought": True,
    f"{PART}.functionCall": {"name": "f"},
    f"{PART}.inlineData": {"mimeType": "image/png", "data": "aa"},
    f"{PART}.fileData": {"mimeType": "image/png", "fileUri": "https://a.test/"},
    "candidates[].finishReason": "STOP",
    "candidates[].logprobsResult.chosenCandidates[].logProbability": -1.5,
    "candidates[].logprobsResult.topCandidates[].candidates[].logProbability": -1.5,
    "candidates[].groundingMetadata.groundingSupports[].segment": {"endIndex": 2, "text": "So"},
    "candidates[].groundingMetadata.groundingSupports[].groundingChunkIndices": [0],
    "candidates[].groundingMetadata.groundingSupports[].confidenceScores": [0.5],
}
BESIDE: dict[str, dict[str, Any]] = {
    "promptFeedback.blockReasonMessage": {"promptFeedback": {"blockReason": "SAFETY"}},
    f"{PART}.thought": {"candidates": [{"content": {"parts": [{"text": "Hm"}]}}]},
}


def example(row: str) -> dict[str, Any]:
    """An answer that has this row, and a text before it."""
    is_count = row.endswith(("Count", "tokenId"))
    value = VALUES.get(row, 7 if is_count and row.startswith("usageMetadata") else "zq")
    body = merged(nested(row, value), BESIDE.get(row, {}))
    if row == "candidates[].index":
        return {"candidates": [answer({"text": "So"})["candidates"][0], {"index": 1}]}
    candidates = body.get("candidates", [{}])
    parts = [{"text": "So"}, *candidates[0].get("content", {}).get("parts", [])]
    content = {**candidates[0].get("content", {}), "parts": parts}
    return {**body, "candidates": [{"finishReason": "STOP", **candidates[0], "content": content}]}


@pytest.mark.parametrize("row", [row for row in ROWS if "=" not in row])
def test_a_part_is_named_unless_every_api_has_it(row: str):
    body = example(row)
    parts = read_end(body).parts
    assert (row in parts) is not ROWS[row].is_native
    assert set(parts) <= ROWS.keys()
    split = [{name: value} for name, value in body.items()]
    assert set(read_end_of_stream(split).parts) == set(parts)


def read_end_of_stream(chunks: list[dict[str, Any]]) -> EndPiece:
    end = read(*chunks)[-1]
    assert isinstance(end, EndPiece)
    return end


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (answer({"inlineData": {"mimeType": "image/png", "data": "aa"}}), f"{PART}.inlineData=image"),
        (answer({"inlineData": {"mimeType": "audio/wav", "data": "aa"}}), f"{PART}.inlineData=audio"),
        (answer({"inlineData": {"mimeType": "video/mp4", "data": "aa"}}), f"{PART}.inlineData=file"),
        (answer({"inlineData": {"data": "aa"}}), f"{PART}.inlineData=file"),
        (answer({"fileData": {"mimeType": "image/png", "fileUri": "u"}}), f"{PART}.fileData=image"),
        (answer({"fileData": {"mimeType": "audio/wav", "fileUri": "u"}}), f"{PART}.fileData=audio"),
        (answer({"fileData": {"mimeType": "text/csv", "fileUri": "u"}}), f"{PART}.fileData=file"),
        (answer({"inlineData": {"data": "aa"}, "thought": True}), f"{PART}.thought=media"),
        (answer(groundingMetadata={"groundingChunks": [{"web": {"title": "T"}}]}), f"{CHUNK}=no_address"),
        (
            answer(citationMetadata={"citations": [{"title": "T"}]}),
            "candidates[].citationMetadata.citations[]=no_address",
        ),
        (
            answer(citationMetadata={"citationSources": [{"license": "MIT"}]}),
            "candidates[].citationMetadata.citationSources[]=no_address",
        ),
    ],
    ids=str,
)
def test_a_part_is_named_by_its_kind_where_that_decides(body: dict[str, Any], part: str):
    assert part in ROWS
    assert part in read_end(body).parts


@pytest.mark.parametrize(
    "usage",
    [
        {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}], "toolUsePromptTokenCount": 0},
        {"trafficType": "ON_DEMAND", "serviceTier": "standard"},
        {"totalTokenCount": 9},
    ],
    ids=str,
)
def test_usage_that_every_api_has_names_no_part(usage: dict[str, Any]):
    assert read_end({**answer({"text": "So"}), "usageMetadata": usage}).parts == []


TEXT_COUNT: Final = {"modality": "TEXT", "tokenCount": 9}


@pytest.mark.parametrize(
    "details",
    [[TEXT_COUNT, {"modality": "AUDIO", "tokenCount": 7}], [{**TEXT_COUNT, "new": 1}], [{"tokenCount": 7}], ["TEXT"]],
    ids=str,
)
def test_counts_of_more_than_text_are_a_part(details: Any):
    usage = {"promptTokensDetails": details, "candidatesTokensDetails": [TEXT_COUNT]}
    assert read_end({**answer({"text": "So"}), "usageMetadata": usage}).parts == ["usageMetadata.promptTokensDetails"]


@pytest.mark.parametrize(
    ("usage", "tier", "parts"),
    [
        ({"serviceTier": "priority"}, "priority", []),
        ({"serviceTier": "flex"}, "flex", ["usageMetadata.serviceTier=flex"]),
        ({"trafficType": "ON_DEMAND"}, "standard", []),
        ({"trafficType": "ON_DEMAND_FLEX"}, "flex", ["usageMetadata.trafficType=ON_DEMAND_FLEX"]),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None, ["usageMetadata.trafficType"]),
        ({"serviceTier": "unspecified"}, None, []),
        ({"serviceTier": "new"}, None, ["usageMetadata.serviceTier"]),
    ],
    ids=str,
)
def test_a_tier_has_one_name(usage: dict[str, Any], tier: str | None, parts: list[str]):
    end = read_end({**answer({"text": "So"}), "usageMetadata": usage})
    assert (end.service_tier, end.parts) == (tier, parts)
    assert set(parts) <= ROWS.keys()


# What an answer rests on.

TEXT: Final = "Grüße, 世界! 🌍 So."
WEB: Final = {"web": {"uri": "https://a.test/", "title": "A"}}
BOOK: Final = {"retrievedContext": {"uri": "https://b.test/", "title": "B", "text": "Words."}}


def place(words: str, text: str = TEXT) -> dict[str, int]:
    start = len(text[: text.index(words)].encode())
    return {"startIndex": start, "endIndex": start + len(words.encode())}


def support(*indices: int, **segment: Any) -> dict[str, Any]:
    return {"segment": segment, "groundingChunkIndices": list(indices)}


def grounding(*supports: dict[str, Any], chunks: Any = (WEB, BOOK)) -> dict[str, Any]:
    return {"groundingChunks": list(chunks), "groundingSupports": list(supports)}


def cite(metadata: dict[str, Any], *texts: str) -> list[tuple[str | None, str | None, str | None]]:
    """The address and quote of each citation, and the words that it is about."""
    parts = [{"text": text} for text in texts or (TEXT,)]
    whole = read_whole(answer(*parts, **metadata))
    text = "".join(piece.text for piece in whole if isinstance(piece, TextPiece))
    citations = [piece for piece in whole if isinstance(piece, CitationPiece)]
    streamed = read(*({"candidates": [{"content": {"parts": [part]}}]} for part in parts), answer(**metadata))
    assert [piece for piece in streamed if isinstance(piece, CitationPiece)] == citations
    assert isinstance(whole[-2 - len(citations)], TextPiece)
    return [
        (each.url, each.quote, None if each.start is None or each.end is None else text[each.start : each.end])
        for each in citations
    ]


A, B = ("https://a.test/", None), ("https://b.test/", "Words.")
CITED: dict[str, tuple[dict[str, Any], tuple[str, ...], list[Any]]] = {
    "bytes are characters": (
        grounding(support(0, **place("世界!"), text="世界!")),
        (TEXT,),
        [(*A, "世界!"), (*B, None)],
    ),
    "a support of several chunks": (
        grounding(support(0, 1, **place("🌍"), text="🌍")),
        (TEXT,),
        [(*A, "🌍"), (*B, "🌍")],
    ),
    "the start may be left out": (grounding(support(0, 1, endIndex=7)), (TEXT,), [(*A, "Grüße"), (*B, "Grüße")]),
    "a chunk that no support names": (grounding(), (TEXT,), [(*A, None), (*B, None)]),
    "offsets in a part": (
        grounding(support(0, 1, startIndex=0, endIndex=2, text="So", partIndex=1)),
        ("Grüße! ", "So."),
        [(*A, "So"), (*B, "So")],
    ),
    "offsets of the whole text in a later part": (
        grounding(support(0, 1, **place("So"), text="So", partIndex=0)),
        ("Grüße, ", "世界! 🌍 So."),
        [(*A, "So"), (*B, "So")],
    ),
    "offsets that do not fit the text": (
        grounding(support(0, 1, startIndex=1, endIndex=3, text="So")),
        (TEXT,),
        [(*A, None), (*B, None)],
    ),
    "offsets outside of the text": (grounding(support(0, 1, endIndex=999)), (TEXT,), [(*A, None), (*B, None)]),
    "offsets the wrong way round": (
        grounding(support(0, 1, startIndex=4, endIndex=2)),
        (TEXT,),
        [(*A, None), (*B, None)],
    ),
    "a start before the text": (
        grounding(support(0, 1, startIndex=-2, endIndex=2)),
        (TEXT,),
        [(*A, None), (*B, None)],
    ),
    "a part that is not there": (
        grounding(support(0, 1, endIndex=7, partIndex=9)),
        (TEXT,),
        [(*A, "Grüße"), (*B, "Grüße")],
    ),
    "a chunk that is not there": (grounding(support(7, -1, 0, endIndex=7)), (TEXT,), [(*A, "Grüße"), (*B, None)]),
    "a source of an unknown kind": (
        grounding(chunks=[{"new": {"uri": "u"}}]),
        (TEXT,),
        [(None, None, None)],
    ),
}


@pytest.mark.parametrize("name", CITED)
def test_a_citation_is_about_the_words_that_its_segment_names(name: str):
    metadata, texts, expected = CITED[name]
    assert cite({"groundingMetadata": metadata}, *texts) == expected


@pytest.mark.parametrize(
    "between",
    [
        {"functionCall": {"name": "f"}},
        {"text": "Hm", "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": "aa"}},
        {"text": ""},
    ],
    ids=str,
)
def test_every_part_counts_where_a_segment_names_one(between: dict[str, Any]):
    segment = {"partIndex": 2, "endIndex": 2, "text": "So"}
    metadata = grounding({"segment": segment, "groundingChunkIndices": [0]}, chunks=[WEB])
    pieces = read_whole(answer({"text": "So "}, between, {"text": "So"}, groundingMetadata=metadata))
    assert [(piece.start, piece.end) for piece in pieces if isinstance(piece, CitationPiece)] == [(3, 5)]


@pytest.mark.parametrize("member", ["citations", "citationSources"])
def test_quoted_sources_are_citations(member: str):
    sources = [{"uri": "https://a.test/", "title": "A", "license": "MIT", **place("世界")}, {"uri": "https://b.test/"}]
    assert cite({"citationMetadata": {member: sources}}) == [(*A, "世界"), ("https://b.test/", None, None)]


def test_a_quoted_source_outside_of_the_text_has_no_place():
    assert cite({"citationMetadata": {"citations": [{"uri": "https://a.test/", "endIndex": 999}]}}) == [(*A, None)]


def test_a_confidence_is_never_that_of_another_source():
    sources: list[dict[str, Any]] = [{"confidenceScore": 0.5}, {}]
    pieces = [CitationPiece(url=f"https://{n}.test/", start=0, end=2, source=each) for n, each in enumerate(sources)]
    for kept, scores in ((pieces, None), (pieces[:1], [0.5])):
        body = GEMINI.write_answer(REQUEST, LABELS, [[TextPiece(text="So"), *kept, EndPiece()]])
        (only,) = body["candidates"][0]["groundingMetadata"]["groundingSupports"]
        assert only.get("confidenceScores") == scores


def test_sources_that_every_event_repeats_count_once():
    first = answer({"text": TEXT}, reason="", groundingMetadata=grounding(support(0, endIndex=7)))
    more = answer(groundingMetadata=grounding(support(0, endIndex=7), support(1, **place("So"))))
    citations = [piece for piece in read(first, more) if isinstance(piece, CitationPiece)]
    assert [(piece.url, piece.start, piece.end) for piece in citations] == [
        ("https://a.test/", 0, 5),
        ("https://b.test/", 13, 15),
    ]


def test_sources_may_come_before_what_rests_on_them():
    first = answer({"text": TEXT}, reason="", groundingMetadata={"groundingChunks": [WEB]})
    last = answer(groundingMetadata={"groundingSupports": [support(0, endIndex=7)]})
    assert [piece.start for piece in read(first, last) if isinstance(piece, CitationPiece)] == [0]


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.data())
def test_a_span_of_characters_is_the_same_after_bytes(text: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(text)))
    piece = CitationPiece(url="u", start=start, end=data.draw(st.integers(start, len(text))))
    whole = GEMINI.write_answer(REQUEST, LABELS, [[TextPiece(text=text), piece, EndPiece()]])
    (read_back,) = (each for each in read_whole(whole) if isinstance(each, CitationPiece))
    assert (read_back.start, read_back.end) == (piece.start, piece.end)


def test_a_thousand_citations_of_a_long_text_take_no_second():
    text = "世" * 1_000_000
    supports = [support(0, startIndex=3 * each, endIndex=3 * each + 300) for each in range(0, 900_000, 900)]
    reader = GeminiReader()
    reader.feed(ServerEvent(json.dumps(answer({"text": text}, groundingMetadata=grounding(*supports))).encode()))
    citations = [piece for piece in reader.finish() if isinstance(piece, CitationPiece)]
    assert [(piece.start, piece.end) for piece in citations[:2]] == [(0, 100), (900, 1_000)]
    assert len(citations) == 1_001


# Media.


def test_an_image_and_a_sound_are_pieces_and_keep_their_signature():
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "aa"}, "thoughtSignature": "s"},
        {"inlineData": {"mimeType": "audio/wav", "data": "bb"}, "audioTranscription": {"text": "Hi"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/"}},
        {"audioTranscription": {"text": "Ho"}},
    ]
    *pieces, end = read_whole(answer(*parts))
    assert pieces == [
        MediaPiece(media_type="image/png", data="aa"),
        ThinkingPiece(text="", signature="s", redacted=True),
        MediaPiece(media_type="audio/wav", data="bb", transcript="Hi"),
        MediaPiece(media_type="image/png", uri="https://a.test/"),
        MediaPiece(media_type="audio/*", transcript="Ho"),
    ]
    assert isinstance(end, EndPiece)
    kinds = [f"{PART}.{kind}" for kind in ("inlineData=audio", "inlineData=image", "fileData=image")]
    assert sorted(end.parts) == sorted([f"{PART}.thoughtSignature", f"{PART}.audioTranscription.text", *kinds])


def test_an_image_alone_is_content_that_may_be_cut_off_or_refused():
    image = {"inlineData": {"mimeType": "image/png", "data": "aa"}}
    assert read_end(answer(image, reason="IMAGE_SAFETY")).reason == "refusal"


def test_an_image_of_the_reasoning_is_no_part_of_the_answer():
    pieces = read_whole(answer({"inlineData": {"mimeType": "image/png"}, "thought": True}, {"text": "So"}))
    assert pieces == [TextPiece(text="So"), EndPiece(parts=[f"{PART}.thought", f"{PART}.thought=media"])]


# Log probabilities.


def test_the_tokens_of_all_events_have_their_probabilities():
    def tokens(*names: str) -> dict[str, Any]:
        chosen = [{"token": name, "logProbability": -0.5, "tokenId": 1} for name in names]
        top = [{"candidates": [{"token": name, "logProbability": -1}]} for name in names[:1]]
        return {"logprobsResult": {"chosenCandidates": chosen, "topCandidates": top}}

    first = answer({"text": "a"}, reason="", **tokens("a", "b"))
    pieces = read(first, answer({"text": "b"}, **tokens("c")))
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    assert end.logprobs == [
        {"token": "a", "logprob": -0.5, "top": [{"token": "a", "logprob": -1}]},
        {"token": "b", "logprob": -0.5},
        {"token": "c", "logprob": -0.5, "top": [{"token": "c", "logprob": -1}]},
    ]


@pytest.mark.parametrize(
    ("chosen", "top", "parts"),
    [
        (None, ["a"], [LIKELIEST_ALONE]),
        ([], ["a"], [LIKELIEST_ALONE]),
        (["a"], ["a", "b"], [LIKELIEST_ALONE]),
        (["a"], ["a"], []),
        (["a", "b"], ["a"], []),
    ],
)
def test_the_likeliest_tokens_of_a_place_without_the_chosen_one_are_lost(
    chosen: list[str] | None, top: list[str], parts: list[str]
):
    tokens: dict[str, Any] = {
        "topCandidates": [{"candidates": [{"token": each, "logProbability": -1}]} for each in top]
    }
    if chosen is not None:
        tokens["chosenCandidates"] = [{"token": each, "logProbability": -0.5} for each in chosen]
    end = read_whole(answer({"text": "ab"}, logprobsResult=tokens))[-1]
    assert isinstance(end, EndPiece)
    assert [part for part in end.parts if "=" in part] == parts
    assert len(end.logprobs or ()) == len(chosen or ())


# Calls in pieces.


def call(*arguments: dict[str, Any], more: bool = True, signature: str | None = None, **members: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {**members, "partialArgs": list(arguments), "willContinue": more}}
    part |= {} if signature is None else {"thoughtSignature": signature}
    return {"candidates": [{"content": {"parts": [part]}}]}


LAST: Final = answer({"functionCall": {}})


def test_a_call_in_pieces_begins_at_once_and_is_complete_at_its_end():
    pieces = read(
        call(name="look", id="c1"),
        call({"jsonPath": "$.city", "stringValue": "Zü", "willContinue": True}),
        call({"jsonPath": "$.city", "stringValue": "rich"}, {"jsonPath": "$.days", "numberValue": 3}),
        call({"jsonPath": "$.where[0].name", "stringValue": "a"}, {"jsonPath": "$.where[0]['in']", "boolValue": False}),
        call({"jsonPath": "$.note", "stringValue": "n", "willContinue": True}),
        call({"jsonPath": "$.where[1]", "nullValue": "NULL_VALUE"}, {"jsonPath": '$["a b"]', "stringValue": ""}),
        LAST,
    )
    arguments = {"city": "Zürich", "days": 3, "where": [{"name": "a", "in": False}, None], "note": "n", "a b": ""}
    assert pieces == [
        ToolCallDelta(id="c1", name="look"),
        ToolCallPiece(id="c1", name="look", input=arguments),
        EndPiece(reason="tool_use"),
    ]


def test_a_call_whose_signature_is_known_comes_whole():
    pieces = read(call(name="look", id="c1", signature="s"), call({"jsonPath": "$.a", "stringValue": "b"}), LAST)
    assert pieces[0] == ToolCallPiece(id="c1", name="look", input={"a": "b"}, signature="s")


def test_the_pieces_of_a_whole_answer_are_no_deltas():
    part = {"functionCall": {"name": "look", "id": "c1", "args": {"a": 1}, "willContinue": True}}
    assert read_whole(answer(part, {"functionCall": {}}))[0] == ToolCallPiece(id="c1", name="look", input={"a": 1})


def test_a_call_in_pieces_has_one_id_if_the_endpoint_gives_none():
    begun, complete, _ = read(call(name="look"), call({"jsonPath": "$.a", "numberValue": 1}), LAST)
    assert isinstance(begun, ToolCallDelta)
    assert isinstance(complete, ToolCallPiece)
    assert begun.id == complete.id


@pytest.mark.parametrize(
    ("reason", "ends"), [("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal"), ("NEW", "max_tokens")]
)
def test_a_call_that_was_cut_off_has_the_text_so_far(reason: str, ends: str):
    argument = {"jsonPath": "$.city", "stringValue": "Zü", "willContinue": True}
    pieces = read(call(name="look", id="c1"), call(argument), answer(reason=reason))
    assert pieces[1] == ToolCallPiece(id="c1", name="look", input='{"city":"Zü"}', cut=True)
    assert isinstance(pieces[-1], EndPiece)
    assert pieces[-1].reason == ends


# Failures.


def test_a_failure_has_the_endpoints_own_words():
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."}}
    for body in (answer(reason="OTHER", finishMessage="No."), blocked):
        with pytest.raises(ReportedError) as caught:
            read(body)
        assert caught.value.report.message == "No."


def test_a_prompt_that_is_blocked_after_text_ends_the_answer():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    assert read({"candidates": [{"content": {"parts": [{"text": "So"}]}}]}, blocked)[-1] == EndPiece(reason="refusal")


def test_text_that_quotes_an_end_is_no_end():
    quoted = {"candidates": [{"content": {"parts": [{"text": '"finishReason": "STOP"\n\ndata: [DONE]\n\n'}]}}]}
    with pytest.raises(MalformedAnswerError):
        read(quoted)


def test_a_large_event_is_read():
    text = "a" * 10_000_000
    assert read(answer({"text": text})) == [TextPiece(text=text), EndPiece()]


# Writing.


def test_a_call_that_was_cut_off_is_written_as_one_that_continues():
    cut = ToolCallPiece(id="c1", name="look", input='{"city": "Zü', cut=True)
    end = EndPiece(reason="max_tokens")
    body = GEMINI.write_answer(REQUEST, LABELS, [[cut, end]])
    (part,) = body["candidates"][0]["content"]["parts"]
    assert part == {"functionCall": {"id": "c1", "name": "look", "args": {"city": "Zü"}, "willContinue": True}}
    assert read_whole(body)[0] == ToolCallPiece(id="c1", name="look", input='{"city":"Zü"}', cut=True)


@pytest.mark.parametrize("text", ["", "[1", "{", '"a', "nonsense", '{"a": NaN'])
def test_of_a_call_that_was_cut_off_early_there_are_no_arguments(text: str):
    cut = ToolCallPiece(id="c1", name="look", input=text, cut=True)
    (event, _) = read_stream(write_stream(cut, EndPiece(reason="max_tokens")))
    assert event["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {}


def test_the_input_of_a_tool_that_takes_text_is_an_argument():
    custom = ToolCallPiece(id="c1", name="run", input="ls", custom=True)
    body = GEMINI.write_answer(REQUEST, LABELS, [[custom, EndPiece(reason="tool_use")]])
    assert read_whole(body)[0] == ToolCallPiece(id="c1", name="run", input={"input": "ls"})


def test_a_call_is_written_once_and_what_says_nothing_is_not():
    pieces: list[AnyPiece] = [
        WorkPiece(event={}),
        TextPiece(text=""),
        ThinkingPiece(text=""),
        ToolCallDelta(id="c1", name="f"),
        ToolCallDelta(id="c1", name="f", text="{}"),
        ToolCallPiece(id="c1", name="f", input={}),
        EndPiece(reason="tool_use"),
    ]
    event, end = read_stream(write_stream(*pieces))
    assert event["candidates"][0]["content"]["parts"] == [{"functionCall": {"id": "c1", "name": "f", "args": {}}}]
    assert end["candidates"][0]["finishReason"] == "STOP"


def test_the_parts_of_a_whole_answer_are_as_long_as_what_they_are_of():
    pieces: list[AnyPiece] = [
        ThinkingPiece(text="a"),
        ThinkingPiece(text="b", signature="s1"),
        ThinkingPiece(text="c"),
        ThinkingPiece(text="", signature="s2", redacted=True),
        ThinkingPiece(text="d", signature="s3", redacted=True),
        TextPiece(text="x"),
        TextPiece(text="y"),
        TextPiece(text="no", refusal=True),
        MediaPiece(media_type="audio/*", transcript="hi"),
        EndPiece(usage={"input_tokens": 2, "output_tokens": None}),
    ]
    body = GEMINI.write_answer(REQUEST, LABELS, [pieces])
    assert body["candidates"][0]["content"]["parts"] == [
        {"text": "ab", "thought": True, "thoughtSignature": "s1"},
        {"text": "c", "thought": True},
        {"text": "", "thoughtSignature": "s2"},
        {"text": "d", "thought": True, "thoughtSignature": "s3"},
        {"text": "xy"},
        {"text": "no"},
        {"audioTranscription": {"text": "hi"}},
    ]
    assert body["candidates"][0]["finishReason"] == "SAFETY"
    assert body["usageMetadata"] == {"promptTokenCount": 2, "totalTokenCount": 2}


def test_an_id_that_accord_made_is_not_written():
    body = answer({"functionCall": {"name": "f", "args": {}}})
    written = GEMINI.write_answer(REQUEST, LABELS, [read_whole(body)])
    assert written["candidates"][0]["content"] == {**body["candidates"][0]["content"], "role": "model"}


def test_text_that_refuses_ends_as_a_refusal_whole_and_streamed():
    pieces: list[AnyPiece] = [TextPiece(text="I cannot.", refusal=True), EndPiece()]
    whole = GEMINI.write_answer(REQUEST, LABELS, [pieces])
    expected = [TextPiece(text="I cannot."), EndPiece(reason="refusal", model="gemini-3-pro")]
    assert read_whole(whole) == read(*read_stream(write_stream(*pieces))) == expected


def test_several_answers_are_candidates_and_their_usage_is_one():
    request = GEMINI.read_request({"contents": [], "generationConfig": {"candidateCount": 2}})
    ends = [EndPiece(usage={"input_tokens": 2, "output_tokens": each}, service_tier="default") for each in (3, 4)]
    answers = [[TextPiece(text=text), end] for text, end in zip("ab", ends, strict=True)]
    whole = GEMINI.write_answer(request, LABELS, answers)
    assert [(each["index"], each["content"]["parts"]) for each in whole["candidates"]] == [
        (0, [{"text": "a"}]),
        (1, [{"text": "b"}]),
    ]
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 7, "totalTokenCount": 11, "serviceTier": "standard"}
    assert whole["usageMetadata"] == usage
    writer = GEMINI.answer_writer(request, LABELS)
    events = read_stream(b"".join(writer.write(p, n) for n, answer in enumerate(answers) for p in answer))
    assert [each["candidates"][0]["index"] for each in events] == [0, 0, 1, 1]
    assert events[-1]["usageMetadata"] == usage


def test_the_label_is_in_the_body_and_in_the_first_and_the_last_event():
    labels = AnswerLabels(id="1", created=1, model="m", accord={"backend": "b"})
    pieces: list[AnyPiece] = [TextPiece(text="a"), EndPiece()]
    assert GEMINI.write_answer(REQUEST, labels, [pieces])["accord"] == {"backend": "b"}
    writer = GEMINI.answer_writer(REQUEST, labels)
    last = writer.write(pieces[1], label={"answer": []})
    events = read_stream(writer.start() + writer.write(pieces[0]) + last + writer.finish())
    assert [event.get("accord") for event in events] == [{"backend": "b"}, None, {"answer": []}]


def test_an_answer_without_an_end_cannot_be_written():
    with pytest.raises(TypeError):
        GEMINI.write_answer(REQUEST, LABELS, [[TextPiece(text="a")]])


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (RefusedError("No.", ErrorCode.INVALID_MESSAGE, {"field": "contents"}), 400, "INVALID_ARGUMENT"),
        (RefusedError("No.", ErrorCode.UNAUTHENTICATED, {}), 401, "UNAUTHENTICATED"),
        (RefusedError("No.", ErrorCode.RATE_LIMIT_EXCEEDED, {}), 429, "RESOURCE_EXHAUSTED"),
        (BackendError("No."), 502, "INTERNAL"),
    ],
    ids=str,
)
def test_an_error_that_was_written_is_read_as_what_it_is(error: Any, code: int, status: str):
    body = GEMINI.write_error(error, "r1")
    assert (body["error"], body["accord"]["request_id"]) == ({"code": code, "message": "No.", "status": status}, "r1")
    assert body["accord"]["code"] == str(error.code)
    report = GEMINI.read_error(code, json.dumps(body).encode())
    assert (report.code, report.message, report.status) == (status, "No.", code)
    for event in (GEMINI.write_error_event(error, "r1"), GEMINI.answer_writer(REQUEST, LABELS).fail(error, "r1")):
        assert read_stream(event) == [body]
        with pytest.raises(ReportedError):
            read(*read_stream(write_stream(TextPiece(text="a")) + event))
