# memhint: `make demo` shows the main job on real guests, `make test` passes the tests. Both install what is missing.

VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# Hundreds of programs are started: each compiles all that it imports where compiled files may not be kept.
unexport PYTHONDONTWRITEBYTECODE
# The virtualenv has what it needs, and pip puts it there.
unexport PYTHONPATH PYTHONHOME
export PIP_USER := 0

# Whether a machine will do is known before anything is installed on it; what can go side by side, does within a target.
.NOTPARALLEL:

# A package index that does not answer at once is asked again.
export PIP_RETRIES ?= 10
export PIP_TIMEOUT ?= 60

.PHONY: help setup demo demo-openstack test check lint unit pythons functional drill patches patches-full lab containers openstack nova soak bench measurements screenshots sample release-notes clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

preflight-%:
	@$(or $(PYTHON),python3) lab/preflight.py $*

setup:  ## install what is missing: Debian packages and a virtualenv
	@tools/setup $(VENV)

setup-%:
	@tools/setup --for $* $(VENV)

demo: preflight-demo setup-demo  ## real guests give memory back, and more VMs run on it (demo-out/); PATCHED=1 builds the patched pieces first, KEEP=1 leaves it and its dashboard up
	@$(BIN)/python -m lab.demo $(if $(filter 1,$(PATCHED)),--patched) $(if $(filter 0,$(PATCHED)),--stock) $(if $(filter 1,$(KEEP)),--keep)

demo-openstack: preflight-demo-openstack setup-demo-openstack  ## the same on a real OpenStack: Nova lets in what fits; its packages are installed into the cache first
	@$(BIN)/python -m lab.openstack.demo

# Most of a test's time is spent waiting for guests and servers, so a machine bears more of them than it has processors.
AT_ONCE ?= $(shell echo $$(( $$(nproc) + 2 )))
SIDE_BY_SIDE := -q -n $(AT_ONCE) --dist loadscope --durations=25 $(if $(SHUFFLE),--shuffle=$(SHUFFLE))

test: setup  ## unit, functional, adversary and lab tests, and the patch series, several at a time; AT_ONCE=1 for one after another, SHUFFLE=7 for an order by lot within files
	$(MAKE) --no-print-directory lint
	$(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/functional tests/adversary tests/lab tests/patches

check: setup lint  ## the daily round, some three minutes: style, types, unit tests, and the quick half of the functional ones
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow" tests/unit tests/functional

# Whether some of the history is not here; a copy without any says nothing.
SHALLOW = $(shell git rev-parse --is-shallow-repository 2>/dev/null)

lint: setup-unit  ## style, types, the direction of imports, and release notes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=nova_plugin $(BIN)/lint-imports --no-logo 2>/dev/null || PYTHONPATH=nova_plugin $(BIN)/lint-imports
	$(if $(filter false,$(SHALLOW)),$(BIN)/reno -q lint,@echo "release notes: not looked at, for this checkout has not all of its history (git fetch --unshallow)")

unit: setup-unit  ## pure logic, and kernel files as fakes
	$(PYTEST) -q -n $(AT_ONCE) --dist worksteal tests/unit

# Besides the one that the project is developed with.
PYTHONS ?= python3.12 python3.13

pythons:  ## the unit tests with other Pythons, each in a virtualenv of its own; PYTHONS="python3.12 /opt/python/bin/python3.13" for which
	@for one in $(PYTHONS); do \
		command -v "$$one" >/dev/null || { echo "$$one is not here: name others in PYTHONS" >&2; exit 1; }; \
		$(MAKE) --no-print-directory unit PYTHON="$$one" VENV=".venv-$$(basename "$$one")" || exit 1; \
	done

functional: setup  ## real processes and a real store
	$(PYTEST) $(SIDE_BY_SIDE) tests/functional

drill: setup  ## who attacks the fleet, its hosts and its API, whole, and what it costs the others (doc/threat-model.md); on a quiet machine
	MEMHINT_DRILL=1 $(PYTEST) -q --durations=10 tests/adversary

patches: setup  ## guest kernel, QEMU and guest agent: style of each patch, builds, their own tests (minutes; the first time it builds them)
	MEMHINT_CHECK_AGAIN=1 $(PYTEST) $(SIDE_BY_SIDE) tests/patches

patches-full: patches  ## the same, each patch of the kernel as vmlinux, and QEMU with its default features (hours): before a release
	kernel/check
	qemu/check bisect
	qemu/check default

lab: setup  ## real hosts with real guests
	$(PYTEST) $(SIDE_BY_SIDE) tests/lab

containers: setup  ## the images of doc/containers.md, built and run against a real database, broker and lab host, the compose file started by a real Docker, and the Ansible role run on a machine; needs root, buildah, mmdebstrap and the package index (minutes)
	$(PYTEST) -v -s --durations=10 tests/containers

openstack: setup  ## a real OpenStack on lab hosts (lab/openstack/README.md); its packages are installed into the cache first
	$(PYTEST) -v --durations=10 tests/openstack

soak: setup  ## ten minutes of arbitrary messages at a controller and requests at the API: nothing ends, and nothing grows
	MEMHINT_SOAK_SECONDS=600 $(PYTEST) -q -s tests/adversary/test_soak.py

nova: setup  ## the Nova plugin against Nova 31 to 34, each with the whole of Nova in one process (the first time it installs them)
	nova_plugin/check

bench: setup  ## run the benches of doc/measurements.md, hours in all, and write it again (doc/measured-by-tests.md has the commands of all other figures); NAME=density for one, SCALE=full for about an hour each, SCALE=1 at the sizes of the published tests
	$(BIN)/python -m bench $(NAME) --scale $(if $(filter 1,$(SCALE)),seed,$(or $(SCALE),short))

measurements: setup  ## write doc/measurements.md and its pictures again, of what was measured before
	$(BIN)/python -m bench --document

screenshots: setup  ## take the pictures of doc/dashboard.md again
	$(BIN)/python -m tests.functional.dashboard.screenshots doc

sample:  ## write etc/memhint.conf.sample and etc/policy.yaml.sample again
	$(BIN)/oslo-config-generator --config-file etc/memhint-config-generator.conf
	$(BIN)/oslopolicy-sample-generator --config-file etc/memhint-policy-generator.conf

release-notes: setup  ## print what has changed, by version (releasenotes/notes)
	@$(BIN)/reno -q report --no-show-source

clean:  ## remove the virtualenv and what tools left
	rm -rf $(VENV) .venv-python* demo-out .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
