"""Files of deploy/: they parse, what they name exists, and `regard serve` takes their options."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.cli import application

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
INSTRUCTION = re.compile(r"([A-Z]+) ((?:[^\\\n]|\\\n|\\.)*)")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, their continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [
        (name, " ".join(rest.replace("\\\n", " ").split()))
        for name, rest in INSTRUCTION.findall(text)
    ]


def check_command(words: list[str]) -> None:
    """Parse the arguments of `regard serve` as the command line does, without running it."""
    from typer.main import get_command

    command = get_command(application(("serve", "keys"))).commands["serve"]
    with command.make_context("serve", words, resilient_parsing=False) as context:
        assert context.params["run"]


def test_image_copies_what_exists_and_runs_as_nobody() -> None:
    lines = instructions()
    for name, rest in lines:
        if name != "COPY":
            continue
        *sources, target = rest.split()
        if not sources[0].startswith("--from="):
            assert target in ("./", ".ci/", "src")
            assert all((ROOT / source).exists() for source in sources), sources
    values = dict(lines)  # of the last stage, where an instruction occurs twice
    assert values["USER"] == "10001:10001"
    assert values["FROM"] == "python:3.13-slim"
    assert "/healthz" in values["HEALTHCHECK"]
    entry, arguments = yaml.safe_load(values["ENTRYPOINT"]), yaml.safe_load(values["CMD"])
    assert entry[:2] == ["regard", "serve"]
    check_command([*entry[2:], *arguments])


def test_commands_in_comments_are_accepted() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n#", " ")
    commands = re.findall(r"docker run .*? regard (.*)", text)
    assert len(commands) == 2
    for command in commands:
        check_command(shlex.split(command))


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def test_kubernetes_has_probes_limits_and_no_privileges() -> None:
    deployment, service, policy = manifests()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = (deployment["spec"]["selector"], policy["spec"]["podSelector"])
    assert all(selector["matchLabels"] == labels for selector in selectors)
    assert service["spec"]["selector"] == labels
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert {"requests", "limits"} == set(container["resources"])
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert policy["spec"]["egress"] == []
    entry = yaml.safe_load(dict(instructions())["ENTRYPOINT"])
    check_command([*entry[2:], *container["args"]])


def test_prometheus_scrapes_the_port_that_is_served() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8000"]}]


def test_unit_is_hardened_and_its_command_accepted() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / "regard.service")
    service = unit["Service"]
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "regard"
    assert words[1] == "serve"
    check_command(words[2:])


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "regard.service").read_text()
    (tmp_path / "regard.service").write_text(unit.replace("/opt/regard/bin/regard", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "regard.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "regard.service" in done.stderr) == (0, False), done.stderr
