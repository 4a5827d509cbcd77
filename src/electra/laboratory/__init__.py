"""Experiments with models. Nothing in the core imports this package.

analysis    probes of one or several models
ablation    studies: arms over a recipe at equal FLOPs
evaluation  suites of tasks
"""
