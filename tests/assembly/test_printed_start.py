"""What `accord serve` prints when it has started: the page, the service, and a command."""

import asyncio
import shlex
from pathlib import Path

import pytest

from accord.assembly.service import print_start
from tests.servers.process import accord_serve

ADDRESS = "http://127.0.0.1:8000"
SERVING = f"Serving demo at {ADDRESS} (documentation: {ADDRESS}/docs; stop with Ctrl-C).\n"
KEEPING = "Keeping conversations until they are deleted, receipts of model API calls for 30 days (retention_days).\n"
REPLACE_USER = "Send a request (replace USER by the user of the token in $TOKEN):\n\n"


@pytest.mark.parametrize(
    ("is_open", "has_page", "errors"),
    [
        (True, True, f"Open {ADDRESS}/ in a browser.\n{SERVING}{KEEPING}Send a request:\n\n"),
        (True, False, f"{SERVING}{KEEPING}Send a request:\n\n"),
        (
            False,
            True,
            f"Open {ADDRESS}/ in a browser (it asks for a token).\n{SERVING}{KEEPING}{REPLACE_USER}",
        ),
    ],
)
def test_the_page_comes_first_and_only_the_command_is_on_standard_output(
    capsys: pytest.CaptureFixture[str], is_open: bool, has_page: bool, errors: str
):
    print_start("demo", ADDRESS, is_open=is_open, has_page=has_page)
    printed = capsys.readouterr()
    assert printed.err == errors
    [command] = printed.out.splitlines()
    assert shlex.split(command)[:3] == ["curl", "-N", f"{ADDRESS}/v1/assist"]


def test_the_start_says_how_long_everything_is_kept(capsys: pytest.CaptureFixture[str]):
    print_start("demo", ADDRESS, is_open=True, has_page=False, retention_days=7)
    assert (
        "Keeping conversations and receipts of model API calls for 7 days (retention_days).\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(("config", "has_page"), [("", True), ("[server]\npage = false\n", False)])
def test_a_service_names_its_page_unless_it_has_none(tmp_path: Path, workers: str, config: str, has_page: bool):
    async def run() -> list[str]:
        async with accord_serve(tmp_path, "--workers", workers, config=config) as served:
            await served.until_logged("Send a request")
            return served.log_lines

    lines = asyncio.run(asyncio.wait_for(run(), 40))
    assert any(line.startswith("Open http://127.0.0.1:") for line in lines) is has_page
