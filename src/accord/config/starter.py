"""The file that `accord config init` writes: every setting, commented out, with its default or an example.

A line that begins with `#` and no space is a setting: a test removes the sign and reads the file.
"""

from typing import Final

STARTER: Final = """\
# Configuration of Accord. Each commented line shows the default of a setting, or an example if it has no default.
# `accord config check` validates this file and shows the effective value of every setting and where it comes from.
#
# Environment variables override this file, and command-line options override both:
#   ACCORD_POLICY                          policy
#   ACCORD_UNKNOWN                         unknown
#   ACCORD_DEFAULT_AGENT                   default_agent
#   ACCORD_RETENTION_DAYS                  retention_days
#   ACCORD_EMULATION_PRESET                emulation.preset
#   ACCORD_EMULATION_MAX_RETRIES           emulation.max_retries
#   ACCORD_EMULATION_DESCRIBE_IMAGES_WITH  emulation.describe_images_with
#   ACCORD_LIMITS_FIRST_PACKET_S           limits.first_packet_s
#   ACCORD_LIMITS_GAP_S                    limits.gap_s
#   ACCORD_LIMITS_TURN_S                   limits.turn_s
#   ACCORD_LIMITS_CONCURRENT_TURNS         limits.concurrent_turns
#   ACCORD_SERVER_HOST                     server.host
#   ACCORD_SERVER_PORT                     server.port
#   ACCORD_SERVER_WORKERS                  server.workers
#   ACCORD_STORE_KIND                      store.kind
#   ACCORD_STORE_PATH                      store.path
#   ACCORD_QUEUE_KIND                      queue.kind
# ACCORD_KEY_<BACKEND> holds the API key of a backend; it is used before the variable that `key_env` names.

# When a backend lacks something: "strict" (refuse; native support only), "standard" (emulate where the request accepts
# it, refuse otherwise), "permissive" (continue without it; every loss is reported).
#policy = "standard"

# A capability that no source says anything about: "deny" (treat it as missing) or "try" (let the endpoint decide).
#unknown = "deny"

# The agent that answers when a command names none: one listed below, or the built-in "demo" or "relay".
#default_agent = "demo"

# Delete sessions after this many days without activity. If this is not set, conversations are kept until someone
# deletes them, and receipts and stored responses of the model APIs for 30 days.
#retention_days = 30

# Sign receipts with this private key; `accord receipts keygen` makes one. It is a secret: do not commit it.
#signing_key = "accord-signing-key.pem"

# Your agents: a name, and module:name of the agent.
[agents]
#helper = "my_agents:helper"

# Backends in order of preference. API keys do not belong in this file: `key_env` names the variable that holds one.
#[[backends]]
#name = "local"
#kind = "openai"
#model = "llama3.2"
#base_url = "http://localhost:11434/v1"
#key_env = "OPENAI_API_KEY"

# What the backend can do: "facts" (the shipped facts about the model), "declared" (only the overrides below), or the
# file of a manifest.
#manifest = "facts"

# What `accord backends probe local --write` found. It overrides the facts; the overrides below override both.
#probed = "accord.local.probed.json"

# How many calls of this backend may run at once, over all processes that share the store (no limit if not set).
#concurrent = 4

# Capabilities that you declare yourself; they override every other source.
#[backends.overrides]
#streaming = "native"
#tool_bash = { restricted = { reason = "sandbox only" } }

# Options of this kind of backend; docs/backends.md lists them.
#[backends.options]
#api = "chat"
#first_byte_s = 120.0

# Several backends under one name, which clients of the model APIs give as `model`. The order is that of fallback. With
# weights, the first backend is drawn for each request; one without a weight is only a fallback.
#[groups."fast/any"]
#backends = ["local"]
#weights = { local = 3 }

# A backend that is down or overloaded so many times in a row is skipped for some seconds, then tried by one request at
# a time. Each pause is twice as long as the one before, up to the longest.
[circuit]
#failures = 3
#pause_s = 5.0
#max_pause_s = 60.0

[emulation]
# Emulations beyond the standard ones: true (all), false (none), or a table of capabilities.
#preset = { tool_use = true, image_input = true }
#max_retries = 2

# A backend that reads images: for a backend that does not, it describes them, and the descriptions replace the images.
# Needs image_input in the preset. Without this, an image is replaced by its file name, and no other backend gets it.
#describe_images_with = "local"

# The emulation of one capability: "system_prompt_injection" with a prompt, "post_processing" with a detail, or
# "disabled" with a reason.
#[emulation.strategies.extended_thinking]
#type = "system_prompt_injection"
#prompt = "Think step by step before answering."

[limits]
# Size of one content block (base64), of a whole prompt, and how many blocks a prompt may have.
#max_block_bytes = 33554432
#max_prompt_bytes = 67108864
#max_blocks = 100000
# Seconds until the first packet of an answer, between two packets, and for a whole turn.
#first_packet_s = 60.0
#gap_s = 60.0
#turn_s = 600.0
# Images that are made smaller for a client: most pixels (each takes up to 18 bytes of memory), and how many at once.
#max_image_pixels = 8300000
#concurrent_images = 1
# How many turns may run at once.
#concurrent_turns = 1000
# Seconds that a request waits if every backend that could answer it is at its limit (`concurrent`).
#slot_wait_s = 10.0

# Size of one packet, of the answer of one backend, and of everything that the agent sends in a turn.
#max_packet_bytes = 8388608
#max_answer_bytes = 33554432
#max_turn_bytes = 67108864

# How much of the conversation so far a turn gets; and how much may be stored for one user (no limit if not set).
#max_history_bytes = 4194304
#max_user_bytes = 1073741824

# How much of a conversation `accord acp` sends to an editor that loads it: the last turns that fit.
#max_replay_turns = 1000
#max_replay_bytes = 67108864

# Where sessions are kept: "sqlite" (a file), "memory", or "postgres" (`url_env` names the variable with its address).
[store]
#kind = "sqlite"
# The SQLite file, relative to this file. By default it is in your state folder (docs/configuration.md).
#path = "accord.db"

# Who runs the turns of agents: "none" (the serving process), or workers (`accord worker`) that take them from a queue
# in "nats" (`url_env` names the variable with its address) or "postgres" (the store's database): docs/queue.md.
[queue]
#kind = "none"
# How many turns each worker runs at once.
#turns = 100
# For "nats": the first part of every subject and stream, how many servers of a cluster keep each message, and files.
#prefix = "accord"
#replicas = 1
#credentials_file = "accord.creds"
#ca_file = "ca.pem"

# Where the service listens. Any host but loopback needs keys (`accord keys add`), [server.oidc] or --insecure.
[server]
#host = "127.0.0.1"
#port = 8000
# How many processes serve this address; one for each processor core is best. Rates and limits are those of one process.
#workers = 1
# Whether there is a web page at /.
#page = true
#max_body_bytes = 67108864
# The largest WebSocket message; send larger requests over HTTP.
#max_frame_bytes = 16777216
#max_header_bytes = 65536
# How deeply the JSON of a request may be nested, and how many values it may have (a text is one value).
#max_depth = 100
#max_values = 50000
# Seconds to receive the headers and the body of a request, and to send a part of an answer.
#header_timeout_s = 10.0
#body_timeout_s = 30.0
#write_timeout_s = 30.0
# Seconds without a packet after which an event stream sends a comment, so that proxies keep it open.
#heartbeat_s = 15.0
# Seconds that the event loop may be blocked before the blocking code is logged. A blocking agent delays all turns.
#stall_s = 1.0
# Seconds that running turns may take to finish after the first signal to stop.
#drain_s = 30.0
# Seconds after a second signal until the process exits, even if an agent ignores that its turn is cancelled.
#kill_s = 5.0
# A turn whose client has disconnected: "continue" (the client can read it later) or "stop".
#unread = "continue"
# With "stop": seconds to wait for the client to come back.
#unread_grace_s = 5.0
# Seconds without a heartbeat after which other processes on the same store end the turns of this one.
#lease_s = 15.0
# How many requests and WebSocket frames each caller may send: each user, or each address where there are no keys.
# If not set, these rates apply to all callers except programs on this machine. [] turns them off.
#rates = ["50/second", "1500/minute"]
# How many turns each caller may run at once.
#turns_per_caller = 100
# Seconds after which a key is checked again, also on open WebSockets.
#recheck_s = 5.0
# Origins of web pages that may call the service from a browser (CORS).
#allow_origins = ["https://app.example.com"]
# Reverse proxies (addresses or networks) whose X-Forwarded-For and X-Forwarded-Proto headers are used.
#trusted_proxies = ["127.0.0.1"]

# An OpenID Connect provider whose tokens are accepted.
#[server.oidc]
#issuer = "https://login.example.com"
#audience = "accord"
#user_claim = "sub"
"""
