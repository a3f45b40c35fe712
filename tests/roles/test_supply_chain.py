"""The bill of materials: `make sbom` lists what the package installs, with hashes."""

import json

from tests.roles.install import ROOT, run

LIBRARY = {"jsonschema-rs", "msgspec", "pydantic"}
TOOLS = {"pytest", "ruff", "cyclonedx-bom"}


def test_the_bill_of_materials_has_the_libraries_with_hashes_and_no_development_tools():
    run("make", "sbom")
    bill = json.loads((ROOT / "build" / "sbom.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "accord-agents")
    names = {each["name"] for each in bill["components"]}
    assert names >= LIBRARY | {"starlette", "asyncpg", "pillow"}
    assert names & TOOLS == set()
    without = [each["name"] for each in bill["components"] if not each["externalReferences"][0]["hashes"]]
    assert without == []
