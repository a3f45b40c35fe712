"""Google's Gemini API: read a request, write the reply. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from accord.acp_tools.inspect.fake_model.model_request import (
    MessageRole,
    OfferedTool,
    ReceivedCall,
    ReceivedPart,
    ReceivedRequest,
    ReceivedResult,
    ReceivedText,
    kind_of,
    media_part,
    member,
    messages_of,
    objects,
    words_of,
)
from accord.acp_tools.inspect.fake_model.script import TextReply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_list, as_object, as_text

USAGE: Final = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
STATUSES: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
ROLES: Final[Mapping[str, MessageRole]] = {"model": "assistant", "system": "system"}


def read_request(body: Json, model: str, *, streaming: bool) -> ReceivedRequest:
    """The request in this body; the path has the model and says whether the answer is streamed."""
    settings = as_object(body.get("generationConfig"))
    calling = as_object(member(body, "toolConfig", "functionCallingConfig"))
    allowed = as_list(calling.get("allowedFunctionNames"))
    system = as_object(body.get("systemInstruction") or body.get("system_instruction"))
    is_json = settings.get("responseMimeType") == "application/json"
    schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
    return ReceivedRequest(
        api="gemini",
        model=model,
        streaming=streaming,
        messages=[
            message
            for content in ({**system, "role": "system"}, *objects(body.get("contents")))
            for message in messages_of(
                ROLES.get(as_text(content.get("role")), "user"),
                [part for each in objects(content.get("parts")) for part in _read_part(each)],
            )
        ],
        tools=list(_read_tools(body)),
        schema=as_object(schema) if is_json or schema else None,
        forced_tool=None if calling.get("mode") != "ANY" else as_text(allowed[0]) if len(allowed) == 1 else "",
        body=body,
    )


def _read_part(part: Json) -> Iterator[ReceivedPart]:
    if call := as_object(part.get("functionCall")):
        yield ReceivedCall(as_text(call.get("id")), as_text(call.get("name")), json.dumps(call.get("args")))
    elif result := as_object(part.get("functionResponse")):
        response = as_object(result.get("response"))
        value = response.get("output") or response.get("result") or response.get("error") or response
        text = value if isinstance(value, str) else json.dumps(value)
        media = [inner for each in objects(result.get("parts")) for inner in _read_part(each)]
        yield ReceivedResult(as_text(result.get("id") or result.get("name")), [ReceivedText(text), *media])
    elif data := as_object(part.get("inlineData") or part.get("inline_data")):
        media_type = as_text(data.get("mimeType") or data.get("mime_type"))
        yield media_part(kind_of(media_type), as_text(data.get("data")), media_type, as_text(data.get("displayName")))
    elif file := as_object(part.get("fileData") or part.get("file_data")):
        media_type = as_text(file.get("mimeType") or file.get("mime_type"))
        yield media_part(kind_of(media_type), as_text(file.get("fileUri") or file.get("file_uri")), media_type)
    elif text := as_text(part.get("text")):
        yield ReceivedText(text)


def _read_tools(body: Json) -> Iterator[OfferedTool]:
    for tool in objects(body.get("tools")):
        for each in objects(tool.get("functionDeclarations") or tool.get("function_declarations")):
            schema = as_object(each.get("parametersJsonSchema") or each.get("parameters"))
            if name := as_text(each.get("name")):
                yield OfferedTool(name, schema, as_text(each.get("description")))


def write_whole(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Json:
    """The answer in one document."""
    match reply:
        case ChosenCall():
            part = _call_part(request, reply)
        case TextReply():
            part = {"text": reply.text}
    return _chunk(request, [part], _finish_reason(reply))


def write_events(request: ReceivedRequest, reply: TextReply | ChosenCall) -> Iterator[tuple[str, str]]:
    """The name, which is empty in this API, and the data of each event of a streamed answer."""
    match reply:
        case ChosenCall():
            yield "", json.dumps(write_whole(request, reply))
        case TextReply():
            words = words_of(reply.text)
            for number, word in enumerate(words, start=1):
                finish = _finish_reason(reply) if number == len(words) else None
                yield "", json.dumps(_chunk(request, [{"text": word}], finish))


def write_error(status: int, message: str) -> Json:
    """The body of an error."""
    return {"error": {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}}


def _call_part(request: ReceivedRequest, call: ChosenCall) -> Json:
    function = {"id": f"accord{request.number}", "name": call.tool.name, "args": call.arguments}
    # Gemini 3 models sign their calls, and their clients send the signature back; any base64 will do here.
    return {"functionCall": function, "thoughtSignature": "YWNjb3Jk"}


def _chunk(request: ReceivedRequest, parts: list[Json], finish: str | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    tail = {"modelVersion": request.model, "responseId": f"accord{request.number}"}
    return {"candidates": [candidate], "usageMetadata": USAGE, **tail}


def _finish_reason(reply: TextReply | ChosenCall) -> str:
    return "SAFETY" if isinstance(reply, TextReply) and reply.is_refusal else "STOP"
