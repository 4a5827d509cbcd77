#!/usr/bin/env bash
# What made this folder. DATA: the task data; OUT: runs/fourth-light holds rtd, mlm, rtd-2 and mlm-2 of ../2026-11-21-cola-with-six-seeds.
set -euo pipefail
DATA=${DATA:-../shared/data} OUT=${OUT:-runs}
export OMP_NUM_THREADS=1
cd "$(dirname "$0")/../.."
suite() { .venv/bin/electra evaluate "$OUT/fourth-light/rtd" "$OUT/fourth-light/mlm" --random-twin --seeds 3 "$@"; }
suite "$OUT/fourth-light/rtd-2" "$OUT/fourth-light/mlm-2" --suite results/2026-11-22-better-than-mlm-on-tasks/glue-capped.toml --data "$DATA/glue" --out "$OUT/suite-glue"
suite --suite tagging --data "$DATA" --out "$OUT/suite-tagging" --option limit_train=3000 # the last part with --jobs 2
suite --suite squad --data "$OUT/squad-1.1" --out "$OUT/suite-squad" --option limit_train=3000 # links to SQuAD 1.1's files alone
suite --suite squad --data "$OUT/squad-1.1" --out "$OUT/suite-squad-whole" --seeds 1 # all of them: 15 minutes a model on one core
suite --suite squad --data "$OUT/squad-1.1" --out "$OUT/suite-squad-128" --seeds 1 --option max_length=128 --option stride=64 # rtd and mlm were run
suite --suite squad --data "$OUT/squad-2.0" --out "$OUT/suite-squad2" --option limit_train=3000 # links to train-v1.1-sample and dev-v2.0-articles-a, -b
suite --suite superglue-mini --data "$OUT/boolq-alone" --out "$OUT/suite-superglue" # a link to glue/boolq
suite --suite sentences --data "$DATA" --data "$DATA/classification" --data "$DATA/intents" --out "$OUT/suite-sentences" --option limit_train=1000  # its record was not kept
suite --suite babylm --data "$OUT/pairs-alone" --out "$OUT/suite-babylm" --probe-option limit=200 # links to blimp and babylm-supplement
.venv/bin/electra prompt "$OUT/fourth-light/rtd" --task sst2 --data "$DATA/glue/sst-2" --shots 16 --seeds 3 --limit 500 --out "$OUT/prompt-sst2"
# Another learning rate for the MLM on STS-B; another pre-training, at a fifth of the compute (../2026-11-22-how-wide-a-generator)
stsb() { .venv/bin/electra finetune "$1" --task stsb --data "$DATA/glue/sts-b" --out "$2" --limit-train 1500 "${@:3}"; }
stsb "$OUT/fourth-light/mlm" "$OUT/stsb-mlm-3e-4" --learning-rate 3e-4
stsb "$OUT/generator-size/arms/width-0.25/seed-2" "$OUT/stsb-small-rtd"
stsb "$OUT/generator-size/arms/mlm/seed-1" "$OUT/stsb-small-mlm"
.venv/bin/electra prompt "$OUT/fourth-light/rtd" --task mnli --data "$DATA/glue/mnli" --shots 16 --seeds 3 --limit 500 --out "$OUT/prompt-mnli"
# German: de is the discriminator of ../2026-11-22-what-it-knows, de-mlm has its FLOPs
.venv/bin/electra pretrain --store "$OUT/destore" --out "$OUT/de-mlm" --recipe budget-tiny --training.threads 1 --training.log-every 20 --evaluation.rows 512 --training.compile on --training.precision fp32 \
    --objective.name mlm --training.learning-rate 2e-3 --budget 119322878725325flops
.venv/bin/electra evaluate "$OUT/de" "$OUT/de-mlm" --random-twin --seeds 3 --suite results/2026-11-22-better-than-mlm-on-tasks/german.toml --data "$DATA" --data "$DATA/ged" --data "$DATA/ner" --out "$OUT/suite-german"
# Korean
.venv/bin/electra prepare "$DATA/corpora/kowiki.jsonl.zst" --out "$OUT/storeko" --vocab-size 4096
korean() { .venv/bin/electra pretrain --store "$OUT/storeko" --recipe budget-tiny --training.threads 1 --training.log-every 20 --evaluation.rows 512 --training.compile on --training.precision fp32 "$@"; }
korean --out "$OUT/ko" --budget 12Mtokens
korean --out "$OUT/ko-mlm" --objective.name mlm --training.learning-rate 2e-3 --budget 85605148209971flops
.venv/bin/electra evaluate "$OUT/ko" "$OUT/ko-mlm" --random-twin --seeds 3 --suite results/2026-11-22-better-than-mlm-on-tasks/korean.toml --data "$DATA/tasks-ko" --out "$OUT/suite-korean"
# Corrections and disfluencies as minimal pairs
.venv/bin/python results/2026-11-22-better-than-mlm-on-tasks/corrections.py "$DATA" "$OUT/corrections-data"
.venv/bin/electra analyze "$OUT"/fourth-light/{rtd,mlm,rtd-2,mlm-2} --probe minimal_pairs --data "$OUT/corrections-data" --out "$OUT/corrections"
# Whole training sets: CoLA and STS-B (untrained: one seed) were run, one seed of RTE
suite --suite results/2026-11-22-better-than-mlm-on-tasks/glue-whole.toml --data "$DATA/glue" --out "$OUT/suite-whole"
# Electric beside RTD and MLM of equal FLOPs (seed 1 of ../2026-11-22-which-part-helps, same store and recipe), as judges of sentences: scorers/
.venv/bin/electra pretrain --store "$OUT/store2k" --recipe results/2026-11-22-which-part-helps/recipe.toml --objective.name electric --objective.mask-fraction 0.5 \
    --objective.final-mask-fraction 0.15 --budget 4.7245936e13flops --training.threads 1 --out "$OUT/electric"
three=("$OUT/objectives/arms/rtd/seed-1" "$OUT/objectives/arms/mlm/seed-1" "$OUT/electric")
.venv/bin/electra evaluate "${three[@]}" --suite babylm --data "$OUT/pairs-alone" --out "$OUT/suite-scorers" --probe-option limit=200
.venv/bin/electra analyze "${three[@]}" --probe reranking --data "$DATA/asr-nbest" --probe-option sentences=200 --out "$OUT/reranking"
# What is among our data and in no suite of the software's own
suite --suite results/2026-11-22-better-than-mlm-on-tasks/english.toml --data "$DATA" --out "$OUT/suite-english" --option limit_train=1000 --option limit_eval=2000
