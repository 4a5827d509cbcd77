# Everything runs in .venv, which `make setup` makes and keeps up to date with pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
export TOKENIZERS_PARALLELISM := false
# Tests start hundreds of processes, which need not compile the package anew
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup setup-locked lock quickstart check test test-slow test-reliability test-portable test-mutations test-pythons \
	test-oldest test-package release-check docs dist audit bench bench-scale clean distclean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	@echo "Making .venv: about two minutes, most of them for PyTorch"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# The same from requirements.lock: every version given, every file compared with its hash. Except torch's, as the CPU
# build is another file in every index.
setup-locked:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip check --disable-pip-version-check
	@touch .venv/.installed

# requirements.lock anew, with the newest versions that pyproject.toml and constraints.txt allow.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	.venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes --extra dev --build-deps-for editable \
		--constraint constraints.txt --unsafe-package torch --allow-unsafe --strip-extras \
		--no-header --no-annotate --no-emit-options --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file .venv-lock/found pyproject.toml
	sed -n '/^[^#]/q; p' requirements.lock > .venv-lock/lock
	sed '/^# The following packages/,$$d' .venv-lock/found | sed '$${/^$$/d}' >> .venv-lock/lock
	mv .venv-lock/lock requirements.lock
	head -1 .github/release.lock > .venv-lock/lock
	echo 'twine==7.0.0' | .venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
		--no-header --no-annotate --no-emit-options --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file .venv-lock/twine -
	cat .venv-lock/twine >> .venv-lock/lock
	mv .venv-lock/lock .github/release.lock

# A few minutes: trains tiny-en, the included model, further on the prose of Python's own documentation.
BUDGET ?= 3m
quickstart: setup
	$(BIN)/electra detect tiny-en "This method returns a tuple of the keys in the dictionary."
	$(BIN)/electra pretrain --recipe continue --init tiny-en --objective.name rtd_mlm --corpus python-docs --data.heldout 0.02 --out runs/quickstart --budget $(BUDGET)
	$(BIN)/electra show runs/quickstart "The function returns a list of the names in the current scope."
	$(BIN)/electra detect runs/quickstart "This method returns a tuple of the keys in the dictionary."
	$(BIN)/electra detect runs/quickstart "The function returns a list of the names in the current elephant."
	@echo
	@echo "The word that does not belong is in brackets. The lines 'held-out at step' say what the $(BUDGET) brought; the page"
	@echo "with the curves is runs/quickstart/report.html. To try next, activate .venv (source .venv/bin/activate), then"
	@echo "  electra serve runs/quickstart                       # the model in your browser"
	@echo "  electra finetune small-en --task classification --data YOURS.csv --out runs/labels    # a classifier from a csv"
	@echo "  electra pretrain YOUR_TEXTS/ --out runs/mine --budget 30m                             # an encoder of your own"

ORDINARY = not slow and not reliability and not cuda and not package

# The tests that take seconds. `make check FAST=` leaves them to `make test`, which runs all.
FAST ?= tests/core tests/model tests/objectives
check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(if $(FAST),OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "$(ORDINARY)" $(FAST))

test: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m "$(ORDINARY)"

# Whole journeys, tutorials and many processes side by side.
test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "slow and not reliability"

test-reliability: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -m reliability --timeout 3600

# The numerical tests under instruction sets that torch can be held to, and with several threads.
NUMERICAL = tests/model tests/objectives tests/golden tests/training/test_optimizer.py tests/training/test_reduction.py \
	tests/analysis/scoring tests/analysis/representations tests/interop/test_huggingface.py
test-portable: setup
	for setting in "default 1" "avx2 1" "avx512 1" "avx512 2" "avx512 4"; do set -- $$setting; \
		ATEN_CPU_CAPABILITY=$$1 OMP_NUM_THREADS=$$2 $(BIN)/pytest -m "not reliability and not cuda" $(NUMERICAL) || exit 1; \
	done

# Plants faults one at a time and runs the tests that must notice; half an hour.
test-mutations: setup
	$(BIN)/python tests/mutations.py

# The core, model and data tests with the oldest versions that pyproject.toml allows (of what they need; torch
# excepted), on its oldest Python. transformers 5.0 asks for protobuf, and makes tokenizers 0.22 warn; with pyparsing 3.3,
# matplotlib 3.9 warns.
OLDEST ?= python3.11
test-oldest:
	$(OLDEST) -m venv .venv-oldest
	grep -oE '"[a-z-]+>=[0-9.]+"' pyproject.toml | tr -d '"' | sed '/^torch>/d; s/>=/==/' > .venv-oldest/constraints
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -c .venv-oldest/constraints \
		-e '.[report,notebook,data]' pytest pytest-timeout hypothesis protobuf 'pyparsing<3.3'
	OMP_NUM_THREADS=1 .venv-oldest/bin/pytest -p no:cacheprovider -m "$(ORDINARY)" \
		-W "ignore:Deprecated in 0.9.0:DeprecationWarning" \
		tests/core tests/model tests/artifacts tests/data --ignore tests/data/test_tokenizer.py

# Install and core tests under each Python that is here, in a .venv-VERSION of its own.
PYTHONS ?= 3.11 3.12 3.13
test-pythons:
	@for version in $(PYTHONS); do \
		python=$$(command -v python$$version) && $$python -c 'import ensurepip' 2> /dev/null \
			|| { echo "python$$version: not on this machine"; continue; }; \
		echo "python$$version: $$python"; \
		$$python -m venv .venv-$$version \
			&& .venv-$$version/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' \
			&& OMP_NUM_THREADS=1 .venv-$$version/bin/pytest tests/core || exit 1; \
	done

# The site, in build/site: every link is checked, and nothing is loaded from elsewhere.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Wheel and source distribution, in dist/.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# Both of them installed in a fresh environment without any extra, and used there; minutes.
test-package: dist
	$(BIN)/pytest -m package --timeout 1800 tests/core/test_package.py

# Before a tag: these tests, and whether an index can show and people can use what dist/ holds, outside this folder.
release-check: test-package
	$(BIN)/python docs/site/check_release.py

# Licences of all that is installed here; and known vulnerabilities of what requirements.lock names, from the network.
audit: setup
	$(BIN)/pip-licenses --from=mixed --order=license
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --requirement requirements.lock --disable-pip --no-deps

bench: setup
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/pretrain.py --rounds 3 --seconds 3 --batch 8
	$(BIN)/python benchmarks/detect.py --sentences 3000

# Memory over the size of the text and over the steps, with slopes; updates of several processes and of two nodes.
bench-scale: setup
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/processes.py

# What was built. `distclean` also removes the environments, which take minutes to make.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache

distclean: clean
	rm -rf .venv .venv-3.* .venv-lock .venv-oldest
