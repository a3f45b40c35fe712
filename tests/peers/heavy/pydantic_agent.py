"""A pydantic-acp agent with pydantic-ai's TestModel, which needs no key; run by the Python of the peers."""

from pydantic_acp import run_acp  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from pydantic_ai import Agent  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from pydantic_ai.models.test import TestModel  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

run_acp(agent=Agent(TestModel(custom_output_text="Hello from a test model."), name="test"))
