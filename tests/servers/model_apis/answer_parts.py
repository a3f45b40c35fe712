"""Every part that an answer can carry, each in a least complete answer of its API that has just that one part more.

What the SDKs have types for is read from these types, so that a newer SDK brings its parts with it. Gemini's parts, and
those that well-known servers add to the APIs, are written down here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from anthropic.types import beta
from openai.types import CompletionUsage, chat, responses
from openai.types.chat import chat_completion, chat_completion_chunk
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from openai.types.responses import response_usage
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from accord.wire.disposition import Api
from tests.servers.model_apis.answer_samples import Samples, leaves_of, members_of
from tests.servers.model_apis.answer_streams import EVENTS, Event, numbered, without

TEXT: Final = "Hello there."
MODEL: Final = "the-model-that-answers"
PER_VARIANT: Final = 4
"""How many samples of one type of items are tried; definitions of tools would make many that differ in nothing else."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: the whole answer with it, or only the events of a stream; `leaves` are its values with their paths."""

    source: Api
    name: str
    leaves: Sequence[tuple[tuple[str, ...], Any]]
    answer: Mapping[str, Any] | None
    events: Sequence[Event]
    aliases: Sequence[tuple[str, ...]] = field(default=())
    """Other paths under which a label may name it."""


def path_of(name: str) -> tuple[str, ...]:
    return tuple(step for step in name.replace("[]", "").split(".") if step)


def base_answer(api: Api) -> Event:
    """The least complete answer."""
    match api:
        case Api.CHAT:
            choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
            return {
                "id": "c1",
                "object": "chat.completion",
                "created": 1,
                "model": MODEL,
                "choices": [choice],
                "usage": usage,
            }
        case Api.RESPONSES:
            content: list[Event] = [{"type": "output_text", "text": TEXT, "annotations": []}]
            item: Event = {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
            usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
            head = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "status": "completed"}
            echo: Event = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
            return {**head, **echo, "incomplete_details": None, "output": [item], "usage": usage}
        case Api.MESSAGES:
            head = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
            content = [{"type": "text", "text": TEXT, "citations": None}]
            end = {"stop_reason": "end_turn", "stop_sequence": None}
            return {**head, "content": content, **end, "usage": {"input_tokens": 11, "output_tokens": 5}}
        case _:
            spoken = {"role": "model", "parts": [{"text": TEXT}]}
            usage = {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}
            candidate = {"index": 0, "content": spoken, "finishReason": "STOP"}
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "g1"}


def placed(answer: Event, place: str, name: str, value: Any) -> Event:
    """A copy of the answer with this member of the object at this place; `[]` is the first item of a list."""
    if not place:
        return {**answer, name: value}
    step, _, rest = place.partition(".")
    if step.endswith("[]"):
        first, *others = answer[step[:-2]]
        return {**answer, step[:-2]: [placed(first, rest, name, value), *others]}
    return {**answer, step: placed(answer.get(step) or {}, rest, name, value)}


def part(source: Api, place: str, name: str, value: Any, answer: Event | None = None) -> Part:
    """The part with this value at this place of the least answer, or of another one that has it already."""
    path = (*path_of(place), name)
    if answer is None:
        answer = placed(base_answer(source), place, name, value)
    return Part(source, ".".join(path), [*leaves_of(value, path)], answer, [*EVENTS[source](answer)])


def typed_parts(api: Api, samples: Samples, places: Iterable[tuple[str, Any, set[str]]]) -> Iterator[Part]:
    """A part for each member of these types, but for those that the least answer has."""
    for place, model, left_out in places:
        for name, annotation in members_of(model).items():
            if name not in left_out:
                for value in samples.all_of(annotation, name)[:PER_VARIANT]:
                    yield part(api, place, name, value)


def chat_parts(samples: Samples) -> Iterator[Part]:
    api, message = Api.CHAT, "choices[].message"
    places: list[tuple[str, Any, set[str]]] = [
        ("", chat.ChatCompletion, {"id", "object", "created", "model", "choices", "usage"}),
        ("choices[]", chat_completion.Choice, {"index", "message", "finish_reason", "logprobs"}),
        ("choices[].logprobs", chat_completion.ChoiceLogprobs, set()),
        (message, chat.ChatCompletionMessage, {"role", "content", "refusal", "tool_calls", "function_call"}),
        ("usage", CompletionUsage, {"completion_tokens_details", "prompt_tokens_details"}),
        ("usage.completion_tokens_details", CompletionTokensDetails, set()),
        ("usage.prompt_tokens_details", PromptTokensDetails, set()),
    ]
    yield from typed_parts(api, samples, places)
    for name in ("refusal", "tool_calls", "function_call"):
        for value in samples.all_of(members_of(chat.ChatCompletionMessage)[name], name):
            answer = placed(placed(base_answer(api), message, "content", None), message, name, value)
            end = "stop" if name == "refusal" else name
            yield part(api, message, name, value, placed(answer, "choices[]", "finish_reason", end))
    yield from (part(api, place, name, value) for place, name, value in chat_servers(samples))
    for place in ("", "choices[]", "choices[].delta", "choices[].delta.extra"):
        yield beside_text(api, place, "zq_new", samples.text())
    yield from chunk_parts(samples)


def chunk_parts(samples: Samples) -> Iterator[Part]:
    """What only the chunks of a stream have."""
    places: list[tuple[str, Any, Any]] = [
        ("", chat.ChatCompletionChunk, chat.ChatCompletion),
        ("choices[]", chat_completion_chunk.Choice, chat_completion.Choice),
        ("choices[].delta", chat_completion_chunk.ChoiceDelta, chat.ChatCompletionMessage),
    ]
    for place, model, whole in places:
        for name, annotation in members_of(model).items():
            if name not in {*members_of(whole), "delta"}:
                for value in samples.all_of(annotation, name):
                    yield beside_text(Api.CHAT, place, name, value)


def beside_text(api: Api, place: str, name: str, value: Any) -> Part:
    """A part of the event that has the text, in a stream that has it nowhere else."""
    events = [*EVENTS[api](base_answer(api))]
    number = next(number for number, event in enumerate(events) if TEXT[:5] in str(event))
    events[number] = placed(events[number], place, name, value)
    path = (*path_of(place), name)
    other = {Api.CHAT: ("message",), Api.MESSAGES: ("content", "text")}.get(api, ())
    alias = tuple(new for step in path for new in (other if step == "delta" else (step,)))
    return Part(api, f"{'.'.join(path)} beside text", [*leaves_of(value, path)], None, events, [alias])


def chat_servers(samples: Samples) -> Iterator[tuple[str, str, Any]]:
    """What well-known servers add to a chat completion."""
    text, integer, message = samples.text, samples.integer, "choices[].message"
    filtered = {"hate": {"filtered": True, "severity": "medium"}, "custom_blocklists": {"filtered": True}}
    page = {"title": text(), "url": f"https://{text()}.example/", "date": "2031-02-03", "snippet": text()}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text()}"}, "index": 0}
    yield from (
        # OpenRouter
        (message, "reasoning", text()),
        (message, "reasoning_details", [{"type": "reasoning.text", "text": text(), "signature": text(), "format": text()}]),
        (message, "reasoning_details", [{"type": "reasoning.encrypted", "data": text(), "id": text()}]),
        (message, "images", [image]),
        (message, "annotations", [{"type": "file", "file": {"hash": text(), "name": text(), "content": [{"type": "text", "text": text()}]}}]),
        ("choices[]", "native_finish_reason", text()),
        ("", "provider", text()),
        ("usage", "cost", integer() + 0.5),
        ("usage", "is_byok", True),
        ("usage", "cost_details", {"upstream_inference_cost": integer() + 0.5}),
        # DeepSeek
        (message, "reasoning_content", text()),
        ("usage", "prompt_cache_hit_tokens", integer()),
        ("usage", "prompt_cache_miss_tokens", integer()),
        ("", "system_fingerprint", text()),
        # Azure
        ("choices[]", "content_filter_results", filtered),
        ("", "prompt_filter_results", [{"prompt_index": 0, "content_filter_results": filtered}]),
        (message, "context", {"citations": [{"content": text(), "title": text(), "url": text(), "filepath": text(), "chunk_id": text()}], "intent": text()}),
        # Mistral
        (message, "prefix", True),
        (message, "content", [{"type": "text", "text": TEXT}, {"type": "reference", "reference_ids": [integer()]}]),
        (message, "content", [{"type": "thinking", "thinking": [{"type": "text", "text": text()}]}, {"type": "text", "text": TEXT}]),
        (message, "content", [{"type": "text", "text": TEXT}, {"type": "image_url", "image_url": f"data:image/png;base64,{text()}"}]),
        (message, "content", [{"type": "text", "text": TEXT}, {"type": "zq_new", "zq_value": text()}]),
        # Perplexity
        ("", "citations", [f"https://{text()}.example/"]),
        ("", "search_results", [page]),
        ("", "images", [{"image_url": text(), "origin_url": text(), "height": integer(), "width": integer()}]),
        ("", "related_questions", [text()]),
        ("usage", "citation_tokens", integer()),
        ("usage", "num_search_queries", integer()),
        ("usage", "search_context_size", "high"),
        ("usage", "reasoning_tokens", integer()),
        # Groq
        ("", "x_groq", {"id": text()}),
        ("", "usage_breakdown", {"models": [{"model": text()}]}),
        (message, "executed_tools", [{"index": 0, "type": "search", "arguments": text(), "output": text()}]),
        ("usage", "queue_time", integer() + 0.5),
        ("usage", "total_time", integer() + 0.5),
        # vLLM and others
        ("choices[]", "stop_reason", text()),
        ("choices[]", "token_ids", [integer()]),
        ("", "prompt_logprobs", [{"1": {"logprob": -integer() - 0.5, "rank": 1, "decoded_token": text()}}]),
        ("", "prompt_token_ids", [integer()]),
        ("", "kv_transfer_params", {"zqkey": text()}),
        ("choices[]", "matched_stop", text()),
        (message, "thinking_blocks", [{"type": "thinking", "thinking": text(), "signature": text()}]),
        (message, "provider_specific_fields", {"zqkey": text()}),
        (message, "extra_content", {"google": {"thought_signature": text()}}),
        # of the future
        ("", "zq_new", text()),
        ("choices[]", "zq_new", text()),
        (message, "zq_new", text()),
        (message, "zq_new", {"zq_deep": [text()]}),
        ("usage", "zq_new", integer()),
        ("usage.prompt_tokens_details", "zq_new", integer()),
    )  # fmt: skip


ECHO: Final = frozenset(ResponseCreateParamsBase.__annotations__) - {
    "access_programs", "conversation", "moderation", "service_tier",
}  # fmt: skip
"""Members of a response that repeat its request, which the client has; others of these names say what became of it."""
ITEM_EVENTS: Final = (
    "web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools shell_call"
).split()

PLACES: Final = "item_id output_index content_index summary_index sequence_number command_index".split()
IN_DELTAS: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call", "mcp_call"})


def responses_parts(samples: Samples) -> Iterator[Part]:
    api = Api.RESPONSES
    left_out = {"id", "object", "created_at", "model", "status", "output", "usage", "error", "incomplete_details"}
    details = {"input_tokens_details", "output_tokens_details"}
    places: list[tuple[str, Any, set[str]]] = [
        ("", responses.Response, left_out | ECHO),
        ("usage", responses.ResponseUsage, details),
        ("usage.input_tokens_details", response_usage.InputTokensDetails, set()),
        ("usage.output_tokens_details", response_usage.OutputTokensDetails, set()),
    ]
    yield from typed_parts(api, samples, places)
    yield from output_items(samples)
    for place in ("", "usage", "usage.output_tokens_details", "output[]", "output[].content[]"):
        yield part(api, place, "zq_new", samples.text() if "usage" not in place else samples.integer())
    yield part(api, "usage", "cost", samples.integer() + 0.5)  # OpenRouter
    yield beside_text(api, "", "zq_new", samples.text())
    yield from stream_events(samples)
    yield _audio_events(samples)


def output_items(samples: Samples) -> Iterator[Part]:
    """A part for each type of items, and for each of their variants; of a message, they take the place of the text."""
    seen: dict[str, int] = {}
    new = {"type": "zq_item", "id": samples.text(), "zq_value": samples.text()}
    strange: Event = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    strange["content"] = [{"type": "zq_content", "zq_value": samples.text()}]
    base = base_answer(Api.RESPONSES)
    for item in [*samples.all_of(responses.ResponseOutputItem), new, strange]:
        name = item["type"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > PER_VARIANT and name != "message":
            continue
        items = [item] if name == "message" else [*base["output"], item]
        answer = {**base, "output": items}
        yield Part(
            Api.RESPONSES,
            f"output.{name}",
            [*leaves_of([item], ("output",))],
            answer,
            [*EVENTS[Api.RESPONSES](answer)],
        )


def stream_events(samples: Samples) -> Iterator[Part]:
    """Events of a stream which say more than the whole answer does."""
    items = samples.all_of(responses.ResponseOutputItem)
    base = base_answer(Api.RESPONSES)
    told = [{**base, "output": [each]} for each in items if each["type"] in IN_DELTAS]
    written = {event["type"] for answer in told for event in EVENTS[Api.RESPONSES](answer)}
    ends = {"response.failed", "response.incomplete", "response.queued", "error"}
    new = {"type": "response.zq_new.delta", "delta": samples.text()}
    for event in [*samples.all_of(responses.ResponseStreamEvent), new]:
        name = event["type"]
        if name in written | ends or "audio" in name:
            continue
        kind = next((each for each in ITEM_EVENTS if each in name), None)
        item = next((each for each in items if each["type"] == kind), None)
        events = numbered(_with_event(event, [*base["output"], *([item] if item else [])]))
        said = without(event, "type", *PLACES)
        leaves = [(("event", *path_of(name), *path), value) for path, value in leaves_of(said)]
        yield Part(Api.RESPONSES, f"event {name}", leaves, None, events, [("output", kind)] if kind else [])


def _audio_events(samples: Samples) -> Part:
    """Sound, which no item has: its events say it all."""
    name, sound, words = "response.audio", samples.text(), samples.text()
    said = [
        {"type": f"{name}.delta", "delta": sound},
        {"type": f"{name}.transcript.delta", "delta": words},
        {"type": f"{name}.done"},
        {"type": f"{name}.transcript.done"},
    ]
    events = [*EVENTS[Api.RESPONSES](base_answer(Api.RESPONSES))]
    path = ("event", "response", "audio")
    leaves = [((*path, "delta"), sound), ((*path, "transcript", "delta"), words)]
    return Part(Api.RESPONSES, name, leaves, None, numbered([*events[:-1], *said, events[-1]]))


def _with_event(event: Event, output: list[Event]) -> list[Event]:
    """The stream of this output with one more event: within its last item, if that is not the text."""
    events = [*EVENTS[Api.RESPONSES]({**base_answer(Api.RESPONSES), "output": output})]
    more = {"output_index": len(output) - 1, "item_id": output[-1].get("id")}
    place = len(events) - len(output)
    return [*events[:place], {**event, **{name: more[name] for name in more if name in event}}, *events[place:]]


def messages_parts(samples: Samples) -> Iterator[Part]:
    api = Api.MESSAGES
    left_out = {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
    places: list[tuple[str, Any, set[str]]] = [("", beta.BetaMessage, left_out), ("usage", beta.BetaUsage, set())]
    yield from typed_parts(api, samples, places)
    yield from content_blocks(samples)
    for place in ("", "content[]", "usage", "usage.server_tool_use"):
        yield part(api, place, "zq_new", samples.text() if "usage" not in place else samples.integer())
    yield beside_text(api, "", "zq_new", samples.text())
    yield beside_text(api, "delta", "zq_new", samples.text())
    yield beside_text(api, "delta", "estimated_tokens", samples.integer())
    delta, event = ({"type": name, "zq_value": samples.text()} for name in ("zq_delta", "zq_event"))
    for name, value, more in (
        ("delta", delta, {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("event", event, event),
    ):
        events = [*EVENTS[api](base_answer(api))]
        events.insert(3, more)
        leaves = [*leaves_of([value], (name,))]
        yield Part(
            api, f"{name} {value['type']}", leaves, None, events, [("event", value["type"]), ("content", value["type"])]
        )


def content_blocks(samples: Samples) -> Iterator[Part]:
    """A part for each type of blocks, and for each of their variants; those of text take the place of the text."""
    api = Api.MESSAGES
    base, seen = base_answer(api), dict[str, int]()
    new = {"type": "zq_block", "zq_value": samples.text()}
    blocks = [each for [each] in samples.all_of(members_of(beta.BetaMessage)["content"])]
    for block in [*blocks, new]:
        name = block["type"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > PER_VARIANT and name != "text":
            continue
        content = [block] if name == "text" else [*base["content"], block]
        answer = {**base, "content": content, "stop_reason": "tool_use" if name == "tool_use" else "end_turn"}
        leaves = [*leaves_of([block], ("content",))]
        yield Part(api, f"content.{name}", leaves, answer, [*EVENTS[api](answer)])


def gemini_parts(samples: Samples) -> Iterator[Part]:
    """By the types of google-genai 3.3."""
    text, integer, api = samples.text, samples.integer, Api.GEMINI
    candidate, usage = "candidates[]", "usageMetadata"
    web = {"web": {"uri": f"https://{text()}.example/", "title": text(), "domain": text()}}
    segment = {"startIndex": 0, "endIndex": 5, "text": TEXT[:5]}
    support = {"segment": segment, "groundingChunkIndices": [0], "confidenceScores": [integer() + 0.5]}
    rating = {
        "category": "HARM_CATEGORY_HARASSMENT",
        "probability": "MEDIUM",
        "severity": "HARM_SEVERITY_HIGH",
        "blocked": True,
    }
    token = {"token": TEXT[:5], "logProbability": -integer() - 0.5, "tokenId": integer()}
    counts = [{"modality": "AUDIO", "tokenCount": integer()}]
    for place, name, value in (
        ("", "promptFeedback", {"safetyRatings": [{**rating, "probabilityScore": integer() + 0.5}]}),
        ("", "createTime", "2031-01-01T00:00:00Z"),
        ("", "modelStatus", {"message": text(), "modelStage": "DEPRECATED"}),
        ("", "zqNew", text()),
        (candidate, "zqNew", text()),
        (candidate, "citationMetadata", {"citations": [{"startIndex": 0, "endIndex": 5, "uri": f"https://{text()}.example/", "title": text(), "license": text()}]}),
        (candidate, "citationMetadata", {"citations": [{"startIndex": 0, "endIndex": 5, "license": text(), "publicationDate": {"year": 2031}}]}),
        (candidate, "citationMetadata", {"citationSources": [{"uri": f"https://{text()}.example/", "license": text()}]}),
        (candidate, "finishMessage", text()),
        (candidate, "tokenCount", integer()),
        (candidate, "groundingMetadata", {"groundingChunks": [web], "groundingSupports": [support]}),
        (candidate, "groundingMetadata", {"groundingChunks": [web]}),
        (candidate, "groundingMetadata", {"groundingChunks": [{"retrievedContext": {"uri": f"https://{text()}.example/", "title": text(), "text": text()}}], "groundingSupports": [support]}),
        (candidate, "groundingMetadata", {"groundingChunks": [{"maps": {"uri": f"https://{text()}.example/", "title": text(), "text": text(), "placeId": text()}}], "groundingSupports": [support]}),
        (candidate, "groundingMetadata", {"groundingChunks": [{"image": {"sourceUri": text(), "imageUri": text(), "title": text()}}]}),
        (candidate, "groundingMetadata", {"webSearchQueries": [text()], "imageSearchQueries": [text()], "retrievalQueries": [text()]}),
        (candidate, "groundingMetadata", {"searchEntryPoint": {"renderedContent": text(), "sdkBlob": text()}}),
        (candidate, "groundingMetadata", {"retrievalMetadata": {"googleSearchDynamicRetrievalScore": integer() + 0.5}}),
        (candidate, "groundingMetadata", {"googleMapsWidgetContextToken": text(), "sourceFlaggingUris": [{"sourceId": text()}]}),
        (candidate, "avgLogprobs", -integer() - 0.5),
        (candidate, "logprobsResult", {"chosenCandidates": [token]}),
        (candidate, "logprobsResult", {"chosenCandidates": [token], "topCandidates": [{"candidates": [{**token, "token": text()}]}]}),
        (candidate, "logprobsResult", {"logProbabilitySum": -integer() - 0.5}),
        (candidate, "safetyRatings", [rating]),
        (candidate, "urlContextMetadata", {"urlMetadata": [{"retrievedUrl": text(), "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"}]}),
        (candidate, "continuationToken", text()),
        ("candidates[].content", "zqNew", text()),
        ("candidates[].content.parts[]", "thoughtSignature", text()),
        ("candidates[].content.parts[]", "partMetadata", {"zqkey": text()}),
        ("candidates[].content.parts[]", "speechMetadata", {"speaker": text()}),
        ("candidates[].content.parts[]", "zqNew", text()),
        (usage, "cachedContentTokenCount", integer()),
        (usage, "thoughtsTokenCount", integer()),
        (usage, "toolUsePromptTokenCount", integer()),
        (usage, "promptTokensDetails", counts),
        (usage, "candidatesTokensDetails", counts),
        (usage, "cacheTokensDetails", counts),
        (usage, "toolUsePromptTokensDetails", counts),
        (usage, "trafficType", "PROVISIONED_THROUGHPUT"),
        (usage, "serviceTier", "flex"),
        (usage, "zqNew", integer()),
    ):  # fmt: skip
        yield part(api, place, name, value)
    yield beside_text(api, "", "zqNew", text())
    base = base_answer(api)
    for more in (
        {"text": text(), "thought": True},
        {"text": text(), "thought": True, "thoughtSignature": text()},
        {"functionCall": {"id": text(), "name": text(), "args": {"a": text()}}},
        {"functionCall": {"name": text(), "args": {"a": text()}}, "thoughtSignature": text()},
        {"executableCode": {"language": "PYTHON", "code": text(), "id": text()}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": text(), "id": text()}},
        {"inlineData": {"mimeType": "image/png", "data": text(), "displayName": text()}},
        {"inlineData": {"mimeType": "audio/wav", "data": text()}, "audioTranscription": {"text": text()}},
        {"inlineData": {"mimeType": "video/mp4", "data": text()}},
        {"fileData": {"mimeType": "image/png", "fileUri": f"https://{text()}.example/", "displayName": text()}},
        {"functionResponse": {"id": text(), "name": text(), "response": {"a": text()}}},
        {"toolCall": {"id": text(), "toolType": "GOOGLE_SEARCH_WEB", "args": {"a": text()}}},
        {"toolResponse": {"id": text(), "toolType": "GOOGLE_SEARCH_WEB", "response": {"a": text()}}},
        {"zqNew": {"zqValue": text()}},
    ):
        content = base["candidates"][0]["content"]
        parts = [*content["parts"], more]
        answer = placed(base, candidate, "content", {**content, "parts": parts})
        leaves = [*leaves_of(more, ("candidates", "content", "parts"))]
        yield Part(api, f"parts.{'+'.join(more)}", leaves, answer, [*EVENTS[api](answer)])


def all_parts() -> dict[Api, list[Part]]:
    """The parts of every API that a backend can speak."""
    samples = Samples()
    return {
        Api.CHAT: [*chat_parts(samples)],
        Api.RESPONSES: [*responses_parts(samples)],
        Api.MESSAGES: [*messages_parts(samples)],
        Api.GEMINI: [*gemini_parts(samples)],
    }
