"""Mistral's chat completions: its validation refuses every member that it does not know."""

from typing import Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import ChatDialect


class MistralCodec(ChatCodec):
    """The chat completions of Mistral. Its streams have their usage unasked."""

    dialect = ChatDialect(
        title="Mistral chat API",
        base_url="https://api.mistral.ai/v1",
        renames={"seed": "random_seed", "max_completion_tokens": "max_tokens"},
        lacks=frozenset(
            {
                "logit_bias",
                "messages[].name",
                "modalities",
                "moderation",
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "safety_identifier",
                "service_tier",
                "store",
                "user",
                "verbosity",
                "web_search_options",
            }
        ),
        unsupported=frozenset({"logprobs"}),
        usage_in_stream=False,
    )


CODEC: Final = MistralCodec
