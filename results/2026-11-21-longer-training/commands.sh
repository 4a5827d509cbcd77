#!/usr/bin/env bash
# Everything behind README.md in this folder. DATA holds the shared corpora and tasks; OUT receives the runs.
# Two cores (AVX512-BF16, no AMX), one thread a run, two runs side by side, on a machine that others used too.
set -euo pipefail
DATA=${DATA:-../shared/data} OUT=${OUT:-runs/third-light}
export OMP_NUM_THREADS=1
cd "$(dirname "$0")/../.."
electra() { .venv/bin/electra "$@"; }
train() { electra pretrain --store "$OUT/store" --out "$OUT/$1" --recipe budget-tiny --training.threads 1 --training.log-every 20 --evaluation.rows 512 --training.compile on "${@:2}"; }

electra prepare "$DATA"/corpora/enwiki-2015.{0,1,2}.jsonl.zst --out "$OUT/store" --vocab-size 8192
train long-rtd --budget 36Mtokens
train long-mlm --objective.name mlm --training.learning-rate 2e-3 --budget 358050113047756.75flops  # the FLOPs of long-rtd

# arm, run, options
finetune() { electra finetune "$OUT/$2" --out "$OUT/finetuned/$1" "${@:3}"; }
for arm in long-rtd long-mlm random; do
    run=$arm fresh=()
    [ $arm = random ] && run=long-rtd fresh=(--init random)
    finetune $arm-sst2-1e-3 $run --task sst2 --data "$DATA/glue/sst-2" --seeds 3 --learning-rate 1e-3 --limit-train 6000 "${fresh[@]}"
    finetune $arm-cola-1e-3 $run --task cola --data "$DATA/glue/cola" --seeds 3 --learning-rate 1e-3 "${fresh[@]}"
    finetune $arm-cola10-5e-4 $run --task cola --data "$DATA/glue/cola" --seeds 1 --learning-rate 5e-4 --epochs 10 "${fresh[@]}"
    finetune $arm-cola10-5e-4-b $run --task cola --data "$DATA/glue/cola" --seed 1 --seeds 2 --learning-rate 5e-4 --epochs 10 "${fresh[@]}"
    # All of SST-2: seed 0, then seeds 1 and 2
    finetune $arm-sst2full-1e-3 $run --task sst2 --data "$DATA/glue/sst-2" --seeds 1 --batch-size 64 --learning-rate 1e-3 "${fresh[@]}"
    finetune $arm-sst2full-1e-3-b $run --task sst2 --data "$DATA/glue/sst-2" --seed 1 --seeds 2 --batch-size 64 --learning-rate 1e-3 "${fresh[@]}"
    finetune $arm-pos $run --task pos --data "$DATA/ud-english-ewt" --seeds 3 --learning-rate 1e-3 --limit-train 1000 --epochs 5 "${fresh[@]}"
done
.venv/bin/python benchmarks/panel.py "$DATA" "$OUT/long-rtd" "$OUT/long-mlm"
.venv/bin/python results/collect.py results/2026-11-21-longer-training "$OUT" long-rtd long-mlm

# What it knows: every probe, then human errors once more beside a fine-tuned detector. The .probe.json files are in probes/.
finetune long-rtd-ged long-rtd --task ged --data "$DATA/ged/fce-rei" --learning-rate 1e-3 --limit-train 8000 --epochs 2
electra analyze "$OUT/long-rtd" "$OUT/long-mlm" --probe all --probe-option minimal_pairs.limit=50 --data "$DATA" --out "$OUT/probes"
electra analyze "$OUT/long-rtd" --probe errors --probe-option errors.detector="$OUT/finetuned/long-rtd-ged" --data "$DATA" --out "$OUT/probes"
