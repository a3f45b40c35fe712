"""How each API writes what a request of another API means: the part of a body, or of a work order, that must be there.

An object is there if all of its members are; a list, if each of its items is an item of the list.
"""

import re
from typing import Any, Final, cast

from accord.wire.disposition import Api
from tests.servers.model_apis.examples import ADDRESS, AUDIO, INPUT, PDF, PIXEL, SCHEMA, SIGNATURE, texts

C, R, M, G, O = (  # noqa: E741 - the columns of the table below
    Api.CHAT,
    Api.RESPONSES,
    Api.MESSAGES,
    Api.GEMINI,
    Api.OTHER,
)


def chat(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def responses(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"input": [{"role": role, "content": list(content)}]}


def messages(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def gemini(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts)}]}


def order(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"conversation": {"messages": [{"role": role, "content": list(parts)}]}}


def settings(**members: Any) -> dict[str, Any]:
    return {"generationConfig": members}


def parameters(**members: Any) -> dict[str, Any]:
    return {"parameters": members}


def same(**members: Any) -> dict[Api, Any]:
    """The three APIs that have a parameter under one name."""
    return dict.fromkeys((C, R, M), members)


NOTE: Final = re.compile("<document .*forget-me-not.*", re.DOTALL)
"""A text document where an API has no field for it."""
IMAGE: Final = f"data:image/png;base64,{PIXEL}"
FILE: Final = f"data:application/pdf;base64,{PDF}"
CALL: Final = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"bees"}'}}

MEANINGS: Final[dict[str, dict[Api, Any]]] = {
    "hello": {
        C: {"messages": [{"role": "user", "content": "Hello"}]},
        R: responses({"type": "input_text", "text": "Hello"}),
        M: messages({"type": "text", "text": "Hello"}),
        G: gemini({"text": "Hello"}),
        O: order({"type": "text", "text": "Hello"}),
    },
    "instructions": {
        C: {"messages": [{"role": "system", "content": "zq-be-brief"}]},
        R: responses({"type": "input_text", "text": "zq-be-brief"}, role="system"),
        M: {"system": [{"type": "text", "text": "zq-be-brief"}]},
        G: {"systemInstruction": {"parts": [{"text": "zq-be-brief"}]}},
        O: order({"type": "text", "text": "zq-be-brief"}, role="system"),
    },
    "now": {
        C: {"messages": [{"role": "system", "content": "zq-now"}]},
        R: responses({"type": "input_text", "text": "zq-now"}, role="system"),
        O: order({"type": "text", "text": "zq-now"}, role="system"),
    },
    "no": {
        R: responses({"type": "output_text", "text": "zq-no"}, role="assistant"),
        C: {"messages": [{"role": "assistant", "content": "zq-no"}]},
        M: messages({"type": "text", "text": "zq-no"}, role="assistant"),
        G: gemini({"text": "zq-no"}, role="model"),
        O: order({"type": "text", "text": "zq-no"}, role="assistant"),
    },
    "stream": {
        C: {"stream": True},
        R: {"stream": True},
        M: {"stream": True},
        G: {},
        O: {"stream": True},
    },
    "image": {
        C: chat({"type": "image_url", "image_url": {"url": IMAGE}}),
        R: responses({"type": "input_image", "image_url": IMAGE}),
        M: messages({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}),
        G: gemini({"inlineData": {"mimeType": "image/png", "data": PIXEL}}),
        O: order({"type": "image", "media_type": "image/png", "data": PIXEL}),
    },
    "image by address": {
        C: chat({"type": "image_url", "image_url": {"url": ADDRESS}}),
        R: responses({"type": "input_image", "image_url": ADDRESS}),
        M: messages({"type": "image", "source": {"type": "url", "url": ADDRESS}}),
        G: gemini({"fileData": {"mimeType": "image/png", "fileUri": ADDRESS}}),
    },
    "detail": {
        C: chat({"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}),
        R: responses({"type": "input_image", "image_url": IMAGE, "detail": "low"}),
        O: order({"type": "image", "detail": "low"}),
    },
    "audio": {
        G: gemini({"inlineData": {"mimeType": "audio/wav", "data": AUDIO}}),
        O: order({"type": "audio", "media_type": "audio/wav", "data": AUDIO}),
    },
    "pdf": {
        C: chat({"type": "file", "file": {"file_data": FILE}}),
        R: responses({"type": "input_file", "file_data": FILE}),
        M: messages({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}),
        G: gemini({"inlineData": {"mimeType": "application/pdf", "data": PDF}}),
        O: order({"type": "resource", "media_type": "application/pdf", "data": PDF}),
    },
    "file": {
        G: gemini({"inlineData": {"mimeType": "application/zip", "data": "UEsDBA=="}}),
        O: order({"type": "resource", "media_type": "application/zip", "data": "UEsDBA=="}),
    },
    "document": {
        C: chat({"type": "text", "text": NOTE}),
        R: responses({"type": "input_text", "text": NOTE}),
        M: messages({"type": "document", "source": {"type": "text", "data": "forget-me-not"}}),
        G: gemini({"text": NOTE}),
        O: order({"type": "resource", "text": "forget-me-not"}),
    },
    "context": {
        C: chat({"type": "text", "text": "zq-context"}),
        R: responses({"type": "input_text", "text": "zq-context"}),
        G: gemini({"text": "zq-context"}),
        O: order({"type": "text", "text": "zq-context"}),
    },
    "thought": {
        R: {
            "input": [
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "zq-thought"}],
                    "encrypted_content": SIGNATURE,
                }
            ]
        },
        M: messages({"type": "thinking", "thinking": "zq-thought", "signature": SIGNATURE}, role="assistant"),
        G: gemini({"text": "zq-thought", "thought": True, "thoughtSignature": SIGNATURE}, role="model"),
        C: {"messages": [{"role": "assistant", "reasoning_content": "zq-thought"}]},
        O: order({"type": "thinking", "text": "zq-thought", "signature": SIGNATURE}, role="assistant"),
    },
    "unsigned thought": {
        C: {"messages": [{"role": "assistant", "reasoning_content": "zq-thought"}]},
        M: messages({"type": "text", "text": "[thought: zq-thought]"}, role="assistant"),
        G: gemini({"text": "zq-thought", "thought": True}, role="model"),
        O: order({"type": "thinking", "text": "zq-thought"}, role="assistant"),
    },
    "tool": {
        C: {"tools": [{"type": "function", "function": {"name": "look_up", "parameters": INPUT}}]},
        R: {"tools": [{"type": "function", "name": "look_up", "parameters": INPUT}]},
        M: {"tools": [{"name": "look_up", "input_schema": INPUT}]},
        G: {"tools": [{"functionDeclarations": [{"name": "look_up", "parametersJsonSchema": INPUT}]}]},
        O: {"tools": [{"name": "look_up", "input_schema": INPUT}]},
    },
    "strict tool": {
        C: {"tools": [{"function": {"name": "look_up", "strict": True}}]},
        R: {"tools": [{"name": "look_up", "strict": True}]},
        M: {"tools": [{"name": "look_up", "strict": True}]},
        O: {"tools": [{"name": "look_up", "strict": True}]},
    },
    "cached tool": {
        M: {"tools": [{"name": "look_up", "cache_control": {"type": "ephemeral"}}]},
        O: {"tools": [{"name": "look_up", "cache_control": {"type": "ephemeral"}}]},
    },
    "cached text": {
        M: messages({"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}),
        O: {"conversation": {"messages": [{"content": [{"text": "Hello", "cache_control": {"type": "ephemeral"}}]}]}},
    },
    "no call": {
        C: {"tool_choice": "none"},
        R: {"tool_choice": "none"},
        M: {"tool_choice": {"type": "none"}},
        G: {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        O: {"tool_choice": {"mode": "none"}},
    },
    "one call": {
        C: {"parallel_tool_calls": False},
        R: {"parallel_tool_calls": False},
        M: {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        O: {"parallel_tool_calls": False},
    },
    "called": {
        C: {"messages": [{"tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_7", "content": "many-bees"}]},
        R: {
            "input": [
                {"type": "function_call", "call_id": "call_7", "name": "look_up", "arguments": '{"q":"bees"}'},
                {"type": "function_call_output", "call_id": "call_7", "output": "many-bees"},
            ]
        },
        M: {
            "messages": [
                {"content": [{"type": "tool_use", "id": "call_7", "name": "look_up", "input": {"q": "bees"}}]},
                {"content": [{"type": "tool_result", "tool_use_id": "call_7"}]},
            ]
        },
        G: {
            "contents": [
                {"parts": [{"functionCall": {"name": "look_up", "args": {"q": "bees"}}}]},
                {"parts": [{"functionResponse": {"name": "look_up", "response": {"output": "many-bees"}}}]},
            ]
        },
        O: order({"type": "tool_use", "id": "call_7", "name": "look_up", "input": {"q": "bees"}}, role="assistant"),
    },
    "called in the older form": {
        R: {"input": [{"type": "function_call", "name": "look_up"}, {"output": "many-bees"}]},
        M: {"messages": [{"content": [{"type": "tool_use", "name": "look_up", "input": {"q": "bees"}}]}]},
        G: {"contents": [{"parts": [{"functionCall": {"name": "look_up", "args": {"q": "bees"}}}]}]},
        O: order({"type": "tool_use", "name": "look_up", "input": {"q": "bees"}}, role="assistant"),
    },
    "signed call": {
        C: {"messages": [{"tool_calls": [{"extra_content": {"google": {"thought_signature": SIGNATURE}}}]}]},
        O: order({"type": "tool_use", "signature": SIGNATURE}, role="assistant"),
        G: {"contents": [{"parts": [{"functionCall": {"name": "look_up"}, "thoughtSignature": SIGNATURE}]}]},
    },
    "schema": {
        C: {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        R: {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        M: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        G: settings(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        O: {"response_schema": SCHEMA},
    },
    "json": {
        C: {"response_format": {"type": "json_object"}},
        R: {"text": {"format": {"type": "json_object"}}},
        G: settings(responseMimeType="application/json"),
        O: {"json_mode": True},
    },
    "temperature": same(temperature=0.375) | {G: settings(temperature=0.375), O: parameters(temperature=0.375)},
    "top_p": same(top_p=0.96875) | {G: settings(topP=0.96875), O: parameters(top_p=0.96875)},
    "top_k": same(top_k=37) | {G: settings(topK=37), O: parameters(top_k=37)},
    "frequency_penalty": {G: settings(frequencyPenalty=0.375), O: parameters(frequency_penalty=0.375)},
    "presence_penalty": {G: settings(presencePenalty=0.375), O: parameters(presence_penalty=0.375)},
    "seed": {G: settings(seed=8675309), O: parameters(seed=8675309)},
    "max_tokens": {
        C: {"max_tokens": 77},
        R: {"max_output_tokens": 77},
        M: {"max_tokens": 77},
        G: settings(maxOutputTokens=77),
        O: parameters(max_tokens=77),
    },
    "logprobs": {
        C: {"logprobs": True},
        R: {"include": ["message.output_text.logprobs"]},
        G: settings(responseLogprobs=True),
    },
    "top_logprobs": {
        C: {"logprobs": True, "top_logprobs": 3},
        R: {"include": ["message.output_text.logprobs"], "top_logprobs": 3},
        G: settings(responseLogprobs=True, logprobs=3),
    },
    "stop": {
        C: {"stop": ["zq-stop"]},
        M: {"stop_sequences": ["zq-stop"]},
        G: settings(stopSequences=["zq-stop"]),
        O: {"stop_sequences": ["zq-stop"]},
    },
    "effort": {
        C: {"reasoning_effort": "low"},
        R: {"reasoning": {"effort": "low"}},
        M: {"output_config": {"effort": "low"}},
        G: settings(thinkingConfig={"thinkingBudget": 1024}),
        O: {"reasoning": {"effort": "low"}},
    },
    "custom tool": {R: {"tools": [{"type": "custom", "name": "zq-tool"}]}},
    "custom call": {R: {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "zq-text"}]}},
    "uploaded file": {
        C: chat({"type": "file", "file": {"file_id": "file-zq"}}),
        R: responses({"type": "input_file", "file_id": "file-zq"}),
    },
    "pdf by address": {
        R: responses({"type": "input_file", "file_url": "https://x.example/a.pdf"}),
        M: messages({"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}}),
        G: gemini({"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.example/a.pdf"}}),
    },
    "image of the assistant": {
        G: gemini({"inlineData": {"mimeType": "image/png", "data": PIXEL}}, role="model"),
        O: order({"type": "image", "media_type": "image/png", "data": PIXEL}, role="assistant"),
    },
    "cache point": {
        C: chat({"type": "text", "text": "Hello", "prompt_cache_breakpoint": {"mode": "explicit"}}),
        R: responses({"type": "input_text", "text": "Hello", "prompt_cache_breakpoint": {"mode": "explicit"}}),
        M: messages({"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}),
        O: order({"type": "text", "text": "Hello", "cache_control": {"mode": "explicit"}}),
    },
    "cache point of the assistant": {
        M: messages({"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}, role="assistant"),
        O: order({"type": "text", "text": "Hi", "cache_control": {"mode": "explicit"}}, role="assistant"),
    },
    "result with an image": {
        R: {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": IMAGE}]}]},
        M: messages(
            {
                "type": "tool_result",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}],
            }
        ),
        G: {"contents": [{"parts": [{"functionResponse": {"parts": [{"inlineData": {"data": PIXEL}}]}}]}]},
        O: {"conversation": {}},  # where it is depends on whether tools are emulated
    },
    "result in texts": {
        C: {"messages": [{"role": "tool", "content": "many\nbees"}]},
        R: {"input": [{"type": "function_call_output", "output": texts("input_text")}]},
        M: messages({"type": "tool_result", "content": texts("text")}),
        G: {"contents": [{"parts": [{"functionResponse": {"response": {"output": ["many", "bees"]}}}]}]},
        O: {"conversation": {}},  # where they are depends on whether tools are emulated
    },
    "described schema": {
        C: {"response_format": {"json_schema": {"description": "zq-about", "schema": SCHEMA}}},
        R: {"text": {"format": {"description": "zq-about", "schema": SCHEMA}}},
        O: {"schema_description": "zq-about", "response_schema": SCHEMA},
    },
    "user": {C: {"user": "zq-user"}, R: {"user": "zq-user"}, M: {"metadata": {"user_id": "zq-user"}}},
    "safety_identifier": {
        C: {"safety_identifier": "zq-id"},
        R: {"safety_identifier": "zq-id"},
        M: {"metadata": {"user_id": "zq-id"}},
    },
    "id of the user": {C: {"user": "zq-user"}, R: {"safety_identifier": "zq-user"}},
    "prompt_cache_key": same(prompt_cache_key="zq-key"),
    "prompt_cache_retention": same(prompt_cache_retention="24h"),
    "prompt_cache_options": same(prompt_cache_options={"ttl": "30m"}),
    "flexible tier": same(service_tier="flex"),
    "default tier": {
        C: {"service_tier": "default"},
        R: {"service_tier": "default"},
        M: {"service_tier": "standard_only"},
        # They have one tier only.
        G: gemini({"text": "Hello"}),
        O: order({"type": "text", "text": "Hello"}),
    },
    "moderation": same(moderation={"model": "m"}),
    "metadata": same(metadata={"k": "zq-kept"}),
    "store": same(store=True),
    "verbosity": {C: {"verbosity": "low"}, R: {"text": {"verbosity": "low"}}},
    "thinking": {
        C: {"reasoning_effort": "low"},
        R: {"reasoning": {"effort": "low"}},
        G: settings(thinkingConfig={"thinkingBudget": 1024}),
        O: {"reasoning": {"enabled": True, "max_tokens": 1024}},
    },
    "shown effort": {
        M: {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive", "display": "summarized"}},
        G: settings(thinkingConfig={"thinkingBudget": 1024, "includeThoughts": True}),
        O: {"reasoning": {"effort": "low", "summary": "detailed"}},
    },
    "shown": {G: settings(thinkingConfig={"includeThoughts": True}), O: {"reasoning": {"summary": "detailed"}}},
    "shown thinking": {
        R: {"reasoning": {"effort": "low", "summary": "auto"}},
        G: settings(thinkingConfig={"thinkingBudget": 1024, "includeThoughts": True}),
        O: {"reasoning": {"max_tokens": 1024, "summary": "auto"}},
    },
}


def is_part(expected: Any, found: Any) -> bool:
    """Whether the value is what is expected, or has it."""
    if isinstance(expected, dict):
        members = cast("dict[str, Any]", expected)
        return isinstance(found, dict) and all(
            name in found and is_part(value, cast("dict[str, Any]", found)[name]) for name, value in members.items()
        )
    if isinstance(expected, list):
        items = cast("list[Any]", found) if isinstance(found, list) else []
        return all(any(is_part(each, item) for item in items) for each in cast("list[Any]", expected))
    if isinstance(expected, re.Pattern):
        return isinstance(found, str) and cast("re.Pattern[str]", expected).fullmatch(found) is not None
    return expected == found and isinstance(expected, bool) is isinstance(found, bool)
