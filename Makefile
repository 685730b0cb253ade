# Everything sets itself up: `make run-topo` and `make test` work in a fresh clone (Debian 12, 13, Ubuntu 22.04, 24.04).

PYTHON := .venv/bin/python
AS_ROOT := tools/scripts/as-root
# The benchmarks and the harnesses of the switch's tests, which are no packages.
WITH_BENCH = env PYTHONPATH=$(CURDIR)/packages/softswitch/bench:$(CURDIR)/packages/softswitch/tests
# What the command line of make sets, and nothing from the environment; `hotline run` refuses names it does not know.
GIVEN = $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
SETTINGS = $(foreach name,$(filter-out PYTHON AS_ROOT,$(GIVEN)),'$(subst ','\'',$(name)=$($(name)))')
SOAK := -m 'soak or hypothesis' --hypothesis-profile soak

.DEFAULT_GOAL := help
.PHONY: help help-dev setup run-topo shell p4 test check clean test-changed durations coverage soak fuzz \
	mutants fresh-root paper map bench evidence costs repeat lock lowest newest

help: ## these targets
	@awk -v mark=@ -f tools/scripts/help.awk Makefile
	@printf '\nmake run-topo WORKERS=8 sets a variable; ./hotline run --help explains them all.\n'
	@printf './hotline --help lists the commands, and make help-dev the other targets.\n'

help-dev: ## the targets for who changes the project
	@awk -v mark=! -f tools/scripts/help.awk Makefile

##@ Run

setup: ## install what is missing: Debian's packages, then .venv
	@tools/scripts/setup

run-topo: setup ## run the experiment; the report is runs/latest/report.html
	@$(AS_ROOT) ./hotline run $(SETTINGS)

##@ Look and change

shell: ## p4runtime-shell on the running switch
	@tools/scripts/shell $(ARGS)

p4: ## compile all P4 programs, as each command does for its own (P4C= names p4c, to compile by it)
	@$(PYTHON) tools/scripts/p4.py $(CALLERS)

##@ Check

test: ## run all tests but long ones, or those that ARGS names (root)
	@tools/scripts/setup test
	@$(AS_ROOT) $(PYTHON) -m pytest -n 3 $(ARGS)

check: ## check style and types
	@tools/scripts/setup test
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check --quiet .
	@$(PYTHON) -m mypy
	@cd packages/softswitch && ../../$(PYTHON) -m mypy

##@ Clean up

clean: ## remove what a killed run left, and caches
	@if [ -x $(PYTHON) ]; then $(AS_ROOT) $(PYTHON) -m topologies.cleanup; fi
	@$(AS_ROOT) find . -name __pycache__ -not -path './.venv/*' -not -path './.*-venv/*' -prune -exec rm -rf {} +
	@$(AS_ROOT) rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build packages/softswitch/build

##! Tests

test-changed: ## the tests that uncommitted changes can affect, or those since a commit (ARGS="--since main")
	@tools/scripts/setup test
	@files=$$($(PYTHON) -m tools.affected $(ARGS)) && [ -z "$$files" ] || $(AS_ROOT) $(PYTHON) -m pytest -n 3 $$files

durations: ## run all tests and record how long they take, by which `make test` shares them among processes
	@tools/scripts/setup test
	@$(AS_ROOT) $(PYTHON) -m pytest -n 3 --record-durations

coverage: ## the tests of the testbed and its packages with their branch coverage, which takes longer
	@tools/scripts/setup test
	@$(PYTHON) tools/scripts/pip_install.py $(PYTHON) --constraint requirements.lock pytest-cov
	@$(AS_ROOT) $(PYTHON) -m pytest -n 3 --cov --cov-report= $(or $(ARGS),tests $(filter-out packages/softswitch,$(wildcard packages/*)))

soak: ## tests that take long: whole experiments, sustained traffic, 100,000 schedules of faults, many random cases
	@tools/scripts/setup test
	@$(AS_ROOT) $(PYTHON) -m pytest -n 3 $(SOAK) $(ARGS)

fuzz: setup ## fuzz the parsers of external input, 10 s each (ARGS="ps --seconds 600")
	@$(PYTHON) -m tools.fuzz $(ARGS)

mutants: setup ## break the code in 200 places a package and count what the tests miss (ARGS="--seed 2 analysis logs")
	@tools/scripts/mutants $(ARGS)

fresh-root: ## run-topo and test in a fresh root of Debian 13 (ARGS="bookworm 'make run-topo'"; needs debootstrap)
	@$(AS_ROOT) /usr/bin/python3 tools/scripts/fresh_root.py $(ARGS)

##! Measurements

paper: setup ## all runs behind the paper's figures and ours, and their report: half an hour, 5 minutes with QUICK=1
	@$(AS_ROOT) $(PYTHON) -m hotline_paper all $(if $(QUICK),--quick) $(ARGS)

map: setup ## when does offload pay? a map over skew and keys a step, with DATA= your own log on it
	@$(AS_ROOT) $(PYTHON) -m hotline_paper map $(if $(QUICK),--quick) $(if $(DATA),--data '$(DATA)') $(ARGS)

bench: setup ## speed of the switch, beside BMv2's where it is installed, and of the agents (ARGS="--quick soak")
	@$(AS_ROOT) $(WITH_BENCH) $(PYTHON) -m tools.bench $(ARGS)

evidence: setup ## make the results that the pages show and that are missing: many hours (ARGS="--list", or names of stages)
	@$(AS_ROOT) $(WITH_BENCH) $(PYTHON) -m tools.evidence $(ARGS)

costs: setup ## fit the simulator's costs of hosts to results/performance.json, which the stage bench makes
	@$(PYTHON) -m tools.host_costs

repeat: setup ## whether runs repeat: 20 short null runs (ARGS=null, half an hour) or 5 default ones (ARGS=default)
	@$(AS_ROOT) $(PYTHON) -m tools.bench.repeat $(ARGS)

##! Dependencies

lock: ## renew requirements.lock, the versions that set-up installs
	@tools/scripts/lock

lowest: ## run tests with the lowest versions of all dependencies, in build/ (ARGS: tests; WITH=python3.10)
newest: ## run tests with the newest versions, beyond the bounds in pyproject.toml, in build/ (as for lowest)
lowest newest:
	@tools/scripts/setup test
	@WITH='$(WITH)' tools/scripts/versions $@ $(ARGS)
