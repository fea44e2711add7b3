project = "Meantime"
author = "The Meantime developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "Meantime"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
