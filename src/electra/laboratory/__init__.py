"""Experiments with models. Nothing in the core imports it.

analysis    probes of one model or several
ablation    studies: arms over a recipe at equal FLOPs
evaluation  suites of tasks beside published numbers
"""
