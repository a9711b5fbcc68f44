#!/usr/bin/env bash
# ONNX Runtime's CUDA provider on TPCs of its own, and our kernels on as many: one network profiled by both, planned together, and one
# picture answered. Where no onnxruntime with that provider is installed it says so and ends well. Arguments: the work folder, the repository.
set -u
work=$1 repo=$2
packages=$(python3 -c 'import onnxruntime, pathlib; print(pathlib.Path(onnxruntime.__file__).parents[1])' 2>/dev/null)
: "${ORT_DYLIB_PATH:=$(find "${packages:-/nowhere}/onnxruntime/capi" -name 'libonnxruntime.so*' 2>/dev/null | sort | head -n 1)}"
if [ ! -e "$(dirname "${ORT_DYLIB_PATH:-/nowhere/x}")/libonnxruntime_providers_cuda.so" ]; then
  echo "no onnxruntime with a CUDA provider on this machine (the package onnxruntime-gpu has one): nothing was tried"; exit 0
fi
export ORT_DYLIB_PATH
# Wheels of cuDNN and cuBLAS lie beside it.
for lib in "$packages"/nvidia/*/lib; do [ ! -d "$lib" ] || LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; done
export LD_LIBRARY_PATH
d=$work/parts/engines; rm -rf "$d"; mkdir -p "$d/boards"; cd "$d" || exit 1
board=$(sed -n 's/^name = "\(.*\)"/\1/p' "$work/parts/board.toml"); cp "$work/parts/board.toml" "boards/$board.toml" || exit 1
tpcs=$(sed -n 's/^tpc = { is = \([0-9]*\).*/\1/p' "boards/$board.toml")
multiple=$(sed -n 's/^# Partitions by .*: .* in multiples of \([0-9]*\).*/\1/p' "boards/$board.toml"); multiple=${multiple:-1}
half=$((tpcs / 2 / multiple * multiple))
cp "$repo/models/signs/signs.punctual" .
part() { printf '[[model]]\nname = "%s"\npackage = "signs.punctual"\n\n[[partition]]\nname = "%s"\ntpcs = %s\n%s\n\n' "$1" "$1" "$half" "$2"; }
task() { printf '[[task]]\nname = "%s"\nmodel = "%s"\npartition = "%s"\ncriticality = "best-effort"\nbatch_max = 4\nframe = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }\n\n' "$1" "$1" "$1"; }
{ printf '[daemon]\nboard = "%s"\nsocket = "%s/punctual.sock"\n\n' "$board" "$d"
  part own ''; part engine 'device = "ort-cuda"'; task own; task engine; } >manifest.toml
punctual profile --quick manifest.toml; rc=$?; echo "== profile: rc $rc"; [ $rc = 0 ] || exit $rc
punctual check manifest.toml; rc=$?; echo "== check: rc $rc"; [ $rc = 0 ] || exit $rc
punctuald manifest.toml --log info --ready-fd 9 9>ready >daemon.log 2>&1 & daemon=$!
for _ in $(seq 1200); do [ -s ready ] && break; kill -0 $daemon 2>/dev/null || break; sleep 0.05; done
rc=0
for name in own engine; do
  punctual ask --socket punctual.sock "$name" "$repo/examples/street.jpg" || rc=1
done
kill -TERM $daemon; wait $daemon; ended=$?
tail -n 20 daemon.log; echo "== serve: answers rc $rc, daemon rc $ended"; [ $rc = 0 ] && [ $ended = 0 ]
