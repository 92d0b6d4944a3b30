#!/usr/bin/env bash
# Fetches Debian's packages of NVIDIA's driver libraries (non-free) and unpacks them
# into a folder of their own, whose name it prints. Nothing is installed, and apt's own
# lists stay as they are. Fails, with the reason on standard error, where they cannot
# be had: not on Debian, no network, another architecture.
set -euo pipefail
command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "no apt-get or dpkg" >&2; exit 1; }
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"/lists/partial "$dir"/cache/archives/partial "$dir"/root
cd "$dir"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm non-free" > sources.list
apt() {
  timeout 60 apt-get -qq -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User=root "$@" >&2
}
apt update
apt download libcuda1 libnvidia-ml1
for deb in *.deb; do dpkg -x "$deb" root; done
find "$dir/root" -name libcuda.so.1 -printf '%h\n' | grep . || { echo "no libcuda.so.1 in the packages" >&2; exit 1; }
