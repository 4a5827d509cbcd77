#!/usr/bin/env bash
# torch 2.13.0, torch.compile on a processor with AVX-512, g++ 11 or 12 (tried: 11.3.0 and 12.2.0 of Debian).
#
# Expected: a compiled function of a transposed bfloat16 tensor returns what it returns without compiling, but for
# rounding.
# Seen: rotary positions applied to a transposed tensor, as in the backward pass of attention, give wrong numbers in
# more than 90 of 100 places, some of them not finite. Nothing warns; a training stops at its first update, or learns from wrong
# gradients. The generated C++ is right: with -fno-tree-slp-vectorize, or at -O2, or tuned for a processor that the
# compiler knows by name, the same source gives right numbers. It is wrong at -O3, torch's level, with generic tuning,
# and generic is what -march=native means to these compilers on processors newer than they are. So whoever compiles
# should compare compiled layers with plain ones before training.
# Exit code 0: still so. 1: it has changed. 2: not tried, because AVX-512 or such a compiler is missing.
set -euo pipefail
grep -q avx512bw /proc/cpuinfo || { echo "not tried: this processor has no AVX-512" >&2; exit 2; }
case "$(${CXX:-g++} -dumpversion)" in
    11|11.*|12|12.*) ;;
    *) echo "not tried: needs g++ 11 or 12 (CXX names it)" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > try.py <<'EOF'
import sys

import torch


def rotate(x, angles):
    """Rotates the transposed x: the second half, and minus the first half, both scaled."""
    scaled = x.transpose(-1, -2).float() * angles
    return torch.cat([scaled[..., 32:], -scaled[..., :32]], -1).bfloat16()


torch.set_num_threads(1)
torch.manual_seed(0)
x, angles = torch.randn(64, 64, 128).bfloat16(), torch.randn(128, 64)
plain, compiled = rotate(x, angles), torch.compile(rotate)(x, angles)
is_right = (plain - compiled).abs() <= 0.01 * plain.abs()  # false if one is not a number
wrong = 1 - is_right.float().mean().item()
print(f"torch {torch.__version__}, {sys.argv[1]}: {100 * wrong:.0f} of 100 numbers are wrong")
sys.exit((wrong > 0.5) != (sys.argv[2] == "wrong"))
EOF
export TORCHINDUCTOR_CPP_MARCH TORCHINDUCTOR_CACHE_DIR
try() {  # MARCH EXPECTED
    TORCHINDUCTOR_CPP_MARCH=$1 TORCHINDUCTOR_CACHE_DIR="$folder/$2"
    venv/bin/python try.py "-march=$1" "$2" 2> log || { code=$?; cat log >&2; exit $code; }
}
try x86-64-v4 wrong  # its tuning is generic
try "x86-64-v4 -fno-tree-slp-vectorize" right
