"""Turns a GGUF file into a Hugging Face model folder: `python -m tasks.model.convert SRC.gguf OUT`.

A process of its own, because it is the one step before the engine that needs torch and transformers. OUT appears
whole or not at all: everything is written beside it and renamed at the end.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

PARTIAL = ".partial-"
"""What stands between OUT's name and a random ending in the name of a folder that is still being written."""

STARTER_GONE = 3
"""The exit code of a conversion that was given up because whoever started it ended."""


def _leave_with_parent() -> None:
    """Ends this process once standard input closes, which happens when whoever started it dies."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(STARTER_GONE)

    threading.Thread(target=wait, daemon=True).start()


def _write_folder(*, source: Path, folder: Path) -> None:
    import torch  # noqa: PLC0415 - seconds of import that `--help` and a wrong argument need not pay
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415 - as above

    # Without `dequantize` transformers keeps the quantized form, which it then refuses to save.
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)

    # The saved weights are plain bfloat16; the entry would make the engine look for GGUF tensors.
    config_path = folder / "config.json"
    config = json.loads(config_path.read_text(encoding="utf-8"))
    config.pop("quantization_config", None)
    config_path.write_text(json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8")


def _fsync(folder: Path) -> None:
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def main(arguments: list[str] | None = None) -> int:
    """Converts. Returns the process's exit code: 0 done (or OUT is there already), 2 for a source that is no file.

    With --stop-on-eof the process ends with code 3 once standard input closes.
    """
    parser = argparse.ArgumentParser(description="Turn a GGUF file into a Hugging Face model folder.")
    parser.add_argument("source", type=Path, metavar="SRC.gguf")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--stop-on-eof", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    source, out = options.source.absolute(), options.out.absolute()
    if not source.is_file():
        sys.stderr.write(f"{source}: no such file\n")
        return 2
    if out.exists():
        return 0
    if options.stop_on_eof:
        _leave_with_parent()

    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=out.name + PARTIAL, dir=out.parent))
    try:
        _write_folder(source=source, folder=partial)
        partial.chmod(0o755)  # mkdtemp makes it for the owner alone
        _fsync(partial)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
