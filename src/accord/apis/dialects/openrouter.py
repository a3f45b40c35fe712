"""OpenRouter's chat completions: a router over many providers."""

from typing import Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import ChatDialect


class OpenRouterCodec(ChatCodec):
    """The chat completions of OpenRouter. It takes `top_k` and earlier reasoning in `reasoning`."""

    dialect = ChatDialect(
        title="OpenRouter chat API",
        base_url="https://openrouter.ai/api/v1",
        renames={"max_completion_tokens": "max_tokens"},
        lacks=frozenset({"moderation", "n", "store"}),
        top_k=True,
        reasoning_field="reasoning",
    )


CODEC: Final = OpenRouterCodec
