"""The table of dispositions: what becomes of each field of each model API at each kind of backend. Data only.

`fields.py` reads it. One line is one field, and one below it that is indented may have a reason:

    field   t|c   chat responses messages gemini acp other   [capability]   [= neutral values]   [# note]
        [! why it is dropped or refused, where it is not that the API has no field for it]

`t` is tuning: without it the answer is still what was asked for. `c` is contract: without it the answer would not be.
The six letters are dispositions at a backend of that kind, `other` being scripts and backends written in Python: `N`
native, `E` emulated, `D` dropped, `R` refused. They say what the backend's API can carry; with a capability, the model
must have it, too (its manifest decides), else a tuning field is dropped and a contract is emulated or refused; a field
about tools that Accord emulates is dropped. A small letter is the same, but no work order has the field: a request that
is passed on unchanged carries it, and any other one where `place_of` finds a place. Neutral values, as JSON, ask for
nothing; null always is neutral. `[]` in a name is any item; `*` is every field that is not listed. Where the last word
of a name is a value, the row is for that value.

`make check-fields` holds the rows to the types of the SDKs: what an SDK can send has a row, and a row of what none of
them can send is listed there. Most members have the same name in both OpenAI APIs; `TRANSLATED` has the
others that mean the same in another API.
"""

from typing import Final

CHAT: Final = """
model                                  c  N N N N N N
messages                               c  N N N N N N
messages[].system                      c  N N E E N N  # after other messages: stays there, as a marked text of the user
messages[].name                        t  n D D D D D  # a participant's name
messages[].reasoning_content           t  n D N N D N  reasoning_history  # earlier reasoning, a field of some servers
messages[].thinking_blocks             t  n N N N D N  reasoning_history  # a signature goes only to its own API
messages[].refusal                     c  N N N N N N  # is sent as text
messages[].audio                       c  n R R R R R  # an earlier spoken answer, by its id
messages[].tool_calls                  c  N N N N E E  tool_use
messages[].tool_calls[].custom         c  N N E E E E  # is sent as a call of a function with one text
messages[].tool_calls[].function.arguments t n E E E E E  # text that is not JSON: is sent as an object with that text
messages[].function_call               c  N N N N E E  tool_use  # the older form of tool_calls
messages[].content[].image_url         c  N N N N N N  image_input
messages[].content[].image_url.address c  N N N N R R  image_url  # an image by its address, not as a data URL
messages[].content[].image_url.detail  t  N N D D D N  = "auto"
    ! gemini: its words for a resolution mean something else
messages[].content[].input_audio       c  N R R N N N  audio
messages[].content[].file              c  N N N N N N  pdf_input
messages[].content[].file.file_id      c  n N R R R R  # a file that was uploaded to the endpoint
    ! the file is in an account at OpenAI
messages[].content[].cache_control     t  n D N D D N
messages[].content[].prompt_cache_breakpoint t  N N N D D N
messages[assistant].content[].prompt_cache_breakpoint t  n D N D D N
    ! responses: what the assistant said has no such point there
messages[tool].content[].texts         c  E N N N E N  # several in one result: become one, line after line
messages[].content[].other             c  n R R R R R  # a kind of content that is not listed
stream                                 c  N N N N N N  = false
stream_options.include_usage           c  N N N N N N  = false
stream_options.include_obfuscation     t  n D D D D D  = false
    ! Accord itself writes the stream
stream_options.other                   t  n D D D D D
tools                                  c  N N N N E E  tool_use  = []
tools[].function.strict                t  N N N D D N  tool_use  = false
tools[].cache_control                  t  n D N D D N  tool_use
tools[].custom                         c  N N E E E E  # a tool whose input is text: is sent as a function with one text
tools[].other                          c  n R R R R R
tool_choice                            c  N N N N E E  tool_use  = "auto"
tool_choice.allowed_tools              c  N E E E E E  # the other tools are not sent
parallel_tool_calls                    t  N N N D D N  tool_use  = true
functions                              c  N N N N E E  tool_use  = []  # the older form of tools
function_call                          c  N N N N E E  tool_use  = "auto"  # the older form of tool_choice
response_format.json_schema            c  N N N N E E  structured_output_json_schema
response_format.json_schema.description t  N N D D D N  structured_output_json_schema
response_format.json_object            c  N N E N E E  json_mode
response_format.other                  c  n R R R R R
temperature                            t  N N N N D N  temperature
top_p                                  t  N N N N D N  top_p
top_k                                  t  N D N N D N  top_k  # a field of some servers
frequency_penalty                      t  N D D N D N  frequency_penalty  = 0
presence_penalty                       t  N D D N D N  presence_penalty  = 0
seed                                   t  N D D N D N  seed_determinism
logit_bias                             t  n D D D D D  = {}
max_tokens                             t  N N N N D N  max_tokens
max_completion_tokens                  t  N N N N D N  max_tokens
logprobs                               c  N N R N R R  logprobs  = false
top_logprobs                           c  N N R N R R  logprobs  = 0
n                                      c  N E E E E E  = 1  # the question is asked so many times
stop                                   c  N E N N E E  stop_sequences  = []
reasoning_effort                       t  N N N N D N  extended_thinking
verbosity                              t  n N D D D D  = "medium"
modalities                             c  n R R R R R  = ["text"]
    ! gemini: it has models that speak, in a form of their own
audio                                  c  n R R R R R  # a spoken answer
    ! gemini: it has models that speak, in a form of their own
prediction                             t  n D D D D D
web_search_options                     c  n E R R R R  # is sent as the tool web_search
    ! that API has a tool for it, which its administrator has to allow
moderation                             c  n N R R R R
metadata                               t  n N D D D D  = {}
    ! that API has no object to attach it to
user                                   t  n N N D D D
user.second                            t  n N D D D D  # beside safety_identifier
    ! safety_identifier says who it is
safety_identifier                      t  n N N D D D
prompt_cache_key                       t  n N D D D D
prompt_cache_retention                 t  n N D D D D
prompt_cache_options                   t  n N D D D D
service_tier                           t  n N D D D D  = "auto"
    ! that API has no such tier
service_tier.default                   t  n N N N N N  # whatever else has tiers is asked for its standard one
store                                  t  n N D D D D  = false
*                                      t  n D D D D D
"""

RESPONSES: Final = """
model                                  c  N N N N N N
input                                  c  N N N N N N
instructions                           c  N N N N N N
input[].input_image                    c  N N N N N N  image_input
input[].input_image.address            c  N N N N R R  image_url  # an image by its address, not as a data URL
input[].input_image.detail             t  N N D D D N  = "auto"
    ! gemini: its words for a resolution mean something else
input[].input_image.file_id            c  R n R R R R
    ! the file is in an account at OpenAI, and chat completions take no images by id
input[].input_file                     c  N N N N N N  pdf_input
input[].input_file.text                c  N N N N N N  # a text document
input[].input_file.other               c  R n R N N N  file_input  # a file that is neither text nor PDF
input[].input_file.address             c  R N N N R R  pdf_input
input[].input_file.file_id             c  N N R R R R
    ! the file is in an account at OpenAI
input[].function_call                  c  N N N N E E  tool_use
input[].function_call.media              c  R N N N N N  tool_result_media  # an image or a file as the result
    ! chat: it takes only text from a tool
input[].function_call.texts            c  E N N N E N  # several in one result: become one, line after line
input[].reasoning                      t  N N N N D N  reasoning_history  # a signature goes only to its own API
input[].reasoning.text                 t  N n E N D N  # its text without encrypted_content: is sent as text
input[].reasoning.summary              t  N D E N D N  # without encrypted_content: is sent as text, or not at all
    ! responses: the endpoint takes a summary only with its encrypted_content
input[].reasoning.reference            t  D D D D D D  # only its id, under which no endpoint has kept it
    ! no endpoint has kept what it names
input[].system                         c  N N E E N N  # after other messages: stays there, as a marked text of the user
input[].item_reference                 c  R n R R R R
input[].custom_tool_call               c  E N E E E E  # is sent as a call of a function with one text
input[].refusal                        c  N N N N N N  # is sent as text
input[].additional_tools               c  E N E E E E  # its tools are sent with the others
input[].configuration_update           t  E N E E D E  # its effort is that of the request
input[].prompt_cache_breakpoint        t  N N N D D N
input[].member                         t  D n D D D D  # a further member of an item or its content, such as phase
input[].other                          c  R n R R R R  # a kind of item that is not listed
previous_response_id                   c  N N N N N N  # Accord keeps the response
store                                  t  N N N N N N  = true  # Accord keeps the response, no endpoint does
conversation                           c  R R R R R R
    ! it is state at an endpoint that Accord does not know
background                             c  R R R R R R  = false
    ! Accord answers no request in the background
prompt                                 c  R n R R R R  # a prompt template that an endpoint keeps
stream                                 c  N N N N N N  = false
stream_options.include_obfuscation     t  D n D D D D  = false
    ! Accord itself writes the stream
stream_options.other                   t  D n D D D D
include.reasoning                      t  D N N N D D  # reasoning.encrypted_content: the signature of the reasoning
include.logprobs                       c  N N R N R R  logprobs
include.other                          t  D n D D D D
tools                                  c  N N N N E E  tool_use  = []
tools[].strict                         t  N N N D D N  tool_use  = false
tools[].custom                         c  E N E E E E  # is sent as a function with one text
tools[].namespace                      c  E N E E E E  # its tools are sent under joined names
tools[].other                          t  D n D D D D  # further members of a tool
    ! that API has none that means the same
tools[].hosted                         t  D n D D D D  # tools that the endpoint itself runs, such as web search
    ! each API has tools of its own
tools[].web_search                     t  D n D D D D
    ! chat completions search with web_search_options, which only models made for it take
tool_choice                            c  N N N N E E  tool_use  = "auto"
tool_choice.allowed_tools              c  E N E E E E  # the other tools are not sent
tool_choice.hosted                     c  R n R R R R
parallel_tool_calls                    t  N N N D D N  tool_use  = true
max_tool_calls                         t  D n D D D D
text.format.json_schema                c  N N N N E E  structured_output_json_schema
text.format.description                t  N N D D D N  structured_output_json_schema
text.format.json_object                c  N N E N E E  json_mode
text.format.other                      c  R n R R R R
text.verbosity                         t  N n D D D D  = "medium"
text.other                             t  D n D D D D
temperature                            t  N N N N D N  temperature
top_p                                  t  N N N N D N  top_p
top_logprobs                           c  N N R N R R  logprobs  = 0
max_output_tokens                      t  N N N N D N  max_tokens
reasoning                              t  N N N N D N  extended_thinking
reasoning.summary                      t  D N N N D N  extended_thinking
reasoning.summary.alone                t  D N D N D N  extended_thinking  # without an effort, it asks for no reasoning
reasoning.other                        t  D n D D D D
metadata                               t  N N N N N N  = {}  # Accord keeps and repeats it
truncation                             t  D n D D D D  = "disabled"
context_management                     t  D n D D D D
    ! that of the messages API edits other things
user                                   t  N n N D D D
user.second                            t  N n D D D D  # beside safety_identifier
    ! safety_identifier says who it is
safety_identifier                      t  N n N D D D
prompt_cache_key                       t  N n D D D D
prompt_cache_retention                 t  N n D D D D
prompt_cache_options                   t  N n D D D D
prompt_cache_options.comparison_response_id t  D n D D D D
prompt_cache_options.prewarm           t  D n D D D D  = false
service_tier                           t  N n D D D D  = "auto"
    ! that API has no such tier
service_tier.default                   t  N n N N N N  # whatever else has tiers is asked for its standard one
client_metadata                        t  D n D D D D
access_programs                        t  D n D D D D
moderation                             c  N n R R R R
image                                  c  R n R R R R
*                                      t  D n D D D D
"""

MESSAGES: Final = """
model                                  c  N N N N N N
messages                               c  N N N N N N
system                                 c  N N N N N N
max_tokens                             t  N N N N D N  max_tokens
messages[].content[].image             c  N N N N N N  image_input
messages[].content[].image.address     c  N N N N R R  image_url
messages[].content[].image.file_id     c  R R n R R R
    ! the file is in an account at Anthropic
messages[].content[].document          c  N N N N N N  pdf_input
messages[].content[].document.text     c  N N N N N N  # a text document
messages[].content[].document.address  c  R N N N R R  pdf_input
messages[].content[].document.file_id  c  R R n R R R
    ! the file is in an account at Anthropic
messages[].content[].media             c  R R N N R N  # an image or a document in a message of the assistant
    ! it takes text only from the assistant
messages[].content[].document.citations c R R n R R R
messages[].content[].document.context  c  N N N N N N  # is sent as text before the document
messages[].content[].tool_use          c  N N N N E E  tool_use
messages[].content[].tool_use.signature t N D D N D N  tool_use  # Accord's: the signature of a call, to be sent back
messages[].content[].tool_result       c  N N N N E E  tool_use
messages[].content[].tool_result.media  c  R N N N N N  tool_result_media  # an image or a file
    ! chat: it takes only text from a tool
messages[].content[].tool_result.texts c  E N N N E N  # several in one result: become one, line after line
messages[].content[].tool_reference    c  E E n E E E  # a deferred tool: every tool is sent from the start
messages[].content[].thinking          t  N N N N D N  reasoning_history  # a signature goes only to its own API
messages[].content[].thinking.unsigned t  N D E N D N  # without a signature: is sent as text
messages[].content[].other             c  R R n R R R  # a kind of block that is not listed
messages[].system                      c  N N E E N N  # after other messages: stays there, as a marked text of the user
messages[].other                       t  D D n D D D  # further members of a message or a block
    ! that API has none that means the same
cache_control                          t  D D n D D D
    ! the endpoint itself decides what it caches
*.cache_control                        t  D D N D D N  # of a block, a tool or the system prompt
    ! the endpoint itself decides what it caches
stream                                 c  N N N N N N  = false
stop_sequences                         c  N E N N E E  stop_sequences  = []
tools                                  c  N N N N E E  tool_use  = []
tools[].strict                         t  N N N D D N  tool_use  = false
tools[].hosted                         t  D D n D D D  # tools that the endpoint itself runs or knows
    ! each API has tools of its own
tools[].other                          t  D D n D D D  # further members of a tool
    ! that API has none that means the same
tool_choice                            c  N N N N E E  tool_use  = {"type": "auto"}
tool_choice.hosted                     c  R R n R R R
tool_choice.disable_parallel_tool_use  t  N N N D D N  tool_use  = false
output_config.format                   c  N N N N E E  structured_output_json_schema
output_format                          c  N N N N E E  structured_output_json_schema  # the older form
output_config.effort                   t  N N N N D N  extended_thinking
output_config.effort.alone             t  D D N D D N  extended_thinking  # of the whole answer, with thinking disabled
output_config.other                    t  D D n D D D
thinking                               t  N N N N D N  extended_thinking
thinking.display                       t  D N N N D N  extended_thinking  # "summarized"
thinking.other                         t  D D n D D D
temperature                            t  N N N N D N  temperature
top_p                                  t  N N N N D N  top_p
top_k                                  t  N D N N D N  top_k
metadata.user_id                       t  N N n D D D  # more than 64 characters: OpenAI gets their SHA-256
metadata                               t  D D n D D D  = {}
    ! there is a user_id in it and nothing else
service_tier                           t  N N n N N N  = "auto" # whatever else has tiers is asked for its standard one
speed                                  t  D D n D D D  = "standard"
inference_geo                          c  R R n R R R  # where the data may be processed
container                              c  R R n R R R
mcp_servers                            c  R R n R R R  = []
    ! responses: its tool for them answers in a form of its own
context_management                     t  D D n D D D
    ! that of the responses API edits other things
compaction                             t  D D n D D D
diagnostics                            t  D D n D D D
fallbacks                              t  D D n D D D
thread                                 c  R R n R R R
user_profile_id                        t  D D n D D D
workspace_id                           t  D D n D D D
billing_policy                         c  R R n R R R  = {"type": "billing_policy", "bill_to": "self"}
fallback_credit_token                  t  D D n D D D
*                                      t  D D n D D D
"""

TRANSLATED: Final = """
chat       user                  user                user                metadata.user_id
chat       user.second           user                user                -
chat       safety_identifier     safety_identifier   safety_identifier   metadata.user_id
chat       service_tier.default  service_tier        service_tier        service_tier
chat       verbosity             verbosity           text.verbosity      -
chat       web_search_options    web_search_options  tools               -
responses  user                  user                user                metadata.user_id
responses  user.second           user                user                -
responses  safety_identifier     safety_identifier   safety_identifier   metadata.user_id
responses  service_tier.default  service_tier        service_tier        service_tier
responses  text.verbosity        verbosity           text.verbosity      -
messages   metadata.user_id      user                safety_identifier   metadata.user_id
messages   service_tier          service_tier        service_tier        service_tier
"""
"""Where chat completions, responses and messages have a field of one of them under another name.

Every server of chat completions knows `user`, and only OpenAI its successor, `safety_identifier`.
"""
