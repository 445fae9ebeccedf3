"""The OpenAPI document of a real server is true: schemathesis sends what it allows and forbids."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = 8  # of each operation
SECONDS = 60
# Some valid requests are refused for reasons that a schema cannot say, as an unknown model or a
# language that is not translated. Starlette's Allow header has the methods of one route of a path.
NOT_CHECKED = "positive_data_acceptance,allow_header_conformance"


def test_answers_are_as_documented_and_never_failures(server, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run"]
    command += [f"{server.url}/openapi.json", "--exclude-checks", NOT_CHECKED]
    command += ["--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1"]
    command += ["--continue-on-failure", "--no-shrink", "--warnings", "off"]
    command += ["--request-timeout", "30"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout[:8000]


def test_document_names_the_protocols_and_loads_nothing_from_elsewhere(server) -> None:
    document = server.client.get("/openapi.json").json()
    assert document["info"]["title"] == "Regard"
    tags = {
        tag
        for operations in document["paths"].values()
        for operation in operations.values()
        for tag in operation["tags"]
    }
    assert tags == {"OpenAI", "LibreTranslate", "DeepL", "Hugging Face", "operations"}
    assert {tag["name"] for tag in document["tags"]} == tags
    assert all(tag["description"] for tag in document["tags"])
    for path in ("/docs", "/redoc"):  # their scripts would come from another host
        assert server.client.get(path).status_code == 404
