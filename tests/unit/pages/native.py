"""The compiled loops, built here where they can be: tests run with them and without."""

from __future__ import annotations

import importlib.util
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, Extension

import memhint.kernel

SOURCE = Path(memhint.kernel.__file__).with_name("_pages.c")


@cache
def compiled() -> ModuleType:
    """``_pages.c`` of this tree, whatever the package was installed with."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["-O2", "-Wall", "-Werror"]
        module = Extension("memhint.kernel._pages", [str(SOURCE)], extra_compile_args=flags)
        build = Distribution({"name": "pages", "ext_modules": [module]}).get_command_obj("build_ext")
        build.build_lib, build.build_temp = f"{folder}/lib", f"{folder}/temp"
        build.ensure_finalized()
        build.run()
        (built,) = Path(folder, "lib").rglob("_pages*.so")
        spec = importlib.util.spec_from_file_location("memhint.kernel._pages", built)
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found
