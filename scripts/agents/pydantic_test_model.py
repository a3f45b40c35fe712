"""A pydantic-ai agent with its TestModel, served by pydantic-acp as its documentation shows."""

# pyright: basic, reportMissingImports=false
from pydantic_acp import run_acp
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

if __name__ == "__main__":
    run_acp(Agent(TestModel(), name="pydantic-acp-test-model"))
