# shellcheck shell=bash
# The page of `opweld report`, made from web/ with the Node of .venv; sourced by ./dev after setup.sh.

# On PATH for npm, which starts Node by that name.
with_node() {
  PATH=$PWD/.venv/bin:$PATH "$@"
}

# Brings web/node_modules up to web/package-lock.json; like setup_python, by a digest.
setup_npm() {
  local stamp=web/node_modules/opweld.sha256 digest
  digest=$(cat web/package.json web/package-lock.json | sha256sum)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ]; then
    return
  fi
  say "installing npm packages of web/package-lock.json"
  local log
  log=$(log_file npm)
  with_node npm --prefix web ci --no-progress >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "npm failed; its whole output is in $log"
  }
  echo "$digest" >"$stamp"
}

# What tests of the page open it in.
setup_browser() {
  setup_packages browser chromium
}

# Makes build/web/report.html, which the next C++ build takes into the command.
build_page() {
  setup_npm
  local stamp=build/web/made-from.sha256 digest log
  digest=$(find web \( -name node_modules -o -name tests \) -prune -o -type f -print0 |
    sort -z | xargs -0 sha256sum | sha256sum)
  if [ -f build/web/report.html ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ]; then
    return
  fi
  say "making the page of opweld report"
  log=$(log_file web)
  with_node node web/node_modules/vite/bin/vite.js build web --logLevel warn >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "vite failed; its whole output is in $log"
  }
  echo "$digest" >"$stamp"
}
