#!/usr/bin/env bash
# Everything behind README.md in this folder. DATA holds the shared corpora and tasks; OUT receives the runs.
# On two cores this took about two hours; the runs were trained with one thread each, two side by side.
set -euo pipefail
DATA=${DATA:-../shared/data} OUT=${OUT:-runs/first-light}
export OMP_NUM_THREADS=1
cd "$(dirname "$0")/../.."
electra() { .venv/bin/electra "$@"; }
train() { electra pretrain --store "$OUT/store" --out "$OUT/$1" --training.threads 1 --training.log-every 20 --evaluation.rows 512 "${@:2}"; }

electra prepare "$DATA"/corpora/enwiki-2015.{0,1,2}.jsonl.zst --out "$OUT/store" --vocab-size 8192

# Each MLM run has the FLOPs of the RTD run above it, as the paper's script counts them.
train budget-rtd --recipe budget-tiny --budget 15.2Mtokens
train budget-mlm --recipe budget-tiny --objective.name mlm --training.learning-rate 2e-3 --budget 1.5118e14flops
train tiny-rtd --recipe tiny --budget 15Mtokens
train tiny-mlm --recipe tiny --objective.name mlm --budget 2.00419e14flops

finetune() { electra finetune "$OUT/$1" --out "$OUT/finetuned/$2-$3" --task "$3" --data "$DATA/glue/$4" --seeds 3 "${@:5}"; }
for model in budget-rtd budget-mlm tiny-rtd tiny-mlm; do
    finetune $model $model sst2 sst-2 --limit-train 6000
    finetune $model $model cola cola
done
for model in budget-rtd tiny-rtd; do  # the same architectures with fresh weights
    finetune $model random-of-$model sst2 sst-2 --limit-train 6000 --init random
    finetune $model random-of-$model cola cola --init random
done
.venv/bin/python results/collect.py results/2026-11-21-leaves-the-plateau "$OUT" budget-rtd budget-mlm tiny-rtd tiny-mlm
