"""The environment variables that point agents at the fake model.

| agent | variables |
|---|---|
| Claude Agent, Claude Code | `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`, `ANTHROPIC_MODEL` and the other models |
| Gemini CLI | `GEMINI_API_KEY`, `GOOGLE_GEMINI_BASE_URL`, `GEMINI_MODEL`, `GEMINI_DEFAULT_AUTH_TYPE` |
| Qwen Code | `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_MODEL`, `QWEN_DEFAULT_AUTH_TYPE` |
| OpenCode | `OPENCODE_CONFIG_CONTENT` |
| Copilot | `COPILOT_PROVIDER_BASE_URL`, `COPILOT_PROVIDER_API_KEY`, `COPILOT_MODEL`, `COPILOT_OFFLINE` |
| Kimi | `KIMI_MODEL_…`; older versions `KIMI_BASE_URL`, `KIMI_API_KEY`, `KIMI_MODEL_NAME` |
| Goose | `GOOSE_PROVIDER`, `GOOSE_MODEL`, `OPENAI_HOST`, `OPENAI_API_KEY` |
| OpenHands, with `--override-with-envs` | `LLM_MODEL`, `LLM_BASE_URL`, `LLM_API_KEY` |
| fast-agent, agentao and others that use the SDKs | `OPENAI_…`, `ANTHROPIC_…`, `GOOGLE_…` |

Codex, Cline, pi, Vibe and some others read the address only from a file of settings or an option.
"""

import json
from typing import Final

KEY: Final = "sk-ant-api03-accord-fake-key"
"""Begins like a key of Anthropic, because some agents check that; others take any text."""
OPENAI_MODEL: Final = "gpt-4o"
ANTHROPIC_MODEL: Final = "claude-sonnet-4-5"
GEMINI_MODEL: Final = "gemini-2.5-pro"
MODELS: Final = (OPENAI_MODEL, ANTHROPIC_MODEL, GEMINI_MODEL)
"""Models that agents know, and know to take images."""

OPENAI_VERSION: Final = "v1"
LOOPBACK: Final = "127.0.0.1,localhost,::1"


def agent_environ(url: str) -> dict[str, str]:
    """The variables for agents, if the fake model has this address."""
    openai = f"{url}/{OPENAI_VERSION}"
    return {
        "OPENAI_BASE_URL": openai,
        "OPENAI_API_BASE": openai,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": OPENAI_MODEL,
        "OPENAI_HOST": url,
        "CODEX_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_MODEL": ANTHROPIC_MODEL,
        "ANTHROPIC_SMALL_FAST_MODEL": ANTHROPIC_MODEL,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": ANTHROPIC_MODEL,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": ANTHROPIC_MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": ANTHROPIC_MODEL,
        "GEMINI_API_KEY": KEY,
        "GOOGLE_API_KEY": KEY,
        "GOOGLE_GENERATIVE_AI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_MODEL": GEMINI_MODEL,
        "GEMINI_DEFAULT_AUTH_TYPE": "gemini-api-key",
        "QWEN_DEFAULT_AUTH_TYPE": "openai",
        "OPENCODE_CONFIG_CONTENT": json.dumps(_opencode(openai)),
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": OPENAI_MODEL,
        "LLM_MODEL": f"openai/{OPENAI_MODEL}",
        "LLM_BASE_URL": openai,
        "LLM_API_KEY": KEY,
        "COPILOT_PROVIDER_BASE_URL": openai,
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": OPENAI_MODEL,
        "KIMI_MODEL_BASE_URL": openai,
        "KIMI_MODEL_API_KEY": KEY,
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_CAPABILITIES": "image_in",
        "KIMI_BASE_URL": openai,
        "KIMI_API_KEY": KEY,
        "KIMI_MODEL_NAME": OPENAI_MODEL,
        "NO_PROXY": LOOPBACK,
        "no_proxy": LOOPBACK,
        **QUIET,
    }


QUIET: Final = {
    # Claude Code: telemetry, error reports, updates and the feedback survey
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # Gemini CLI and Qwen Code
    "GEMINI_TELEMETRY_ENABLED": "false",
    "QWEN_TELEMETRY_ENABLED": "false",
    # OpenCode
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    # Goose: no keyring, no telemetry
    "GOOSE_DISABLE_KEYRING": "1",
    "GOOSE_TELEMETRY_ENABLED": "false",
    # Copilot, Kimi and pi: no other hosts, no updates
    "COPILOT_OFFLINE": "true",
    "KIMI_CODE_NO_AUTO_UPDATE": "1",
    "PI_OFFLINE": "1",
    # LiteLLM, which OpenHands uses, would fetch prices
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Many others
    "DO_NOT_TRACK": "1",
    "POSTHOG_DISABLED": "1",
    "NO_UPDATE_NOTIFIER": "1",
}
"""Variables that turn off what agents send to other hosts: telemetry, updates."""


def _opencode(address: str) -> dict[str, object]:
    model = {
        "name": "Accord's fake model",
        "attachment": True,
        "tool_call": True,
        "modalities": {"input": ["text", "image", "audio", "pdf"], "output": ["text"]},
        "limit": {"context": 200_000, "output": 8_000},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "model": f"accord/{OPENAI_MODEL}",
        "small_model": f"accord/{OPENAI_MODEL}",
        "provider": {
            "accord": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Accord",
                "options": {"baseURL": address, "apiKey": KEY},
                "models": {OPENAI_MODEL: model},
            }
        },
    }
