"""One request for every row of the table of fields: what it adds to the smallest request of its API.

`trace` is a text that is in the request only because of the field: where the field is dropped, it is not in what the
upstream gets. `means` names an entry of `MEANINGS`, the one place that says how each API writes what is native there.
A request of the API that the upstream speaks is passed on as it is, which needs no entry.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from accord.wire.disposition import Api

Json = dict[str, Any]

PIXEL: Final = "iVBORw0KGgo="
PDF: Final = "JVBERi0xLjQK"
SIGNATURE: Final = "enEtc2lnbmVk"
NOTES: Final = "Zm9yZ2V0LW1lLW5vdA=="
"""`forget-me-not` in base64: the text of a document."""
AUDIO: Final = "UklGRgAA"
ADDRESS: Final = "https://images.example/one.png"
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
INPUT: Final[Json] = {"type": "object", "properties": {"q": {"type": "string"}}}
BREAKPOINT: Final[Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EPHEMERAL: Final = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Example:
    """What a request has to have so that it uses a field."""

    adds: Json
    trace: str = ""
    means: str = ""


def chat_says(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}, *parts]}]}


def chat_continues(message: Json, *more: Json) -> Json:
    return {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", **message}, *more]}


def responses_say(*parts: Json) -> Json:
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}, *parts]}]}


def responses_continue(*items: Json) -> Json:
    return {"input": [{"role": "user", "content": "Hello"}, *items, {"role": "user", "content": "Go on"}]}


def messages_say(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}, *blocks]}]}


def messages_continue(*blocks: Json, then: Any = "Go on") -> Json:
    return {
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": list(blocks)},
            {"role": "user", "content": then},
        ]
    }


def chat_tool(**more: Any) -> Json:
    return {"type": "function", "function": {"name": "look_up", "parameters": INPUT, **more}}


CHAT_CALL: Final[Json] = {
    "id": "call_7",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"q": "bees"}'},
}
CHAT_RESULT: Final[Json] = {"role": "tool", "tool_call_id": "call_7", "content": "many-bees"}
TOOLS: Final[Json] = {"tools": [chat_tool()]}
RESPONSES_TOOL: Final[Json] = {"type": "function", "name": "look_up", "parameters": INPUT, "strict": False}
RESPONSES_CALL: Final[Json] = {
    "type": "function_call",
    "call_id": "call_7",
    "name": "look_up",
    "arguments": '{"q": "bees"}',
}
RESPONSES_RESULT: Final[Json] = {"type": "function_call_output", "call_id": "call_7", "output": "many-bees"}
MESSAGES_TOOL: Final[Json] = {"name": "look_up", "input_schema": INPUT}
MESSAGES_CALL: Final[Json] = {"type": "tool_use", "id": "call_7", "name": "look_up", "input": {"q": "bees"}}
MESSAGES_RESULT: Final[Json] = {"type": "tool_result", "tool_use_id": "call_7", "content": "many-bees"}


def texts(kind: str) -> list[Json]:
    return [{"type": kind, "text": text} for text in ("many", "bees")]


def source(kind: str, **members: str) -> Json:
    return {"source": {"type": kind, **members}}


CHAT: Final[dict[str, Example]] = {
    "model": Example({}, means="hello"),
    "messages": Example({}, means="hello"),
    "messages[].system": Example(
        {"messages": [*chat_says()["messages"], {"role": "developer", "content": "zq-now"}]}, means="now"
    ),
    "messages[].name": Example({"messages": [{"role": "user", "content": "Hello", "name": "zq-ann"}]}, "zq-ann"),
    "messages[].reasoning_content": Example(
        chat_continues({"content": "Hi", "reasoning_content": "zq-thought"}, {"role": "user", "content": "Go on"}),
        "zq-thought",
        "unsigned thought",
    ),
    "messages[].thinking_blocks": Example(
        chat_continues(
            {
                "content": "Hi",
                "thinking_blocks": [{"type": "thinking", "thinking": "zq-thought", "signature": SIGNATURE}],
            },
            {"role": "user", "content": "Go on"},
        ),
        "zq-thought",
        "thought",
    ),
    "messages[].refusal": Example(chat_continues({"refusal": "zq-no"}, {"role": "user", "content": "Go"}), means="no"),
    "messages[].audio": Example(chat_continues({"audio": {"id": "zq-audio"}}), "zq-audio"),
    "messages[].tool_calls": Example(chat_continues({"tool_calls": [CHAT_CALL]}, CHAT_RESULT) | TOOLS, means="called"),
    "messages[tool].content[].texts": Example(
        chat_continues({"tool_calls": [CHAT_CALL]}, {**CHAT_RESULT, "content": texts("text")}) | TOOLS,
        means="result in texts",
    ),
    "messages[].tool_calls[].custom": Example(
        chat_continues({"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n", "input": "zq-text"}}]}),
        means="custom call",
    ),
    "messages[].tool_calls[].function.arguments": Example(
        chat_continues(
            {"tool_calls": [{**CHAT_CALL, "function": {"name": "look_up", "arguments": "zq-{"}}]}, CHAT_RESULT
        )
        | TOOLS,
    ),
    "messages[].function_call": Example(
        chat_continues(
            {"function_call": {"name": "look_up", "arguments": '{"q": "bees"}'}},
            {"role": "function", "name": "look_up", "content": "many-bees"},
        )
        | TOOLS,
        means="called in the older form",
    ),
    "messages[].content[].image_url": Example(
        chat_says({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}), means="image"
    ),
    "messages[].content[].image_url.address": Example(
        chat_says({"type": "image_url", "image_url": {"url": ADDRESS}}), means="image by address"
    ),
    "messages[].content[].image_url.detail": Example(
        chat_says({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}),
        '"detail"',
        "detail",
    ),
    "messages[].content[].input_audio": Example(
        chat_says({"type": "input_audio", "input_audio": {"data": AUDIO, "format": "wav"}}), means="audio"
    ),
    "messages[].content[].file": Example(
        chat_says({"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}),
        means="pdf",
    ),
    "messages[].content[].file.file_id": Example(
        chat_says({"type": "file", "file": {"file_id": "file-zq"}}), means="uploaded file"
    ),
    "messages[].content[].cache_control": Example(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": EPHEMERAL}]}]},
        "cache_control",
        "cached text",
    ),
    "messages[assistant].content[].prompt_cache_breakpoint": Example(
        chat_continues(
            {"content": [{"type": "text", "text": "Hi", **BREAKPOINT}]}, {"role": "user", "content": "Go on"}
        ),
        "explicit",
        "cache point of the assistant",
    ),
    "messages[].content[].prompt_cache_breakpoint": Example(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", **BREAKPOINT}]}]},
        "explicit",
        "cache point",
    ),
    "messages[].content[].other": Example(chat_says({"type": "zq", "zq": 1})),
    "stream": Example({"stream": True}, means="stream"),
    "stream_options.include_usage": Example(
        {"stream": True, "stream_options": {"include_usage": True}}, means="stream"
    ),
    "stream_options.include_obfuscation": Example(
        {"stream": True, "stream_options": {"include_obfuscation": True}}, "obfuscation"
    ),
    "stream_options.other": Example({"stream": True, "stream_options": {"zq_option": True}}, "zq_option"),
    "tools": Example(TOOLS, means="tool"),
    "tools[].function.strict": Example({"tools": [chat_tool(strict=True)]}, '"strict": true', "strict tool"),
    "tools[].cache_control": Example(
        {"tools": [{**chat_tool(), "cache_control": EPHEMERAL}]}, "cache_control", "cached tool"
    ),
    "tools[].custom": Example({"tools": [{"type": "custom", "custom": {"name": "zq-tool"}}]}, means="custom tool"),
    "tools[].other": Example({"tools": [{"type": "zq"}]}),
    "tool_choice": Example(TOOLS | {"tool_choice": "none"}, means="no call"),
    "tool_choice.allowed_tools": Example(
        {
            "tools": [chat_tool(), {"type": "function", "function": {"name": "zq_forbidden"}}],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look_up"}}]},
            },
        }
    ),
    "parallel_tool_calls": Example(TOOLS | {"parallel_tool_calls": False}, "parallel", "one call"),
    "functions": Example({"functions": [{"name": "look_up", "parameters": INPUT}]}, means="tool"),
    "function_call": Example(
        {"functions": [{"name": "look_up", "parameters": INPUT}], "function_call": "none"}, means="no call"
    ),
    "response_format.json_schema": Example(
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}},
        means="schema",
    ),
    "response_format.json_schema.description": Example(
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "description": "zq-about", "schema": SCHEMA},
            }
        },
        "zq-about",
        "described schema",
    ),
    "response_format.json_object": Example({"response_format": {"type": "json_object"}}, means="json"),
    "response_format.other": Example({"response_format": {"type": "zq"}}),
    "temperature": Example({"temperature": 0.375}, "temperature", "temperature"),
    "top_p": Example({"top_p": 0.96875}, "top_p", "top_p"),
    "top_k": Example({"top_k": 37}, "top_k", "top_k"),
    "frequency_penalty": Example({"frequency_penalty": 0.375}, "requency", "frequency_penalty"),
    "presence_penalty": Example({"presence_penalty": 0.375}, "resence", "presence_penalty"),
    "seed": Example({"seed": 8675309}, "8675309", "seed"),
    "logit_bias": Example({"logit_bias": {"50256": -100}}, "50256"),
    "max_tokens": Example({"max_tokens": 77}, "77", "max_tokens"),
    "max_completion_tokens": Example({"max_completion_tokens": 77}, "77", "max_tokens"),
    "logprobs": Example({"logprobs": True}, means="logprobs"),
    "top_logprobs": Example({"logprobs": True, "top_logprobs": 3}, means="top_logprobs"),
    "n": Example({"n": 2}),
    "stop": Example({"stop": ["zq-stop"]}, means="stop"),
    "reasoning_effort": Example({"reasoning_effort": "low"}, "reasoning", "effort"),
    "verbosity": Example({"verbosity": "low"}, "verbosity", "verbosity"),
    "modalities": Example({"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}),
    "audio": Example({"audio": {"voice": "alloy", "format": "wav"}}),
    "prediction": Example({"prediction": {"type": "content", "content": "zq-foreseen"}}, "zq-foreseen"),
    "web_search_options": Example({"web_search_options": {}}),
    "moderation": Example({"moderation": {"model": "m"}}, means="moderation"),
    "metadata": Example({"metadata": {"k": "zq-kept"}}, "zq-kept", "metadata"),
    "user": Example({"user": "zq-user"}, "zq-user", "user"),
    "user.second": Example({"user": "zq-user", "safety_identifier": "zq-id"}, "zq-user", "user"),
    "safety_identifier": Example({"safety_identifier": "zq-id"}, "zq-id", "safety_identifier"),
    "prompt_cache_key": Example({"prompt_cache_key": "zq-key"}, "zq-key", "prompt_cache_key"),
    "prompt_cache_retention": Example({"prompt_cache_retention": "24h"}, "retention", "prompt_cache_retention"),
    "prompt_cache_options": Example({"prompt_cache_options": {"ttl": "30m"}}, "30m", "prompt_cache_options"),
    "service_tier": Example({"service_tier": "flex"}, "flex", "flexible tier"),
    "service_tier.default": Example({"service_tier": "default"}, means="default tier"),
    "store": Example({"store": True}, '"store": true', "store"),
    "*": Example({"zq_field": 1}, "zq_field"),
}

RESPONSES: Final[dict[str, Example]] = {
    "model": Example({}, means="hello"),
    "input": Example({}, means="hello"),
    "instructions": Example({"instructions": "zq-be-brief"}, means="instructions"),
    "input[].input_image": Example(
        responses_say({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}), means="image"
    ),
    "input[].input_image.address": Example(
        responses_say({"type": "input_image", "image_url": ADDRESS}), means="image by address"
    ),
    "input[].input_image.detail": Example(
        responses_say({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}),
        '"detail"',
        "detail",
    ),
    "input[].input_image.file_id": Example(responses_say({"type": "input_image", "file_id": "file-zq"})),
    "input[].input_file": Example(
        responses_say({"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}),
        means="pdf",
    ),
    "input[].input_file.text": Example(
        responses_say({"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{NOTES}"}),
        means="document",
    ),
    "input[].input_file.other": Example(
        responses_say({"type": "input_file", "filename": "a.zip", "file_data": "data:application/zip;base64,UEsDBA=="}),
        means="file",
    ),
    "input[].input_file.address": Example(
        responses_say({"type": "input_file", "file_url": "https://x.example/a.pdf"}), means="pdf by address"
    ),
    "input[].input_file.file_id": Example(
        responses_say({"type": "input_file", "file_id": "file-zq"}), means="uploaded file"
    ),
    "input[].function_call": Example(
        {"input": [{"role": "user", "content": "Hello"}, RESPONSES_CALL, RESPONSES_RESULT], "tools": [RESPONSES_TOOL]},
        means="called",
    ),
    "input[].function_call.texts": Example(
        {
            "input": [
                {"role": "user", "content": "Hello"},
                RESPONSES_CALL,
                {**RESPONSES_RESULT, "output": texts("input_text")},
            ],
            "tools": [RESPONSES_TOOL],
        },
        means="result in texts",
    ),
    "input[].function_call.media": Example(
        {
            "input": [
                {"role": "user", "content": "Hello"},
                RESPONSES_CALL,
                {
                    "type": "function_call_output",
                    "call_id": "call_7",
                    "output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}],
                },
            ],
            "tools": [RESPONSES_TOOL],
        },
        means="result with an image",
    ),
    "input[].reasoning": Example(
        responses_continue(
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "zq-thought"}],
                "encrypted_content": SIGNATURE,
            },
            {"role": "assistant", "content": "Hi"},
        ),
        "zq-thought",
        "thought",
    ),
    "input[].reasoning.text": Example(
        responses_continue(
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "zq-thought"}]},
            {"role": "assistant", "content": "Hi"},
        ),
        "zq-thought",
        "unsigned thought",
    ),
    "input[].reasoning.summary": Example(
        responses_continue(
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "zq-thought"}]},
            {"role": "assistant", "content": "Hi"},
        ),
        "zq-thought",
        "unsigned thought",
    ),
    "input[].reasoning.reference": Example(
        responses_continue({"type": "reasoning", "id": "rs_zq", "summary": []}, {"role": "assistant", "content": "Hi"}),
        "rs_zq",
    ),
    "input[].system": Example(responses_continue({"role": "developer", "content": "zq-now"}), means="now"),
    "input[].item_reference": Example(responses_continue({"type": "item_reference", "id": "zq-item"})),
    "input[].custom_tool_call": Example(
        {
            "input": [
                {"role": "user", "content": "Hello"},
                {"type": "custom_tool_call", "call_id": "call_7", "name": "run", "input": "zq-text"},
                {"type": "custom_tool_call_output", "call_id": "call_7", "output": "many-bees"},
            ],
            "tools": [{"type": "custom", "name": "run"}],
        }
    ),
    "input[].refusal": Example(
        responses_continue({"role": "assistant", "content": [{"type": "refusal", "refusal": "zq-no"}]}), means="no"
    ),
    "input[].additional_tools": Example(
        responses_continue({"type": "additional_tools", "role": "developer", "tools": [RESPONSES_TOOL]})
    ),
    "input[].configuration_update": Example(
        responses_continue({"type": "configuration_update", "reasoning": {"effort": "low"}})
    ),
    "input[].prompt_cache_breakpoint": Example(
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello", **BREAKPOINT}]}]},
        "explicit",
        "cache point",
    ),
    "input[].member": Example({"input": [{"role": "user", "content": "Hello", "phase": "zq-phase"}]}, "zq-phase"),
    "input[].other": Example(responses_continue({"type": "zq_item"})),
    "previous_response_id": Example({}),
    "store": Example({"store": False}),
    "conversation": Example({"conversation": "conv_zq"}),
    "background": Example({"background": True}),
    "prompt": Example({"prompt": {"id": "pmpt_zq"}}),
    "stream": Example({"stream": True}, means="stream"),
    "stream_options.include_obfuscation": Example(
        {"stream": True, "stream_options": {"include_obfuscation": True}}, "obfuscation"
    ),
    "stream_options.other": Example({"stream": True, "stream_options": {"zq_option": True}}, "zq_option"),
    "include.reasoning": Example({"include": ["reasoning.encrypted_content"]}, "encrypted", "hello"),
    "include.logprobs": Example({"include": ["message.output_text.logprobs"]}, means="logprobs"),
    "include.other": Example({"include": ["web_search_call.results"]}, "web_search_call"),
    "tools": Example({"tools": [RESPONSES_TOOL]}, means="tool"),
    "tools[].strict": Example({"tools": [{**RESPONSES_TOOL, "strict": True}]}, '"strict": true', "strict tool"),
    "tools[].custom": Example({"tools": [{"type": "custom", "name": "run", "description": "Runs"}]}),
    "tools[].namespace": Example(
        {"tools": [{"type": "namespace", "name": "files", "description": "F", "tools": [RESPONSES_TOOL]}]}
    ),
    "tools[].other": Example({"tools": [{**RESPONSES_TOOL, "zq_member": 1}]}, "zq_member"),
    "tools[].hosted": Example({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "file_search"),
    "tools[].web_search": Example({"tools": [{"type": "web_search"}]}, "web_search"),
    "tool_choice": Example({"tools": [RESPONSES_TOOL], "tool_choice": "none"}, means="no call"),
    "tool_choice.allowed_tools": Example(
        {
            "tools": [RESPONSES_TOOL, {"type": "function", "name": "zq_forbidden", "parameters": INPUT}],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "look_up"}],
            },
        }
    ),
    "tool_choice.hosted": Example({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
    "parallel_tool_calls": Example({"tools": [RESPONSES_TOOL], "parallel_tool_calls": False}, "parallel", "one call"),
    "max_tool_calls": Example({"max_tool_calls": 7}, "max_tool_calls"),
    "text.format.json_schema": Example(
        {"text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}}, means="schema"
    ),
    "text.format.description": Example(
        {"text": {"format": {"type": "json_schema", "name": "answer", "description": "zq-about", "schema": SCHEMA}}},
        "zq-about",
        "described schema",
    ),
    "text.format.json_object": Example({"text": {"format": {"type": "json_object"}}}, means="json"),
    "text.format.other": Example({"text": {"format": {"type": "zq"}}}),
    "text.verbosity": Example({"text": {"verbosity": "low"}}, "verbosity", "verbosity"),
    "text.other": Example({"text": {"zq_member": 1}}, "zq_member"),
    "temperature": Example({"temperature": 0.375}, "temperature", "temperature"),
    "top_p": Example({"top_p": 0.96875}, "top_p", "top_p"),
    "top_logprobs": Example({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, means="top_logprobs"),
    "max_output_tokens": Example({"max_output_tokens": 77}, "77", "max_tokens"),
    "reasoning": Example({"reasoning": {"effort": "low"}}, "reasoning", "effort"),
    "reasoning.summary": Example({"reasoning": {"effort": "low", "summary": "detailed"}}, "detailed", "shown effort"),
    "reasoning.summary.alone": Example({"reasoning": {"summary": "detailed"}}, "detailed", "shown"),
    "reasoning.other": Example({"reasoning": {"zq_member": "x"}}, "zq_member"),
    "metadata": Example({"metadata": {"k": "zq-kept"}}),
    "truncation": Example({"truncation": "auto"}, "truncation"),
    "context_management": Example({"context_management": [{"type": "compaction"}]}, "compaction"),
    "user": Example({"user": "zq-user"}, "zq-user", "user"),
    "user.second": Example({"user": "zq-user", "safety_identifier": "zq-id"}, "zq-user", "user"),
    "safety_identifier": Example({"safety_identifier": "zq-id"}, "zq-id", "safety_identifier"),
    "prompt_cache_key": Example({"prompt_cache_key": "zq-key"}, "zq-key", "prompt_cache_key"),
    "prompt_cache_retention": Example({"prompt_cache_retention": "24h"}, "retention", "prompt_cache_retention"),
    "prompt_cache_options": Example({"prompt_cache_options": {"ttl": "30m"}}, "30m", "prompt_cache_options"),
    "prompt_cache_options.comparison_response_id": Example(
        {"prompt_cache_options": {"comparison_response_id": "zq-response"}}, "zq-response"
    ),
    "prompt_cache_options.prewarm": Example({"prompt_cache_options": {"prewarm": True}}, "prewarm"),
    "service_tier": Example({"service_tier": "flex"}, "flex", "flexible tier"),
    "service_tier.default": Example({"service_tier": "default"}, means="default tier"),
    "client_metadata": Example({"client_metadata": {"k": "zq-c"}}, "zq-c"),
    "access_programs": Example({"access_programs": {"cyber": "standard"}}, "cyber"),
    "moderation": Example({"moderation": {"model": "m"}}, means="moderation"),
    "image": Example({"image": {"size": "auto"}}),
    "*": Example({"zq_field": 1}, "zq_field"),
}

MESSAGES: Final[dict[str, Example]] = {
    "model": Example({}, means="hello"),
    "messages": Example({}, means="hello"),
    "system": Example({"system": "zq-be-brief"}, means="instructions"),
    "max_tokens": Example({"max_tokens": 77}, "77", "max_tokens"),
    "messages[].content[].image": Example(
        messages_say({"type": "image", **source("base64", media_type="image/png", data=PIXEL)}), means="image"
    ),
    "messages[].content[].image.address": Example(
        messages_say({"type": "image", **source("url", url=ADDRESS)}), means="image by address"
    ),
    "messages[].content[].image.file_id": Example(messages_say({"type": "image", **source("file", file_id="f")})),
    "messages[].content[].document": Example(
        messages_say({"type": "document", **source("base64", media_type="application/pdf", data=PDF)}), means="pdf"
    ),
    "messages[].content[].document.text": Example(
        messages_say({"type": "document", **source("text", media_type="text/plain", data="forget-me-not")}),
        means="document",
    ),
    "messages[].content[].document.address": Example(
        messages_say({"type": "document", **source("url", url="https://x.example/a.pdf")}), means="pdf by address"
    ),
    "messages[].content[].document.file_id": Example(messages_say({"type": "document", **source("file", file_id="f")})),
    "messages[].content[].media": Example(
        messages_continue({"type": "image", **source("base64", media_type="image/png", data=PIXEL)}),
        means="image of the assistant",
    ),
    "messages[].content[].document.citations": Example(
        messages_say(
            {
                "type": "document",
                **source("text", media_type="text/plain", data="forget-me-not"),
                "citations": {"enabled": True},
            }
        )
    ),
    "messages[].content[].document.context": Example(
        messages_say(
            {
                "type": "document",
                **source("text", media_type="text/plain", data="forget-me-not"),
                "context": "zq-context",
            }
        ),
        means="context",
    ),
    "messages[].content[].tool_use": Example(
        messages_continue(MESSAGES_CALL, then=[MESSAGES_RESULT]) | {"tools": [MESSAGES_TOOL]}, means="called"
    ),
    "messages[].content[].tool_use.signature": Example(
        messages_continue({**MESSAGES_CALL, "signature": SIGNATURE}, then=[MESSAGES_RESULT])
        | {"tools": [MESSAGES_TOOL]},
        SIGNATURE,
        "signed call",
    ),
    "messages[].content[].tool_result": Example(
        messages_continue(MESSAGES_CALL, then=[MESSAGES_RESULT]) | {"tools": [MESSAGES_TOOL]}, means="called"
    ),
    "messages[].content[].tool_result.media": Example(
        messages_continue(
            MESSAGES_CALL,
            then=[
                {
                    "type": "tool_result",
                    "tool_use_id": "call_7",
                    "content": [{"type": "image", **source("base64", media_type="image/png", data=PIXEL)}],
                }
            ],
        )
        | {"tools": [MESSAGES_TOOL]},
        means="result with an image",
    ),
    "messages[].content[].tool_result.texts": Example(
        messages_continue(MESSAGES_CALL, then=[{**MESSAGES_RESULT, "content": texts("text")}])
        | {"tools": [MESSAGES_TOOL]},
        means="result in texts",
    ),
    "messages[].content[].tool_reference": Example(
        messages_continue(
            MESSAGES_CALL,
            then=[{**MESSAGES_RESULT, "content": [{"type": "tool_reference", "tool_name": "look_up"}]}],
        )
        | {"tools": [MESSAGES_TOOL]}
    ),
    "messages[].content[].thinking": Example(
        messages_continue(
            {"type": "thinking", "thinking": "zq-thought", "signature": SIGNATURE}, {"type": "text", "text": "Hi"}
        ),
        "zq-thought",
        "thought",
    ),
    "messages[].content[].thinking.unsigned": Example(
        messages_continue(
            {"type": "thinking", "thinking": "zq-thought", "signature": ""}, {"type": "text", "text": "Hi"}
        ),
        "zq-thought",
        "unsigned thought",
    ),
    "messages[].content[].other": Example(messages_say({"type": "zq_block"})),
    "messages[].system": Example(
        {"messages": [*messages_say()["messages"], {"role": "system", "content": "zq-now"}]}, means="now"
    ),
    "messages[].other": Example({"messages": [{"role": "user", "content": "Hello", "zq_member": 1}]}, "zq_member"),
    "cache_control": Example({"cache_control": EPHEMERAL}, "cache_control"),
    "*.cache_control": Example(
        {"system": [{"type": "text", "text": "Hello", "cache_control": EPHEMERAL}]}, "cache_control", "cached text"
    ),
    "stream": Example({"stream": True}, means="stream"),
    "stop_sequences": Example({"stop_sequences": ["zq-stop"]}, means="stop"),
    "tools": Example({"tools": [MESSAGES_TOOL]}, means="tool"),
    "tools[].strict": Example({"tools": [{**MESSAGES_TOOL, "strict": True}]}, '"strict": true', "strict tool"),
    "tools[].hosted": Example({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
    "tools[].other": Example({"tools": [{**MESSAGES_TOOL, "defer_loading": True}]}, "defer_loading"),
    "tool_choice": Example({"tools": [MESSAGES_TOOL], "tool_choice": {"type": "none"}}, means="no call"),
    "tool_choice.hosted": Example(
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        }
    ),
    "tool_choice.disable_parallel_tool_use": Example(
        {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "parallel",
        "one call",
    ),
    "output_config.format": Example(
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, means="schema"
    ),
    "output_format": Example({"output_format": {"type": "json_schema", "schema": SCHEMA}}, means="schema"),
    "output_config.effort": Example({"output_config": {"effort": "low"}}, "effort", "effort"),
    "output_config.effort.alone": Example(
        {"output_config": {"effort": "low"}, "thinking": {"type": "disabled"}}, '"low"', "effort"
    ),
    "output_config.other": Example({"output_config": {"zq_member": 1}}, "zq_member"),
    "thinking": Example(
        {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}}, "1024", "thinking"
    ),
    "thinking.display": Example(
        {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"}},
        '"summary"',
        "shown thinking",
    ),
    "thinking.other": Example({"thinking": {"type": "adaptive", "zq_member": "x"}}, "zq_member"),
    "temperature": Example({"temperature": 0.375}, "temperature", "temperature"),
    "top_p": Example({"top_p": 0.96875}, "top_p", "top_p"),
    "top_k": Example({"top_k": 37}, "top_k", "top_k"),
    "metadata.user_id": Example({"metadata": {"user_id": "zq-user"}}, "zq-user", "id of the user"),
    "metadata": Example({"metadata": {"zq": "zq-other"}}, "zq-other"),
    "service_tier": Example({"service_tier": "standard_only"}, means="default tier"),
    "speed": Example({"speed": "fast"}, '"speed"'),
    "inference_geo": Example({"inference_geo": "eu"}),
    "container": Example({"container": "zq"}),
    "mcp_servers": Example({"mcp_servers": [{"type": "url", "url": "https://x.example", "name": "zq"}]}),
    "context_management": Example({"context_management": {"edits": []}}, "edits"),
    "compaction": Example({"compaction": {"k": "zq-c"}}, "zq-c"),
    "diagnostics": Example({"diagnostics": {"k": "zq-d"}}, "zq-d"),
    "fallbacks": Example({"fallbacks": [{"model": "zq-f"}]}, "zq-f"),
    "thread": Example({"thread": {"type": "create"}}),
    "user_profile_id": Example({"user_profile_id": "zq-p"}, "zq-p"),
    "workspace_id": Example({"workspace_id": "zq-w"}, "zq-w"),
    "billing_policy": Example({"billing_policy": {"type": "billing_policy", "bill_to": "user_profile"}}),
    "fallback_credit_token": Example({"fallback_credit_token": "zq-token"}, "zq-token"),
    "*": Example({"zq_field": 1}, "zq_field"),
}

EXAMPLES: Final = {Api.CHAT: CHAT, Api.RESPONSES: RESPONSES, Api.MESSAGES: MESSAGES}
BASES: Final[dict[Api, Json]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "Hello"}]},
    Api.RESPONSES: {"input": "Hello"},
    Api.MESSAGES: {"max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]},
}


def request_for(api: Api, row: str, model: str, kind: Api) -> Json:
    """The request that uses the field of this row, for a backend of this kind.

    Signatures are of that kind of backend: any other would be removed, whatever the table says. One of the client's own
    API has no mark.
    """
    body = {"model": model, **BASES[api], **EXAMPLES[api][row].adds}
    mark = "" if api.value == kind.value else f"accord-{kind.value}."
    return json.loads(json.dumps(body).replace(SIGNATURE, f"{mark}{SIGNATURE}"))


def field_of(row: str) -> str:
    """The name that labels and errors have for the field of the example; fields that are not listed keep theirs."""
    return "zq_field" if row == "*" else row
