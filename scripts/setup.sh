# shellcheck shell=bash
# Set-up for ./dev, which sources this: Debian packages and the Python environment; web.sh has the
# part that is about the page of opweld report. Every step first looks whether it is needed, so that a
# repeated run costs nothing.

# Everything kept between runs lives here, outside the tree, and is safe to delete.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/opweld
python=.venv/bin/python

# Needed to build, test and lint; docs/dependencies.md says why each is used.
base_packages=(
  git g++ cmake ninja-build ccache
  llvm-19-dev libonnx-dev libprotobuf-dev protobuf-compiler
  libcli11-dev libfmt-dev nlohmann-json3-dev libexpected-dev libzip-dev libxxhash-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-format-19 clang-tidy-19 shellcheck
  python3-dev python3-venv
)

say() { printf '>> %s\n' "$*"; }

fail() {
  printf './dev: %s\n' "$*" >&2
  exit 1
}

# log_file NAME: where the output of a quiet step goes.
log_file() {
  mkdir -p build/logs
  echo "build/logs/$1.log"
}

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

# setup_packages NAME PACKAGE...: installs those that are missing; NAME names the log.
setup_packages() {
  local name=$1
  shift
  command -v dpkg-query >/dev/null ||
    fail "set-up knows Debian 12 and 13 only; elsewhere, install the counterparts of: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      fail "these packages are missing; install them as root, then try again:
  apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log
  log=$(log_file "apt-$name")
  if ! {
    "${as_root[@]}" apt-get update -q -o Acquire::Retries=3 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends -o Acquire::Retries=3 "${missing[@]}"
  } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    fail "apt-get failed; its whole output is in $log"
  fi
}

# A Python of at least 3.11, the oldest that the pinned packages support.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# The environment is made anew when its interpreter has gone, for example after an upgrade.
setup_venv() {
  ! "$python" -c '' 2>/dev/null || return 0
  local interpreter
  interpreter=$(find_python) || fail "no Python of version 3.11 or newer was found"
  say "making the Python environment .venv"
  rm -rf .venv
  "$interpreter" -m venv .venv
}

# setup_python NAME...: brings .venv up to requirements/NAME.txt, which lists every package needed
# (so that pip follows no dependencies of its own accord). A stamp holds the digest of what was
# installed, so that unchanged requirements cost one comparison.
setup_python() {
  local name file stamp digest
  for name in "$@"; do
    file=requirements/$name.txt
    stamp=.venv/opweld-$name.sha256
    digest=$(sha256sum <"$file")
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ]; then
      continue
    fi
    say "installing Python packages of $file"
    "$python" -m pip install -qq --disable-pip-version-check --no-deps -r "$file"
    echo "$digest" >"$stamp"
  done
}

# PyTorch, and the models that it is tested with. Where the index has its build for CUDA only, that
# loads no more than its dependencies let it, and they are several gigabytes.
setup_torch() {
  setup_python torch
  local stamp=.venv/opweld-torch-loads
  [ ! "$stamp" -nt .venv/opweld-torch.sha256 ] || return 0
  if ! "$python" -c 'import torch' 2>/dev/null; then
    say "installing the libraries that this build of PyTorch loads"
    "$python" -m pip install -qq --disable-pip-version-check -r requirements/torch.txt
  fi
  touch "$stamp"
}

setup() {
  mkdir -p "$cache"
  setup_packages base "${base_packages[@]}"
  setup_venv
  setup_python dev demo
  setup_npm
  say "set-up: nothing missing"
}
