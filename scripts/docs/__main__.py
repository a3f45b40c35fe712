"""Write everything under docs/ that is made from the code, and say what has changed."""

from scripts.docs.pages import DOCS, PAGES


def main() -> None:
    """Write each file that is not as it should be."""
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"Wrote docs/{name}")


if __name__ == "__main__":
    main()
