"""Write everything under docs/ that is made from the code, and print what has changed."""

from scripts.docs.pages import DOCS, PAGES


def main() -> None:
    """Write each file that is not as the code makes it."""
    changed = 0
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"Wrote docs/{name}")
            changed += 1
    print(f"{changed} of {len(PAGES)} generated files have changed")


if __name__ == "__main__":
    main()
