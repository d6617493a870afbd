"""Writes every page that comes from the code. Prints the names of those that changed."""

import sys

from flows.reference.pages import DOCS, pages


def main() -> None:
    """Writes what differs from what is there."""
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            sys.stdout.write(f"docs/{name}\n")


if __name__ == "__main__":
    main()
