# Every target sets up its environment by itself and installs only when a pyproject.toml or constraints.txt has changed.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
BENCH_PYTHON := $(BENCH_VENV)/bin/python
# The laboratory is a distribution of its own, always installed beside the library of the same version.
LAB := --editable lab
PEERS := opacus==1.6.0 backpack-for-pytorch==1.7.1 cleanlab==2.9.0 dattri-llm==0.1.0
PEERS_NEED := opt_einsum scipy einops unfoldNd pandas termcolor tqdm
WORKERS ?= 2
OUT ?= runs
# Bytecode is kept in the environment, not beside the sources, also where the shell forbids it there.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
# The tests of a file share what they have started; no test measures wall time, so two files may run side by side.
# A worker that crashes is not replaced: the run fails at once, where it would wait for the new one for ever.
SIDE_BY_SIDE := --numprocesses $(WORKERS) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help reproduce results test quick elsewhere floor newest lint docs generated check format bench zoo soak dist clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12

reproduce: $(VENV)/.installed-lab  ## run the paper's experiments; verdicts here, page in runs/ (OUT=DIR to change)
	$(BIN)/gradorder reproduce --out $(OUT)

test: $(VENV)/.installed-dev  ## run every test (doctests, README, the site), two at a time (WORKERS=N); installs chromium first, with sudo if it must
	@scripts/install_browser.sh
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --durations 20 --durations-min 5

quick: $(VENV)/.installed-dev  ## run the library's own tests but the slow ones, fewer cases of every property: before a commit
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" --durations 5 --durations-min 1 tests/gradorder

elsewhere: $(VENV)/.installed-dev  ## run the sensitive tests as on other machines: processors, threads, locales, paths (tests/elsewhere.toml)
	$(BIN)/python scripts/elsewhere.py --workers $(WORKERS)

floor: .venv-floor/.installed  ## run the library's tests with the oldest versions that pyproject.toml allows (downloads gigabytes)
	.venv-floor/bin/python -m pytest $(SIDE_BY_SIDE) --ignore tests/gradorder/integrations/test_trl.py tests/gradorder

newest: .venv-newest/.installed  ## run the library's tests with the newest version of everything (PYTHON=python3.N; downloads gigabytes)
	.venv-newest/bin/python -m pytest $(SIDE_BY_SIDE) tests/gradorder

lint: $(VENV)/.installed-dev  ## format check, lint, strict types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev  ## build the documentation in site/; a broken link or reference is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

generated: $(VENV)/.installed-dev  ## write from results/ what README and docs say of them, and draw their pictures
	$(BIN)/python scripts/generated.py
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/pictures.py

check: lint test  ## everything that CI runs

format: $(VENV)/.installed-dev  ## format and fix what can be fixed by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

results: $(VENV)/.installed-lab  ## run every experiment at the size of two cores (hours) and keep its summary in results/
	$(BIN)/gradorder reproduce --size cpu --out $(OUT)/cpu
	$(BIN)/python -m gradorder_lab.runs.shipped results/lab.parquet $(OUT)/cpu results/lab.parquet

bench: $(BENCH_VENV)/.installed  ## measure speed and memory as ratios, peers included; writes results/
	$(BENCH_PYTHON) benchmarks/sampler.py
	$(BENCH_PYTHON) benchmarks/scores.py
	$(BENCH_PYTHON) benchmarks/gradient_norm.py
	$(BENCH_PYTHON) benchmarks/score_dataset.py
	$(BENCH_PYTHON) benchmarks/bounds.py
	$(BENCH_PYTHON) benchmarks/sklearn_epochs.py
	$(BENCH_PYTHON) benchmarks/neural_training.py
	$(BENCH_PYTHON) benchmarks/label_errors.py

zoo: $(VENV)/.installed-dev  ## try the gradient norms on every architecture of the zoo; writes the table of docs/zoo.md
	$(BIN)/python tests/support/zoo_table.py

soak: $(VENV)/.installed-dev  ## kill, interrupt and resume a few hundred times; writes results/reliability.csv
	$(BIN)/python benchmarks/soak.py

dist: .venv-release/.installed  ## build both distributions, check them, try the wheels in an empty environment (CONTRIBUTING.md: a release)
	scripts/dist.sh .venv-release/bin

clean:  ## remove the environment and what was run
	rm -rf $(VENV) $(BENCH_VENV) .venv-floor .venv-newest .venv-release .venv-empty $(OUT) dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# What pip says is shown only if it fails. Bytecode is made of what is imported, when it is: of all of torch it takes a minute.
installed = $(1) -m pip install --disable-pip-version-check --no-compile $(2) >$(@D)/install.log 2>&1 || { cat $(@D)/install.log >&2; exit 1; }

# One rule for every extra: the stamp is written last, so a broken install is tried again.
$(VENV)/.installed-%: pyproject.toml lab/pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), once: this takes a minute or two ..."
	@$(call installed,$(BIN)/python,--constraint constraints.txt --editable '.[$*]' $(LAB))
	@touch $@

# The peers that the benchmarks compare with, apart from what the tests run with. They come without what they ask for,
# a torchvision among it that nothing here needs; what they do need is named.
$(BENCH_VENV)/.installed: pyproject.toml lab/pyproject.toml constraints.txt | $(BENCH_PYTHON)
	@echo "Installing into $(BENCH_VENV), once: this takes a minute or two ..."
	@$(call installed,$(BENCH_PYTHON),--constraint constraints.txt --editable '.[transformers]' $(LAB))
	@$(call installed,$(BENCH_PYTHON),--constraint constraints.txt $(PEERS_NEED))
	@$(call installed,$(BENCH_PYTHON),--no-deps $(PEERS))
	@touch $@

# A torch other than the pinned one comes with CUDA: neither of these is part of CI; both are run before a release.
# The laboratory asks for a newer numpy than the library: its models, which the library's tests look at, do not need it.
LIBRARY := --editable '.[progress,sklearn,lightning,accelerate,transformers]'
TOOLS := hypothesis pandas pillow pytest pytest-timeout pytest-xdist torchdata

.venv-floor/.installed: pyproject.toml lab/pyproject.toml constraints-floor.txt | .venv-floor/bin/python
	@echo "Installing into .venv-floor, once: some gigabytes ..."
	@$(call installed,.venv-floor/bin/python,--constraint constraints-floor.txt $(LIBRARY) $(TOOLS))
	@$(call installed,.venv-floor/bin/python,--no-deps $(LAB))
	@touch $@

.venv-newest/.installed: pyproject.toml lab/pyproject.toml | .venv-newest/bin/python
	@echo "Installing into .venv-newest, once: some gigabytes ..."
	@$(call installed,.venv-newest/bin/python,--upgrade $(LIBRARY) $(LAB) --editable '.[trl]' $(TOOLS))
	@touch $@

# Apart from what the tests run with, which need none of it.
.venv-release/.installed: constraints.txt | .venv-release/bin/python
	@$(call installed,.venv-release/bin/python,--constraint constraints.txt build twine)
	@touch $@

$(BIN)/python $(BENCH_PYTHON) .venv-floor/bin/python .venv-newest/bin/python .venv-release/bin/python:
	@test -n "$(PYTHON)" || { echo "gradorder needs Python 3.11 or newer: none found on PATH (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -m venv $(@:/bin/python=)
