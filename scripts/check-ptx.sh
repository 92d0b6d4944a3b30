#!/usr/bin/env bash
# What needs tools that a checkout need not have: the committed PTX is what clang makes of the
# sources, and NVIDIA's assembler takes it, without spills. Each check says why it is skipped.
# Usage: scripts/check-ptx.sh [generate] [assemble]; both if none is named.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skipped: $*"; }

# generate compiles the sources again and compares, with the recorded compiler only: another
# release may well make other bytes.
generate() {
  command -v clang-19 >/dev/null || timeout 240 apt-get install -y -qq --no-install-recommends clang-19 >"$work/apt" 2>&1 ||
    { skip "clang-19 is not here and cannot be installed: $(tail -n 1 "$work/apt")"; return; }
  local want have
  want=$(sed -n 's/^compiler //p' kernels/cuda/MANIFEST)
  have=$(clang-19 --version | head -n 1)
  [ "$want" = "$have" ] || { skip "the PTX was made by $want, and here is $have"; return; }
  cp -r kernels/cuda "$work/before"
  go generate ./kernels/cuda
  diff -r "$work/before" kernels/cuda || { echo "the committed kernels are not what go generate makes"; exit 1; }
  # The simulator's tests have a source of their own; its flags hold no blanks within.
  (cd gpu/ptxsim/testdata && clang-19 $(sed -n 's/^flags //p' MANIFEST) -S planted.cu -o "$work/planted.ptx" && cmp planted.ptx "$work/planted.ptx") ||
    { echo "gpu/ptxsim/testdata/planted.ptx is not what its MANIFEST makes"; exit 1; }
  echo "generated files agree"
}

# find_ptxas prints where the assembler is: one that is installed, or that of Debian's package (non-free,
# 87 MB), which is unpacked and not installed.
find_ptxas() {
  type -P ptxas && return
  local apt=(-o "Dir::State=$work/state" -o "Dir::Cache=$work/cache" -o "Dir::Etc::SourceList=$work/list" -o "Dir::Etc::SourceParts=-"
    -o "APT::Sandbox::User=root" -o "Acquire::Retries=1" -qq)
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie non-free" >"$work/list"
  (cd "$work" && timeout 60 apt-get "${apt[@]}" update && timeout 180 apt-get "${apt[@]}" download nvidia-cuda-toolkit &&
    dpkg-deb --fsys-tarfile nvidia-cuda-toolkit_*.deb | tar -x --wildcards '*/bin/ptxas') >"$work/log" 2>&1 || return 1
  find "$work" -type f -name ptxas | head -n 1
}

assemble() {
  local tool
  tool=$(find_ptxas) || { skip "there is no ptxas: $(tail -n 1 "$work/log")"; return; }
  for ptx in kernels/cuda/ptx/*.ptx; do
    for arch in sm_80 sm_90; do
      "$tool" -arch="$arch" -v "$ptx" -o "$work/cubin" 2>&1 | sed "s|^|$arch $(basename "$ptx" .ptx): |"
    done
  done >"$work/report"
  awk -f scripts/ptxas-report.awk "$work/report"
}

[ $# -gt 0 ] || set -- generate assemble
for check in "$@"; do "$check"; done
