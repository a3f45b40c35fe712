"""The names of providers in data sources, and the makers of models, as the snapshot of facts has them."""

from collections.abc import Mapping
from typing import Final

# Lower case, hyphens for underscores, then this table. The names on the right are models.dev's.
PROVIDERS: Final[Mapping[str, str]] = {
    "amazon-nova": "nova",
    "azure-text": "azure",
    "bedrock": "amazon-bedrock",
    "bedrock-converse": "amazon-bedrock",
    "cloudflare": "cloudflare-workers-ai",
    "cohere-chat": "cohere",
    "dashscope": "alibaba",
    "fireworks": "fireworks-ai",
    "friendliai": "friendli",
    "gemini": "google",
    "gmi": "gmicloud",
    "google-vertex-anthropic": "google-vertex",
    "gradient-ai": "digitalocean",
    "meta-llama": "llama",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "novita": "novita-ai",
    "text-completion-inception": "inception",
    "text-completion-openai": "openai",
    "together": "togetherai",
    "together-ai": "togetherai",
    "vercel-ai-gateway": "vercel",
    "vertex-ai": "google-vertex",
    "xiaomi-mimo": "xiaomi",
}
# LiteLLM writes `vertex_ai-<family>_models` for one and the same provider.
PROVIDER_PREFIXES: Final[Mapping[str, str]] = {"vertex-ai-": "google-vertex"}

# The maker of models whose name begins like this: a plain model name means the maker's own offer.
MAKERS: Final[Mapping[str, str]] = {
    "chatgpt-": "openai",
    "claude-": "anthropic",
    "codestral": "mistral",
    "command-": "cohere",
    "deepseek-": "deepseek",
    "devstral": "mistral",
    "gemini-": "google",
    "gemma-": "google",
    "glm-": "zai",
    "gpt-": "openai",
    "grok-": "xai",
    "kimi-": "moonshotai",
    "magistral": "mistral",
    "mercury": "inception",
    "mimo-": "xiaomi",
    "minimax-": "minimax",
    "ministral": "mistral",
    "mistral-": "mistral",
    "nova-": "nova",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "pixtral": "mistral",
    "qvq-": "alibaba",
    "qwen": "alibaba",
    "qwq-": "alibaba",
    "sonar": "perplexity",
    "step-": "stepfun",
    "v0-": "v0",
}


def provider_name(name: str) -> str:
    """Return the name of a provider in the snapshot."""
    plain = name.strip().lower().replace("_", "-")
    for prefix, provider in PROVIDER_PREFIXES.items():
        if plain.startswith(prefix):
            return provider
    return PROVIDERS.get(plain, plain)


def maker(model: str) -> str | None:
    """Return the provider that makes a model of this name, if the name shows it."""
    plain = model.lower()
    return next((provider for prefix, provider in MAKERS.items() if plain.startswith(prefix)), None)
