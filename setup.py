"""The build: pbr reads setup.cfg."""

import setuptools

# Without a compiler or xxhash.h the build goes on, and Python does the same, slowly.
PAGES = setuptools.Extension(
    "memhint.kernel._pages", ["memhint/kernel/_pages.c"], extra_compile_args=["-O3", "-Wall"], optional=True
)

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, ext_modules=[PAGES])
