"""The files of the checkout that people write: no build trees, nothing hidden but .ci."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _is_ours(name, top):
    if top and (name.startswith("build") or name == "out"):
        return False
    return name == ".ci" or not (name.startswith(".") or name == "__pycache__")


def source_files():
    """Yields paths relative to ROOT, sorted within each folder."""
    for folder, subfolders, names in os.walk(ROOT):
        top = pathlib.Path(folder) == ROOT
        subfolders[:] = sorted(name for name in subfolders if _is_ours(name, top))
        for name in sorted(names):
            if not name.startswith("."):
                yield (pathlib.Path(folder) / name).relative_to(ROOT)
