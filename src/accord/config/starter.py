"""The file that `accord config init` writes: every setting, commented out with its default or an example.

A line that begins with `#` and no space is a setting; a test takes the sign away and reads the file.
"""

from typing import Final

STARTER: Final = """\
# Accord's configuration. Every line that is commented out shows the default, or an example where there is none.
# `accord config check` validates this file and shows what is in effect, and where each value came from.
#
# Over this file go environment variables, and over those the flags of a command:
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
#   ACCORD_STORE_KIND                      store.kind
#   ACCORD_STORE_PATH                      store.path
# ACCORD_KEY_<BACKEND> holds the key of a backend, before the variable that its `key_env` names.

# How far work may be compromised: "strict" (native only), "standard" (emulation where the work accepts it),
# "permissive" (go on without what is missing; every loss is told).
#policy = "standard"

# What to make of a capability that nobody says anything about: "deny", or "try" and let the endpoint decide.
#unknown = "deny"

# The agent that answers when none is named: one listed below, or the built-in "demo" or "relay".
#default_agent = "demo"

# Delete sessions after so many days. Kept until they are deleted unless this is set.
#retention_days = 30

# Sign receipts with this key's file, which `accord receipts keygen` makes. It is a secret: keep it out of repositories.
#signing_key = "accord-signing-key.pem"

# Your agents: a name, and where it is found.
[agents]
#helper = "my_agents:helper"

# Backends in order of preference. Keys never stand in this file: `key_env` names the variable that holds one.
#[[backends]]
#name = "local"
#kind = "openai"
#model = "llama3.2"
#base_url = "http://localhost:11434/v1"
#key_env = "OPENAI_API_KEY"

# What the backend can do: "facts" (what is known of the model), "declared" (only the overrides), or a manifest's file.
#manifest = "facts"

# What `accord backends probe local --write` found; it counts before the facts, and after your own word below.
#probed = "accord.local.probed.json"

# Your word goes over the manifest's.
#[backends.overrides]
#streaming = "native"
#tool_bash = { restricted = { reason = "sandbox only" } }

# What only this kind of backend takes; docs/backends.md lists it.
#[backends.options]
#api = "chat"
#first_byte_s = 120.0

[emulation]
# Emulations that Accord performs beyond the standard ones: true, false, or one by one.
#preset = { tool_use = true, image_input = true }
#max_retries = 2

# A backend that reads images and may be shown those meant for one that does not; its description goes in their place.
# Only where image_input is on above. Without this, images are told by their file names, and no other backend sees them.
#describe_images_with = "local"

# A strategy of your own: "system_prompt_injection" with a prompt, "post_processing" with a detail, "disabled" with a
# reason.
#[emulation.strategies.extended_thinking]
#type = "system_prompt_injection"
#prompt = "Think step by step before answering."

[limits]
#max_block_bytes = 33554432
#max_prompt_bytes = 67108864
#max_blocks = 100000
#first_packet_s = 60.0
#gap_s = 60.0
#turn_s = 600.0
# Pictures that are made smaller for a client: the largest, and how many at once; a decoded pixel takes up to 18 bytes.
#max_image_pixels = 8300000
#concurrent_images = 1
#concurrent_turns = 1000

# How large may be what is made in a turn: one packet, the answer of one backend, everything that the agent sends.
#max_packet_bytes = 8388608
#max_answer_bytes = 33554432
#max_turn_bytes = 67108864

# How much of what was said before a turn is given; and how much may be stored of one user (no limit unless it is set).
#max_history_bytes = 1048576
#max_user_bytes = 1073741824

# Where sessions are kept: "sqlite" in a file, "memory", or "postgres" (its address in the variable named by `url_env`).
[store]
#kind = "sqlite"
# SQLite's file, relative to this one; without it the file is in your own state folder (docs/configuration.md).
#path = "accord.db"

# How the service is reached. Anything but loopback needs tokens (`accord tokens add`), an issuer below, or --insecure.
[server]
#host = "127.0.0.1"
#port = 8000
#max_body_bytes = 67108864
# The largest WebSocket message; a larger request goes over HTTP.
#max_frame_bytes = 16777216
#max_header_bytes = 65536
#max_depth = 100
# How many values a request may have outside of its texts, base64 media included in those: what JSON costs to parse.
#max_values = 50000
#header_timeout_s = 10.0
#body_timeout_s = 30.0
#write_timeout_s = 30.0
#heartbeat_s = 15.0
# How long the event loop may stand still before what blocks it is logged; an agent that does not await blocks everyone.
#stall_s = 1.0
# How long running turns may go on after the service was told to stop.
#drain_s = 30.0
# The process exits so long after a second signal at the latest, even if an agent ignores that its turn is cancelled.
#kill_s = 5.0
# A turn that nobody reads any more: "continue" (it can be read again later) or "stop".
#unread = "continue"
# How long such a turn waits for a reader to come back before it is stopped.
#unread_grace_s = 5.0
# The turns of a process that gave no sign of life for so long are ended by the other processes on the same store.
#lease_s = 15.0
# How often each identity may send a request or a WebSocket frame; each address where there are no tokens. Unless set,
# the rates below hold for everyone but this machine's own programs. [] turns them off.
#rates = ["50/second", "1500/minute"]
# How many turns each identity (or address) may run at once.
#turns_per_caller = 100
# How long a checked token is trusted before it is checked again, also on open WebSockets.
#recheck_s = 5.0
# Web pages that may call the service from a browser.
#allow_origins = ["https://app.example.com"]
# Reverse proxies (addresses or networks) whose X-Forwarded-For and X-Forwarded-Proto headers are believed.
#trusted_proxies = ["127.0.0.1"]

# An OpenID Connect provider whose tokens are accepted.
#[server.oidc]
#issuer = "https://login.example.com"
#audience = "accord"
#user_claim = "sub"
"""
