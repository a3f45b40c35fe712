"""What answers of this API can say, and what becomes of it in the APIs that are served (`apis/answers.py`).

The beta features are in the same table: they are plain additions. Blocks and citations are told apart by their `type`.
Nothing is carried of the tools that the endpoint runs: what the model says of their results is text.
"""

from typing import Final

from accord.apis.answers import PartFinder, read_rows

BLOCKS: Final = "content[]"
CITATIONS: Final = "content[].text.citations[]"
THOUGHT: Final = "content[].thinking.thinking"
SIGNATURE: Final = "content[].thinking.signature"
NO_CALL: Final = "stop_reason=no_call"
"""The part for an end for a call where there is no call."""

ROWS: Final = read_rows("""
id N N N
type N N N
role N N N
model N N N
accord N N N

content[].text.text N N N
content[].text.citations[].web_search_result_location C C N # as a `url_citation`
content[].text.citations[].web_search_result_location.url N N N
content[].text.citations[].web_search_result_location.title N N N
content[].text.citations[].web_search_result_location.cited_text C L N # as the `content` of the citation
content[].text.citations[].web_search_result_location.encrypted_index L L N
content[].text.citations[].search_result_location C C N # as a `url_citation` of its `source`
content[].text.citations[].search_result_location.source N N N
content[].text.citations[].search_result_location.title N N N
content[].text.citations[].search_result_location.cited_text C L N # as the `content` of the citation
content[].text.citations[].search_result_location.search_result_index L L N
content[].text.citations[].search_result_location.start_block_index L L N
content[].text.citations[].search_result_location.end_block_index L L N
content[].text.citations[].char_location L L N # it is of a document of the request, and has no URL
content[].text.citations[].page_location L L N # it is of a document of the request, and has no URL
content[].text.citations[].content_block_location L L N # it is of a document of the request, and has no URL

content[].thinking.thinking C N N # as `reasoning_content`
content[].thinking.signature C N N # in `thinking_blocks`
content[].thinking.estimated_tokens L L L # an estimate while it streams
content[].redacted_thinking.data C C N # as a block or an item of reasoning without text

content[].tool_use.id N N N
content[].tool_use.name N N N
content[].tool_use.input N N N
content[].tool_use.signature N N N
content[].tool_use.caller L L L = {"type": "direct"} # whether code that the endpoint ran made the call
content[].tool_use.toolset_name L L L

content[].server_tool_use L L L # a tool that the endpoint runs
content[].web_search_tool_result L L L # a tool that the endpoint runs
content[].web_fetch_tool_result L L L # a tool that the endpoint runs
content[].code_execution_tool_result L L L # a tool that the endpoint runs
content[].bash_code_execution_tool_result L L L # a tool that the endpoint runs
content[].text_editor_code_execution_tool_result L L L # a tool that the endpoint runs
content[].tool_search_tool_result L L L # a tool that the endpoint runs
content[].advisor_tool_result L L L # a tool that the endpoint runs
content[].mcp_tool_use L L L # a tool that the endpoint runs
content[].mcp_tool_result L L L # a tool that the endpoint runs
content[].mcp_tool_listing L L L # tools that the endpoint runs
content[].container_upload L L L # a file in the container of the endpoint
content[].compaction L L L # a summary that takes the place of earlier messages in later requests
content[].fallback L L L # the place where one model took over from another

stop_reason N N N
stop_reason=pause_turn C C C # the turn is not over; it counts as cut off
stop_reason=compaction C C C # the endpoint stopped to summarize; the answer counts as cut off
stop_reason=model_context_window_exceeded C C C # the context is full; the answer is cut off
stop_reason=no_call C C C # there is no call in the answer, which counts as cut off
stop_sequence C L N # in the member `stop_reason` of the choice
stop_details.category L L L
stop_details.explanation L L L
stop_details.recommended_model L L L
stop_details.fallback_credit_token L L L
stop_details.fallback_has_prefill_claim L L L

usage.input_tokens N N N
usage.output_tokens N N N
usage.cache_read_input_tokens N N N
usage.cache_creation_input_tokens N N N
usage.output_tokens_details.thinking_tokens N N N
usage.service_tier N N N
usage.cache_creation.ephemeral_5m_input_tokens L L L = 0
usage.cache_creation.ephemeral_1h_input_tokens L L L = 0
usage.server_tool_use.web_search_requests L L L = 0
usage.server_tool_use.web_fetch_requests L L L = 0
usage.inference_geo L L L = "not_available"
usage.speed L L L = "standard"
usage.iterations L L L # the counts of each step; their sums are carried
usage.fallback_credit L L L

container L L L # where the endpoint ran code
context_management.applied_edits L L L # what the endpoint left out of the conversation
input_transformations L L L # what the endpoint changed in the conversation
diagnostics.cache_miss_reason L L L
""")
FINDER: Final = PartFinder(ROWS, typed=(BLOCKS, CITATIONS))
CITATION_TYPES: Final = frozenset(
    name.rpartition(".")[2]
    for name in ROWS
    if name.startswith(f"{CITATIONS}.") and name.count(".") == CITATIONS.count(".") + 1
)
