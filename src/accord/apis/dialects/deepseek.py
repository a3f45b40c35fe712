"""DeepSeek's chat completions: what it lacks, it ignores."""

from typing import Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import ChatDialect


class DeepSeekCodec(ChatCodec):
    """The chat completions of DeepSeek: JSON without a schema, reasoning in `reasoning_content`."""

    dialect = ChatDialect(
        title="DeepSeek chat API",
        base_url="https://api.deepseek.com/v1",
        renames={"max_completion_tokens": "max_tokens"},
        lacks=frozenset(
            {
                "logit_bias",
                "metadata",
                "modalities",
                "moderation",
                "n",
                "prediction",
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
        unsupported=frozenset({"seed_determinism", "structured_output_json_schema"}),
        reasoning_field="reasoning_content",
    )


CODEC: Final = DeepSeekCodec
