"""Hold the table of fields to the types of the newest SDKs: what they can send has a row, and rows have what is sent.

Every member of every request type (`sdk_fields.py`) is read by the codec of its API, alone. It has to use a row that
no other member shares with it (or one of `SHARED`), to change the work order, or to ask for nothing (`NO_DIFFERENCE`).
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scripts.sdk_fields import BASES, SdkMember, sdk_members

from accord.apis.chat.read_request import parse_chat
from accord.apis.messages.read_request import parse_request
from accord.apis.responses.read_request import parse
from accord.core.work.fields import ANY_OTHER, TABLE, ModelRequest
from accord.errors import RefusedError
from accord.wire.disposition import SERVED, Api

READERS: Final = {Api.CHAT: parse_chat, Api.RESPONSES: parse, Api.MESSAGES: parse_request}
FOR_ALL_OTHERS: Final = (".other", ".member")
"""The ends of the names of rows for whatever else there is."""
ALWAYS_THERE: Final = frozenset({"model", "messages", "input", "max_tokens", "stream"})
"""What has no name among the fields of a request."""
TOGETHER: Final = frozenset(
    {"input[].system", "messages[].system", "output_config.effort.alone", "reasoning.summary", "user.second"}
)
"""Rows that two members use together."""
BY_VALUE: Final = frozenset(
    {
        "input[].input_file.other",
        "input[].input_file.text",
        "input[].input_image.address",
        "input[].reasoning.reference",
        "messages[].content[].document.citations",
        "messages[].content[].thinking.unsigned",
        "messages[].tool_calls[].function.arguments",
        "metadata",
        "tool_choice.hosted",
    }
)
"""Rows for values that the types do not tell apart."""

NOT_IN_SDKS: Final = """
chat       messages[].reasoning_content messages[].thinking_blocks messages[].content[].cache_control
chat       tools[].cache_control top_k messages[tool].content[].texts
responses  client_metadata input[].function_call.texts
messages   messages[].content[].tool_use.signature output_format temperature top_p top_k
messages   messages[].content[].tool_result.texts
"""
"""The rows of no single member of the newest SDKs: of some servers, of older versions, Accord's own, or of several."""

SHARED: Final = """
responses  include.other        file_search_call.results web_search_call.results web_search_call.action.sources
responses  include.other        message.input_image.image_url computer_call_output.output.image_url
responses  include.other        code_interpreter_call.outputs
responses  input[].member       detail phase annotations logprobs async caller text output_text
responses  input[].other        file_search_call computer_call computer_call_output web_search_call tool_search_call
responses  input[].other        tool_search_output compaction image_generation_call code_interpreter_call program
responses  input[].other        local_shell_call local_shell_call_output shell_call shell_call_output program_output
responses  input[].other        apply_patch_call apply_patch_call_output mcp_list_tools mcp_approval_request mcp_call
responses  input[].other        mcp_approval_response compaction_trigger
responses  tools[].other        async allowed_callers defer_loading output_schema
responses  reasoning.other      context mode
messages   messages[].content[].other search_result browser_state server_tool_use web_search_tool_result mcp_tool_use
messages   messages[].content[].other web_fetch_tool_result code_execution_tool_result container_upload fallback
messages   messages[].content[].other bash_code_execution_tool_result text_editor_code_execution_tool_result
messages   messages[].content[].other tool_search_tool_result advisor_tool_result mcp_tool_result compaction
messages   messages[].content[].other tool_addition tool_removal mcp_tool_listing mcp_tool_reference
messages   messages[].content[].other mcp_toolset_reference tool_definition
messages   messages[].other     citations toolset_name caller clear_at effort oversized_image
messages   thinking.other       display prefix_mismatch_behavior
messages   tools[].other        allowed_callers defer_loading eager_input_streaming input_examples
messages   output_config.other  task_budget
"""
"""The members, values and kinds that share a row with all that are not listed, because nothing is known of them."""

NO_DIFFERENCE: Final[Sequence[tuple[str, str]]] = (
    (r"input\[\w+\]\.(id|status=.*)", "an earlier item is sent whole; nothing is looked up by its id"),
    (r"input\[function_call_output\]\.name(space)?", "the call before it has the same"),
    (r".*\.caller\[direct\]", "the model itself called, as always"),
    (r".*\.allowed_callers\[\]=\"direct\"", "the model itself calls, as always"),
    (r".*\.format\[text\]|response_format\[text\]", "text is what there is without it"),
    (
        r".*\.json_schema\.strict=.*|text\.format\[json_schema\]\.strict=.*",
        "every answer is checked anyway",
    ),
    (r".*\.source\[text\]\.media_type=.*", "it has one value"),
    (r".*\.detail=\"auto\"|tool_choice=\"auto\"|function_call=\"auto\"|tool_choice\[auto\]", "the default"),
    (r"tool_choice\[allowed_tools\]\.mode=\"auto\"|modalities\[\]=\"text\"|thinking\[disabled\]", "the default"),
    (r"billing_policy\[billing_policy\]\.bill_to=\"self\"", "the default"),
    (r"stream=true|stream_options\.include_usage=true", "Accord itself streams, and always reads the usage"),
    (r"store=(true|false)", "Accord itself keeps responses"),
    (r"include\[\]=\"reasoning\.encrypted_content\"", "signatures are always requested"),
)
"""Members, by a pattern of their paths, that make no difference, and why."""


def makes_no_difference(member: SdkMember) -> bool:
    """Whether a member asks for nothing, by its value or by what is known of it."""
    if member.value in (False, {}, []):
        return True
    name = re.sub(r"=.*|\[\]", "", member.path)
    row = TABLE[member.api].get(name)
    is_neutral = row is not None and not row.asks(member.value)
    return is_neutral or any(re.fullmatch(pattern, member.path) for pattern, _ in NO_DIFFERENCE)


def read(api: Api, body: dict[str, Any]) -> ModelRequest:
    """The request as its codec reads it."""
    return READERS[api]({"model": "m", **body})


def read_without(member: SdkMember) -> ModelRequest:
    """The request without a member; where it has to be there, the smallest request."""
    try:
        return read(member.api, member.without)
    except RefusedError:
        return read(member.api, BASES[member.api])


def find_problems() -> Iterator[str]:
    """What is wrong: a member without a row, and a row without a member."""
    for api in SERVED:
        used: set[str] = set(ALWAYS_THERE)
        for member in sdk_members(api):
            request = read(api, member.body)
            used |= {*request.fields}
            if problem := find_problem(member, request):
                yield f"{api.value} {member.path}: {problem}"
        for name in TABLE[api].keys() - used - {ANY_OTHER} - TOGETHER - BY_VALUE:
            if not name.endswith(FOR_ALL_OTHERS) and name not in _listed(NOT_IN_SDKS).get(api.value, ()):
                yield f"{api.value} {name}: the row is of no member; delete it, or list it in NOT_IN_SDKS"
        for name in sorted(_listed(NOT_IN_SDKS).get(api.value, set()) & used):
            yield f"{api.value} {name}: the SDK has it now; remove it from NOT_IN_SDKS"


def find_problem(member: SdkMember, request: ModelRequest) -> str | None:
    """What is wrong with how a member is read, in a request that has it; None if nothing is."""
    without = read_without(member)
    names = [name for name in request.fields if name not in without.fields]
    if unknown := [name for name in names if name not in TABLE[member.api]]:
        return f"no row of the table has {', '.join(unknown)}; add one in field_table.py"
    if names and all(name.endswith(FOR_ALL_OTHERS) for name in names):
        words = {*re.split(r"[.\[\]=]+", member.path), *re.findall(r'="(.*)"', member.path)}
        if words.isdisjoint(_listed(SHARED).get(f"{member.api.value} {names[0]}", ())):
            return f"only {names[0]} has it; add a row of its own, or list it in SHARED"
    is_covered = any(name.endswith((*FOR_ALL_OTHERS, ".hosted", ".web_search")) for name in request.fields)
    is_read = names or request.order != without.order or is_covered or _is_inside(member, request)
    return None if is_read or makes_no_difference(member) else "nothing reads it, and no row has it"


def _is_inside(member: SdkMember, request: ModelRequest) -> bool:
    """Whether a row has the member as a part of something larger, such as `moderation`."""
    name = re.sub(r"\[[^\]]*\]|=.*", "", member.path)
    rows = {re.sub(r"\[[^\]]*\]|\*\.", "", field) for field in request.fields}
    words = name.split(".")
    return any(name.startswith(f"{row}.") or row.rpartition(".")[2] in words for row in rows)


def _listed(text: str) -> Mapping[str, set[str]]:
    listed: dict[str, set[str]] = {}
    for line in text.strip().splitlines():
        api, *names = line.split()
        if text is SHARED:
            api, names = f"{api} {names[0]}", names[1:]
        listed.setdefault(api, set()).update(names)
    return listed


def main() -> int:
    """Print what is wrong; return the exit status."""
    problems = list(find_problems())
    for problem in problems:
        print(problem)
    count = sum(len(sdk_members(api)) for api in SERVED)
    print(f"{count} members of requests: " + (f"{len(problems)} problems" if problems else "each has a row"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
