"""The chat completions of a vLLM server, which ignores what it does not know."""

from typing import Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import ChatDialect


class VllmCodec(ChatCodec):
    """The chat completions of vLLM. An answer that was aborted ends with `abort`, which is a failure."""

    dialect = ChatDialect(
        title="vLLM chat API",
        base_url=None,
        renames={"max_completion_tokens": "max_tokens"},
        lacks=frozenset(
            {
                "metadata",
                "modalities",
                "moderation",
                "prediction",
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "safety_identifier",
                "service_tier",
                "store",
                "verbosity",
                "web_search_options",
            }
        ),
        top_k=True,
    )


CODEC: Final = VllmCodec
