"""What answers of this API can say, and what becomes of it in the APIs that are served (`apis/answers.py`).

Items of the output, of a message's content and of its annotations are told apart by their type. The names that begin
with `event.` are events of a stream that say what the complete response does not have. What a response repeats of its
request is native everywhere: a client has it from the request itself.
"""

from typing import Final

from accord.apis.answers import PartFinder, read_rows

ROWS: Final = read_rows("""
id N N N
object N N N
created_at N N N
completed_at L L L
model N N N
status N N N
error N N N
incomplete_details.reason N N N
incomplete_details.reason=max_messages C C C # as cut off by the limit of tokens
incomplete_details.reason=steered C C C # as cut off by the limit of tokens
incomplete_details.reason=none C C C # it does not say why it is incomplete; as cut off by the limit of tokens
service_tier N N C = "default" "priority" # as the endpoint names it
access_programs L L L = {"cyber": "standard"}
billing L L L = {"payer": "developer"}
input_transformations L L L # earlier reasoning that the endpoint kept from the model
conversation L L L # the endpoint's own record of the conversation
moderation L L L
prompt_cache_diagnostics L L L
accord L L L # the label of an endpoint that is another Accord

background N N N
frequency_penalty N N N
image N N N
instructions N N N
max_output_tokens N N N
max_tool_calls N N N
metadata N N N
output_text N N N
parallel_tool_calls N N N
presence_penalty N N N
previous_response_id N N N
prompt N N N
prompt_cache_key N N N
prompt_cache_options N N N
prompt_cache_retention N N N
reasoning N N N
safety_identifier N N N
store N N N
temperature N N N
text N N N
tool_choice N N N
tools N N N
top_logprobs N N N
top_p N N N
truncation N N N
user N N N

usage.input_tokens N N N
usage.input_tokens_details.cached_tokens N N N
usage.input_tokens_details.cache_write_tokens N N N
usage.input_tokens_details.cache_write_tokens_details.ttl_12h_tokens L L L = 0
usage.input_tokens_details.cache_write_tokens_details.ttl_30m_tokens L L L = 0
usage.output_tokens N N N
usage.output_tokens_details.reasoning_tokens N N N
usage.total_tokens N N N
tool_usage.image_gen.cached_tokens L L L = 0
tool_usage.image_gen.cached_tokens_details.cached_image_tokens L L L = 0
tool_usage.image_gen.cached_tokens_details.cached_text_tokens L L L = 0
tool_usage.image_gen.input_tokens L L L = 0
tool_usage.image_gen.input_tokens_details.image_tokens L L L = 0
tool_usage.image_gen.input_tokens_details.text_tokens L L L = 0
tool_usage.image_gen.output_tokens L L L = 0
tool_usage.image_gen.output_tokens_details.image_tokens L L L = 0
tool_usage.image_gen.output_tokens_details.text_tokens L L L = 0
tool_usage.image_gen.total_tokens L L L = 0
tool_usage.web_search.num_requests L L L = 0

output[].message.id N N N
output[].message.role N N N
output[].message.status L L L = "completed" "incomplete" "in_progress"
output[].message.phase L L L = "final_answer" # whether the text is the answer, or a comment on the way to it
output[].message.content[].output_text.text N N N
output[].message.content[].output_text.logprobs N N L
output[].message.content[].output_text.annotations[].url_citation N N C # as `web_search_result_location`
output[].message.content[].output_text.annotations[].url_citation.url N N N
output[].message.content[].output_text.annotations[].url_citation.title N N N
output[].message.content[].output_text.annotations[].url_citation.start_index N N L # it is of a whole block
output[].message.content[].output_text.annotations[].url_citation.end_index N N L # it is of a whole block
output[].message.content[].output_text.annotations[].file_citation L N L # a file at the endpoint
output[].message.content[].output_text.annotations[].container_file_citation L N L # a file at the endpoint
output[].message.content[].output_text.annotations[].file_path L N L # a file at the endpoint
output[].message.content[].refusal.refusal N N C # as text, and the stop reason `refusal`
output[].reasoning.id N N N
output[].reasoning.status L L L = "completed" "incomplete" "in_progress"
output[].reasoning.summary[].summary_text.text C N N # as `reasoning_content`
output[].reasoning.content[].reasoning_text.text C C N # as `reasoning_content`, or as a summary
output[].reasoning.encrypted_content C N N # as the signature of one of `thinking_blocks`
output[].function_call.id N N N
output[].function_call.call_id N N N
output[].function_call.name N N N
output[].function_call.namespace C C C # as a part of the name
output[].function_call.arguments N N N
output[].function_call.status L L L = "completed" "incomplete" "in_progress"
output[].function_call.async L L L = false
output[].function_call.caller L L L = {"type": "direct"}
output[].function_call.created_by L L L
output[].function_call.extra_content.google.thought_signature N N C # as the signature of the block
output[].custom_tool_call.id N N N
output[].custom_tool_call.call_id N N N
output[].custom_tool_call.name N N N
output[].custom_tool_call.namespace C C C # as a part of the name
output[].custom_tool_call.input N N C # as the text `input` of a call of a function
output[].custom_tool_call.status L L L = "completed" "incomplete" "in_progress"
output[].custom_tool_call.async L L L = false
output[].custom_tool_call.caller L L L = {"type": "direct"}
output[].custom_tool_call.created_by L L L
output[].image_generation_call.id N N N
output[].image_generation_call.result C N L # as one of `images` of the message
output[].image_generation_call.output_format C N L # as the media type of the image
output[].image_generation_call.status L L L = "completed" "generating" "in_progress"
output[].image_generation_call.error L N L
output[].image_generation_call.action L N L
output[].image_generation_call.background L N L
output[].image_generation_call.quality L N L
output[].image_generation_call.revised_prompt L N L
output[].image_generation_call.size L N L
output[].image_generation_call.svg_usage L N L
output[].image_generation_call=none L L L # an item without an image

output[].additional_tools L L L
output[].apply_patch_call L L L # a tool of the API's own
output[].apply_patch_call_output L L L # a tool of the API's own
output[].code_interpreter_call L L L # a tool that the endpoint ran
output[].compaction L L L
output[].computer_call L L L # a tool of the API's own
output[].computer_call_output L L L # a tool of the API's own
output[].custom_tool_call_output L L L
output[].file_search_call L L L # a tool that the endpoint ran
output[].function_call_output L L L
output[].local_shell_call L L L # a tool of the API's own
output[].local_shell_call_output L L L # a tool of the API's own
output[].mcp_approval_request L L L # a tool that the endpoint runs
output[].mcp_approval_response L L L # a tool that the endpoint runs
output[].mcp_call L L L # a tool that the endpoint ran
output[].mcp_list_tools L L L # tools that the endpoint runs
output[].program L L L # a tool that the endpoint runs
output[].program_output L L L # a tool that the endpoint ran
output[].shell_call L L L # a tool of the API's own
output[].shell_call_output L L L # a tool of the API's own
output[].tool_search_call L L L # a tool of the API's own
output[].tool_search_output L L L # a tool of the API's own
output[].web_search_call L L L # a tool that the endpoint ran

event.response.audio.delta C L L # as `audio` of the message
event.response.audio.transcript.delta C L L # as the transcript of the audio
event.response.image_generation_call.partial_image L L L # the complete image follows
""")
MESSAGE_CONTENT: Final = "output[].message.content[]"
ANNOTATIONS: Final = f"{MESSAGE_CONTENT}.output_text.annotations[]"
FINDER: Final = PartFinder(
    ROWS,
    ("output[]", MESSAGE_CONTENT, ANNOTATIONS, "output[].reasoning.summary[]", "output[].reasoning.content[]"),
)
