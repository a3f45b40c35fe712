"""Write an agent's settings for the fake model into its home folder, then become the agent.

`python start_agent.py SETTINGS COMMAND...`, where SETTINGS is a JSON file with `environ` and `files`. The inspector
starts the fake model and names it in the environment, so its address is known only here: `{url}`, `{key}` and `{model}`
stand for it in the settings and in the command.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Write the files that are missing, and replace this process by the agent."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    home = Path(os.environ["HOME"])
    for name, text in settings["files"].items():
        if not (home / name).exists():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            # Agents are started at the same time; none may read half a file.
            draft = home / f"{name}.{os.getpid()}"
            draft.write_text(fill_in(text), encoding="utf-8")
            draft.replace(home / name)
    command = [fill_in(word) for word in sys.argv[2:]]
    environ = {name: fill_in(text) for name, text in settings["environ"].items()}
    os.execve(command[0], command, {**os.environ, **environ})  # noqa: S606 - the command is ours, and needs no shell


def fill_in(text: str) -> str:
    """Replace the words in braces; a model that is not there has the address of a closed port."""
    known = {
        "{url}": os.environ.get("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
        "{key}": os.environ.get("OPENAI_API_KEY", ""),
        "{model}": os.environ.get("OPENAI_MODEL", ""),
    }
    for word, value in known.items():
        text = text.replace(word, value)
    return text


if __name__ == "__main__":
    main()
