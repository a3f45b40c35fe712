"""Installing a clone: the locks agree, a pin is taken out of a lock, and uv gets the index of pip's settings."""

import re
from pathlib import Path

import pytest
from scripts.install import FULL_LOCK, index_of, write_lines

RUN_LOCK = FULL_LOCK.with_name("requirements-run.lock")
LOCK = """\
aiohttp==3.14.5 \\
    --hash=sha256:01
    # via accord-agents
uv==0.13.7 \\
    --hash=sha256:02 \\
    --hash=sha256:03
    # via accord-agents (pyproject.toml:run)
uvicorn==0.54.0 \\
    --hash=sha256:04
"""


def pins(lock: Path) -> dict[str, str]:
    """The version and the hashes of each package, without the comments."""
    text = re.sub(r"^ +#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9-]+)(==(?:.*\\\n)*.*\n)", text, flags=re.MULTILINE))


def test_what_running_needs_is_pinned_as_in_the_full_lock():
    full, run = pins(FULL_LOCK), pins(RUN_LOCK)
    assert {"uvicorn", "typer", "pydantic", "uv"} <= run.keys()
    assert {name: pin for name, pin in run.items() if full.get(name) != pin} == {}
    assert "pytest" not in run


@pytest.mark.parametrize("lock", [FULL_LOCK, RUN_LOCK], ids=["full", "run"])
def test_a_lock_has_hashes_and_no_addresses(lock: Path):
    assert [name for name, pin in pins(lock).items() if "--hash=sha256:" not in pin] == []
    assert "://" not in lock.read_text(encoding="utf-8")


def test_the_pin_of_one_package_is_taken_out_of_a_lock(tmp_path: Path):
    lock = tmp_path / "some.lock"
    lock.write_text(LOCK, encoding="utf-8")
    expected = "uv==0.13.7 \\\n    --hash=sha256:02 \\\n    --hash=sha256:03\n"
    assert write_lines(lock, "uv", tmp_path).read_text(encoding="utf-8") == expected
    with pytest.raises(SystemExit, match="there is no rich; `make lock` writes it"):
        write_lines(lock, "rich", tmp_path)


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ("", {}),
        ("global.extra-index-url='http://a.example/simple'\n", {}),
        (
            ":env:.cert='/ca.pem'\nglobal.index-url='http://a.example/simple'\n",
            {"UV_DEFAULT_INDEX": "http://a.example/simple"},
        ),
        (":env:.index-url='http://b.example/simple'\n", {"UV_DEFAULT_INDEX": "http://b.example/simple"}),
    ],
)
def test_uv_uses_the_index_that_pip_is_configured_for(
    monkeypatch: pytest.MonkeyPatch, settings: str, variables: dict[str, str]
):
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    assert index_of(settings) == variables
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://c.example/simple")
    assert index_of(settings) == {}
