"""The programs of kernel/, which have no suffix, as modules."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "kernel"


def load(name: str) -> ModuleType:
    """A program by its name, with what it imports from its folder."""
    sys.path.insert(0, str(FOLDER))
    try:
        loader = importlib.machinery.SourceFileLoader(f"kernel_{name}", str(FOLDER / name))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
