# make repro     set up everything, then run the pipeline (STAGE=train: up to there)
# make quick     the same in less time, with a worse model: preset quick; back with: tinylm preset storybook
# make test      set up everything, then run the tests that a change usually breaks (aim: 2 minutes on two quiet cores)
# make test-all  those, then the rest
# make any       draw legal runs on all cores for MINUTES=60, and check what must hold for each
# make neighbours: what other tools compute with our exports of small models drawn at random (TOOLS="tokenizers_alone": these)
# make lint      format, style and types
# make size      lines and density of each package, and the budgets of ARCHITECTURE.md
# make deps      write the code that each stage depends on into dvc.yaml
# make pages     write the generated pages, then the documentation as a site: site/index.html
# make story     execute the page docs/tutorial/one-story.md and write its outputs into it
# make pictures  every picture of docs/pictures, after make repro (needs Debian's Chromium)
# make golden    a small pipeline in 6 variants: every result equal to that of the state recorded before (.golden.json)
# make coverage  branch coverage of the tests, every process counted
# make bench     every benchmark, with its peers (LINES="training one_prompt": these; NANOGPT=../nanoGPT: a clone)
# make bench-gpu a CUDA card: tests and measurements (NANOGPT=../nanoGPT: a clone)
PYTHON ?= python3
# Relative in commands, since make parts words at spaces, which the path of this folder may hold.
BIN := .venv/bin
# Not /bin/sh, which macOS's make 3.81 passes over for simple commands: it would look for them outside .venv.
SHELL := bash
export PATH := $(if $(filter /%,$(BIN)),$(BIN),$(CURDIR)/$(BIN)):$(PATH)
# PYTHONDONTWRITEBYTECODE, which container images set, would have every process parse torch again.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME PYTHONSAFEPATH GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_PREFIX

# Each of two processes starts with half of the tests, and takes half of what the other has left when it is done.
PYTEST := pytest -n 2 --dist worksteal --durations 15

.PHONY: setup unmoved repro quick story pictures test test-all any neighbours lint size deps golden coverage pages peers bench bench-gpu clean

setup: .venv/.ready

# $(call step,WHAT,COMMAND): says what is done, does it, says how long it took
step = @printf '%s ... ' '$(1)'; begun=$$(date +%s); $(2) || { code=$$?; echo 'failed'; exit $$code; }; echo "$$(($$(date +%s) - begun)) s"
TORCH = torch==2.13.0
# Nothing is left to resolve: every package is pinned, with its hash. Modules are compiled when they are first used.
PIP = $(BIN)/python -m pip install --disable-pip-version-check --no-compile
UV = uv pip install --python $(BIN)/python
# $(call install,OPTIONS,UV'S OPTIONS): by uv where it is installed, else by pip. pip's lines become a count of packages,
# and its last ones are shown if it fails. uv does not read pip's settings, so pip is tried if uv fails.
install = { command -v uv > /dev/null && $(UV) --quiet $(1) $(2) 2> /dev/null; } || { $(PIP) $(1) 2>&1; echo "exit $$?"; } | awk '\
	/^exit / { code = $$2; next } \
	{ line[NR % 15] = $$0 } \
	/^(Collecting|Processing) / && ++count % 20 == 0 { printf "%d ", count; fflush() } \
	END { if (code) for (i = NR; i < NR + 15; i++) print line[i % 15] > "/dev/stderr"; exit code }'

# The commands in .venv/bin name the folder that they were installed in: in a copy they would run the code over there.
MOVED = the folder was moved or copied: rm -r .venv, then make setup
MADE_IN = sed -n 's|^command = .* -m venv [^/]*/|/|p' .venv/pyvenv.cfg 2>/dev/null
unmoved:
	@made=$$($(MADE_IN)); test -z "$$made" || test "$$made" -ef .venv || { echo '$(MOVED)' >&2; exit 2; }

.venv/.ready: pyproject.toml requirements.txt tinylm/report/offline_page.py | unmoved
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"Python {v[0]}.{v[1]} is too old: 3.11 or newer is needed (make PYTHON=python3.11)" if v < (3, 11) else 0)'
	$(call step,setup 1/4: environment .venv,$(PYTHON) -m venv .venv)
	$(call step,setup 2/4: some 130 packages,$(call install,--no-deps --require-hashes -r requirements.txt))
	$(call step,setup 3/4: torch,$(call install,$(TORCH),--torch-backend auto))
	$(call step,setup 4/4: tinylm,{ $(call install,--no-deps -e .); } && $(BIN)/python -m tinylm.report.offline_page .dvc/plots_page.html && $(BIN)/dvc config --quiet --local plots.html_template plots_page.html)
	@touch $@

# What the tests and make lint need in addition.
.venv/.ready-dev: .venv/.ready requirements-dev.txt
	$(call step,setup for tests: 30 packages,$(call install,--no-deps --require-hashes -r requirements-dev.txt))
	@touch $@

repro: setup
	@python -m tinylm.cli check
	dvc repro $(STAGE)

quick: setup
	@python -m tinylm.cli preset quick
	dvc repro

story: .venv/.ready-dev
	python -m tests.support.literate

pictures: .venv/.ready-dev
	python -m tests.pictures

golden: .venv/.ready-dev
	python -m tests.golden.run

# The site's folder has the pages where the links between them expect them.
PAGES = ':(glob)*.md' ':(glob)*/README.md' CITATION.cff docs

pages: .venv/.ready-dev .venv-pages/.ready
	python -m tests.support.pages
	rm -rf .pages && mkdir .pages
	git ls-files -z -co --exclude-standard -- $(PAGES) | tar --null -T - -cf - | tar -xf - -C .pages
	NO_MKDOCS_2_WARNING=1 .venv-pages/bin/mkdocs build --strict --quiet
	@echo 'site/index.html; with search: python -m http.server -d site'

.venv-pages/.ready: requirements-pages.txt
	$(PYTHON) -m venv .venv-pages
	.venv-pages/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-pages.txt
	@touch $@

# Tools that are compared with tinylm.
peers: .venv/.ready-peers

.venv/.ready-peers: benchmarks/requirements.txt .venv/.ready-dev
	python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

bench: peers
	python -m benchmarks $(if $(NANOGPT),--nanogpt $(NANOGPT)) $(LINES)

bench-gpu: setup
	bash benchmarks/gpu.sh benchmarks/gpu

coverage: export COVERAGE_FILE := $(CURDIR)/.coverage
coverage: .venv/.ready-dev
	coverage erase
	coverage run -m $(PYTEST)
	coverage combine --quiet
	coverage report --fail-under=95

test: .venv/.ready-dev
	$(PYTEST) -m "not full"

# These take seconds to minutes each. A process gets only one test ahead, so that both end at about the same time.
test-all: test
	$(PYTEST) --dist load --maxschedchunk 1 -m full

MINUTES = 60

any: .venv/.ready-dev
	OPENBLAS_NUM_THREADS=1 python -m tests.drawn --minutes $(MINUTES)

neighbours: .venv/.ready-dev
	python -m tests.neighbours $(if $(TOOLS),--tools $(TOOLS))

deps: .venv/.ready-dev
	python -m tests.support.closure

size: .venv/.ready-dev
	python -m tests.support.size

lint: .venv/.ready-dev
	ruff format --check .
	ruff check .
	mypy

clean:
	rm -rf .venv .venv-pages .venv-neighbours-* .pages site .bench data models report runs dvc_plots
