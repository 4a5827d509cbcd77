"""Pre-training, in the order of a run.

request     what was asked: the recipe with its changed settings, text, models
starts      the models that a run starts from, each opened once
stores      the store that it is trained on, built from text or opened
assemble    the run, part by part; `train_run` is the whole way
run         what the loop works on
loop        the training loop: one screen, no callbacks
finish      exports, examples, the report

recipe, recipes/  all settings; the TOML files that come with the package
networks, optimizer, schedule, budget, estimate  parts of a run
checkpoint, record, extend, replay  what lies on disk, and what is made of it
compilation, distributed, token_init, heldout, telemetry  the rest
"""
