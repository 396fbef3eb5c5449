"""Diagnostics: advice before training, a report on the data and the gradient noise scale after it.

`gradorder` exports the public names. This file imports nothing, because the sampler uses one module of the package and
must not import the scores that the others use.
"""
