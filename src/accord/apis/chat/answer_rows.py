"""What answers of this API can say, and what becomes of it in the APIs that are served (`apis/answers.py`).

The names are those of a whole answer; what `delta` has in a stream is a part of `message`. Items of `content` and of
`annotations` and `images` are told apart by their `type`. Many rows are members of compatible servers.
"""

from typing import Final

from accord.apis.answers import PartFinder, read_rows

OTHER_ANSWER: Final = "choices[1]"
"""The part for answers beside the first."""
OTHER_TOTAL: Final = "usage.total_tokens=other"
"""The part for a total that is not the sum of input and output."""
NO_CALL: Final = "choices[].finish_reason=no_call"
"""The part for an end for a call where there is no call."""
NO_REASON: Final = "choices[].finish_reason=null"
"""The part for an answer that is complete, as by the end mark of its stream, and says nothing of its end."""

ROWS: Final = read_rows("""
id N N N
object N N N
created N N N
model N N N
service_tier N N C = "default" "priority" # as the endpoint names it
system_fingerprint L L L
obfuscation L L L # padding that hides the length of the text; answers that Accord writes have none
moderation L L L
metadata L L L
accord L L L # the label of an endpoint that is another Accord

choices[].index N N N
choices[].finish_reason N N N
choices[].finish_reason=eos C C C # a normal end
choices[].finish_reason=eos_token C C C # a normal end
choices[].finish_reason=end_turn C C C # a normal end
choices[].finish_reason=stop_sequence C C C # a normal end
choices[].finish_reason=model_length C C C # cut off, as by the token limit; the conversation fills the model's context
choices[].finish_reason=model_context_window_exceeded C C C # cut off, as by the token limit
choices[].finish_reason=sensitive C C C # a content filter
choices[].finish_reason=no_call C C C # there is no call in the answer, which counts as cut off
choices[].finish_reason=null C C C # the endpoint gives no reason; a normal end
choices[].native_finish_reason L L L
choices[].stop_reason N L C # as stop_sequence
choices[].stop_reason=token L L L # the number of a token
choices[].matched_stop C L C # as stop_reason, or stop_sequence
choices[].matched_stop=token L L L # the number of a token
choices[].logprobs.content N N L
choices[].logprobs.refusal N C L # as log probabilities of the text
choices[].content_filter_results L L L
choices[].usage N N N
choices[1] L L L # one answer was requested

choices[].message.role N N N
choices[].message.content N N N
choices[].message.content[].text.text N N N
choices[].message.content[].refusal.refusal N N C # text, and the end of the answer says that it is a refusal
choices[].message.content[].thinking.thinking C N N # as reasoning_content
choices[].message.content[].thinking.thinking[].text N N N
choices[].message.content[].thinking.closed L L L = true
choices[].message.content[].image_url.image_url C C L # as images, or image_generation_call
choices[].message.content[].reference L L L # numbers of sources, without their addresses
choices[].message.refusal N N C # text, and the end of the answer says that it is a refusal
choices[].message.reasoning_content N N N
choices[].message.reasoning C N N # as reasoning_content
choices[].message.reasoning_details[].text C N N # as reasoning_content
choices[].message.reasoning_details[].summary C N N # as reasoning_content
choices[].message.reasoning_details[].index N N N
choices[].message.reasoning_details[].signature L L L
choices[].message.reasoning_details[].data L L L
choices[].message.reasoning_details[].format L L L
choices[].message.reasoning_details[].id L L L
choices[].message.thinking_blocks[].thinking N N N
choices[].message.thinking_blocks[].signature N C N # as encrypted_content
choices[].message.thinking_blocks[].data N C N # as encrypted_content
choices[].message.thinking_blocks[].index N N N
choices[].message.tool_calls[].index N N N
choices[].message.tool_calls[].id N N N
choices[].message.tool_calls[].function.name N N N
choices[].message.tool_calls[].function.arguments N N N
choices[].message.tool_calls[].custom.name N N C # as a call of a function
choices[].message.tool_calls[].custom.input N N C # as the member input of its arguments
choices[].message.tool_calls[].extra_content.google.thought_signature N C C # beside the call
choices[].message.function_call.name C C C # as a tool call, unless the client asked with functions
choices[].message.function_call.arguments C C C # as a tool call, unless the client asked with functions
choices[].message.annotations[].url_citation.url_citation.url N N C # as a citation of the text
choices[].message.annotations[].url_citation.url_citation.title N N C # as a citation of the text
choices[].message.annotations[].url_citation.url_citation.start_index N N L
choices[].message.annotations[].url_citation.url_citation.end_index N N L
choices[].message.annotations[].url_citation.url_citation.content N L C # as cited_text
choices[].message.annotations[].file L L L # a file of the request as text
choices[].message.audio.id N L L
choices[].message.audio.data N L L
choices[].message.audio.transcript N L L
choices[].message.audio.expires_at N L L
choices[].message.images[].image_url.image_url.url N C L # as image_generation_call, if it is data
choices[].message.images[].image_url.index N N N
choices[].message.extra_content L L L
choices[].message.prefix L L L = false
choices[].message.executed_tools L L L

citations[] C C C # as citations of the whole text
citations[].url C C C # as a citation of the whole text
citations[].title C C C # as a citation of the whole text
search_results[].url C C C # as a citation of the whole text
search_results[].title C C C # as a citation of the whole text
search_results[].snippet C L C # as the text of a citation
search_results[].date L L L
search_results[].last_updated L L L
search_results[].source L L L

usage.prompt_tokens N N N
usage.completion_tokens N N N
usage.total_tokens N N N
usage.total_tokens=other L L L # a total that is not the sum of input and output
usage.prompt_tokens_details.cached_tokens N N N
usage.prompt_tokens_details.cache_write_tokens N N N
usage.prompt_tokens_details.audio_tokens L L L = 0
usage.prompt_tokens_details.image_tokens L L L = 0
usage.prompt_tokens_details.text_tokens L L L = 0
usage.prompt_tokens_details.video_tokens L L L = 0
usage.completion_tokens_details.reasoning_tokens N N N
usage.completion_tokens_details.audio_tokens L L L = 0
usage.completion_tokens_details.image_tokens L L L = 0
usage.completion_tokens_details.text_tokens L L L = 0
usage.completion_tokens_details.accepted_prediction_tokens L L L = 0
usage.completion_tokens_details.rejected_prediction_tokens L L L = 0
usage.reasoning_tokens N N N
usage.prompt_cache_hit_tokens N N N
usage.prompt_cache_miss_tokens C C C # the input without its cached tokens
usage.cache_read_input_tokens N N N
usage.cache_creation_input_tokens N N N
usage.cost L L L = 0
usage.cost_details L L L
usage.is_byok L L L = false
usage.queue_time L L L
usage.prompt_time L L L
usage.completion_time L L L
usage.total_time L L L

provider L L L # who runs the model, at a router
prompt_filter_results L L L
prompt_logprobs L L L
prompt_token_ids L L L
kv_transfer_params L L L
timings L L L
x_groq.id L L L
x_groq.usage N N N
""")
FINDER: Final = PartFinder(
    ROWS,
    ("choices[].message.content[]", "choices[].message.annotations[]", "choices[].message.images[]"),
)
