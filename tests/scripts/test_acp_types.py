"""The generated models of the Agent Client Protocol are what the script makes of the schemas now."""

import pytest
from scripts.acp_types import TARGET, modules

MODULES = modules()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_what_the_schemas_make(name: str):
    assert (TARGET / name).read_text(encoding="utf-8") == MODULES[name], f"{name} is stale: run make acp-types"
