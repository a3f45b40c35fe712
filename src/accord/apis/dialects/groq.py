"""Groq's chat completions: what it lacks, it answers with an error."""

from typing import Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import ChatDialect


class GroqCodec(ChatCodec):
    """The chat completions of Groq. Reasoning is in `reasoning`, and the usage of a stream in `x_groq`, too."""

    dialect = ChatDialect(
        title="Groq chat API",
        base_url="https://api.groq.com/openai/v1",
        lacks=frozenset({"logit_bias", "messages[].name", "n"}),
        unsupported=frozenset({"logprobs"}),
        reasoning_field="reasoning",
    )


CODEC: Final = GroqCodec
