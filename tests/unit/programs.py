"""Programs and files that are in no package, as modules."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernel"


def load(file: Path, name: str | None = None) -> ModuleType:
    """A file of Python by its path, whatever its suffix, with what it imports from its folder.

    :param name: of the module, where it is not to be that of the file
    """
    loader = importlib.machinery.SourceFileLoader(name or f"{file.parent.name}_{file.stem}", str(file))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for it
    sys.path.insert(0, str(file.parent))
    try:
        loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module
