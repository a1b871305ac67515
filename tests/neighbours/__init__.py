"""`make neighbours`: compares what other tools compute from exports with what tinylm computes.

`models.py` draws small models, and writes their exports and what tinylm computes. Each script in `consumers/` reads them
with one tool and compares, in the environment of its group of tools (`environments.py`). `page.py` shows the results.
"""
