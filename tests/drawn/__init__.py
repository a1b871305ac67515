"""Properties of drawn runs; CONTRIBUTING.md says how they are used."""

import os

# Threads that wait by spinning take the processor from the other processes of a search. Read when torch is imported.
os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
