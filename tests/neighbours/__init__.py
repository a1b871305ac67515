"""`make neighbours`: models of drawn shapes, exported by tinylm and read by the tools that people read them with.

`models.py` draws and writes the models, with what tinylm computes. Each script in `consumers/` reads them with one tool,
in an environment of its own (`environments.py`), and compares. `page.py` writes what was found.
"""
