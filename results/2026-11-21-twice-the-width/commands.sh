#!/usr/bin/env bash
# Everything behind README.md in this folder. DATA holds the shared corpora and tasks; OUT receives the runs.
# Two cores (AVX512-BF16, no AMX), one thread a run, two runs side by side, on a machine that others used too.
set -euo pipefail
DATA=${DATA:-../shared/data} OUT=${OUT:-runs/second-light}
export OMP_NUM_THREADS=1
cd "$(dirname "$0")/../.."
electra() { .venv/bin/electra "$@"; }
train() { electra pretrain --store "$OUT/store" --out "$OUT/$1" --recipe budget-tiny --model.size mini --training.threads 1 --training.log-every 20 --evaluation.rows 512 "${@:2}"; }

electra prepare "$DATA"/corpora/enwiki-2015.{0,1,2}.jsonl.zst --out "$OUT/store" --vocab-size 8192
train mini-rtd --budget 16Mtokens
train mini-mlm --objective.name mlm --training.learning-rate 2e-3 --budget 4.29196e14flops  # the FLOPs of mini-rtd

# The learning rate of each arm is chosen on a tenth of the training data (one seed), which is then the split of nothing else.
tune() { electra finetune "$OUT/$2" --task "$3" --data "$4" --learning-rate "$5" --out "$OUT/tuned/$1-$3-$5" "${@:6}"; }
for rate in 5e-4 1e-3 2e-3; do
    for arm in mini-rtd mini-mlm; do
        tune $arm $arm sst2 "$DATA/glue/sst-2/train.tsv.gz" $rate --limit-train 6000
        [ $rate = 5e-4 ] || tune $arm $arm cola "$DATA/glue/cola/train.tsv.gz" $rate
    done
    tune random mini-rtd sst2 "$DATA/glue/sst-2/train.tsv.gz" $rate --limit-train 6000 --init random
    [ $rate = 5e-4 ] || tune random mini-rtd cola "$DATA/glue/cola/train.tsv.gz" $rate --init random
done

# CoLA at one rate for all: on 856 sentences one seed's differences between rates are noise.
final() { electra finetune "$OUT/$2" --task "$3" --data "$DATA/glue/$4" --seeds 3 --learning-rate "$5" --out "$OUT/finetuned/$1-$3" "${@:6}"; }
final mini-rtd mini-rtd sst2 sst-2 2e-3 --limit-train 6000
final mini-mlm mini-mlm sst2 sst-2 2e-3 --limit-train 6000
final random mini-rtd sst2 sst-2 5e-4 --limit-train 6000 --init random
final mini-rtd mini-rtd cola cola 1e-3
final mini-mlm mini-mlm cola cola 1e-3
final random mini-rtd cola cola 1e-3 --init random

# What every position knows: linear probes on the frozen encoders (the transfer panel of the studies).
.venv/bin/python benchmarks/panel.py "$DATA" "$OUT/mini-rtd" "$OUT/mini-mlm"
.venv/bin/python results/collect.py results/2026-11-21-twice-the-width "$OUT" mini-rtd mini-mlm
