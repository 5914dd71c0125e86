"""
Recording and comparison: does the migrated program compute what the original computes, and if not, where does it part?

``record`` runs a program and writes a trace, ``compare`` judges two traces. Both import on any torch >= 2.1 without
the C++ part of the emulated device, so that a trace can be made on a GPU or MLU machine and carried elsewhere.
Modules:

capture, training, measuring, hooks, collectives, operators, statistics, naming   what is recorded while it runs
trace                                           the records on disk
align, metrics, tolerance, environment, verdict the judgement
locate, coverage, evidence                      which place, which edit
emulated_cuda                                   the default reference: the original program, devices mapped at run time
report, plots, formats                          what people and CI read
"""

from __future__ import annotations
