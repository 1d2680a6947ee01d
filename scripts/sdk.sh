#!/usr/bin/env bash
# Plays the cases of sdk/testdata in each SDK, checks the packages, and runs the examples of the SDKs and the
# code of their READMEs against `parley dev` on a scratch database.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
server=${PARLEY_TEST_DATABASE_URL:-postgres://127.0.0.1:5432/postgres}
database=parley_sdk_$$
scratch=$(mktemp -d)
export PYTHONPATH=$root/sdk/python/src PYTHONDONTWRITEBYTECODE=1 no_proxy=127.0.0.1

cleanup() {
  for process in ${bot:-} ${parley:-}; do # the bot first, because it deletes its subscription
    { kill "$process" && wait "$process"; } 2>/dev/null || true
  done
  psql -qd "$server" -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" >/dev/null
  rm -rf "$scratch" sdk/go/.readme
}
trap cleanup EXIT

fail() {
  echo "sdk: $1" >&2
  tail -n 40 "$scratch"/*.log >&2
  exit 1
}

# Waits until a condition is true.
await() {
  for _ in $(seq 240); do
    "${@:2}" && return
    sleep 0.5
  done
  fail "$1"
}

cases() {
  (cd sdk/go && go test -count=1 .) >"$scratch/go.log" 2>&1 || fail "the Go SDK"
  "$(scripts/tool.sh tsc)" --project sdk/typescript
  (cd sdk/typescript && node --test test/cases.test.mjs) >"$scratch/typescript.log" 2>&1 || fail "the TypeScript SDK"
  python3 -m unittest discover -s sdk/python/tests >"$scratch/python.log" 2>&1 || fail "the Python SDK"
  echo "sdk: $(grep -c '^      "kind": ' sdk/testdata/cases.json) cases in Go, TypeScript and Python"
}

packages() {
  (cd sdk/typescript && npm pack --dry-run --ignore-scripts --json) >"$scratch/pack.json" 2>"$scratch/pack.log" || fail "npm pack"
  cp -R sdk/python "$scratch/package"
  (cd "$scratch/package" && python3 "$root/scripts/sdk_packages.py" "$root/sdk" "$scratch/pack.json") >"$scratch/packages.log" 2>&1 ||
    fail "the packages"
  cat "$scratch/packages.log"
}

# A program takes the SDKs from a clone of the repository beside it, by the commands of their READMEs. It is a shell of its own,
# because this one ignores failures on the left of ||.
from_clone() {
  mkdir "$scratch/program"
  ln -s "$root" "$scratch/parley"
  (cd "$scratch/program" && bash -euo pipefail -s "$root") >"$scratch/clone.log" 2>&1 <<'PROGRAM' || fail "a program with the SDKs of a clone"
go mod init example
sed -n 's/^`\(go mod edit .*\)`\.$/\1/p' "$1/sdk/go/README.md" >go.sh
printf 'package main\n\nimport parley "github.com/parley-chat/parley/sdk/go"\n\nfunc main() { println(parley.Version) }\n' >main.go
sed -n 's/.*`\(npm run build [^`]*\)`.*/\1/p; s/^`\(npm install \.\.[^`]*\)`\.$/\1/p' "$1/sdk/typescript/README.md" >typescript.sh
echo '{ "type": "module" }' >package.json
[[ $(wc -l <go.sh) -eq 1 && $(wc -l <typescript.sh) -eq 2 ]]
bash -e go.sh </dev/null
go run . </dev/null
bash -e typescript.sh </dev/null
node -e 'import("@parley-chat/parley").then(sdk => new sdk.Parley({ apiKey: "svc_live_1", baseUrl: "http://127.0.0.1/v1" }))' </dev/null
PROGRAM
  echo "sdk: a program took the SDKs from the clone"
}

run() {
  PARLEY_DATABASE_URL="${server%/*}/$database" XDG_CACHE_HOME=$scratch/cache \
    .bin/parley dev --json --addr 127.0.0.1:0 >"$scratch/dev.json" 2>"$scratch/dev.log" &
  parley=$!
}

# Starts `parley dev` and exports what its first line says, under the names that it prints for people.
start() {
  go build -o .bin/parley ./cmd/parley
  run
  await "parley dev is not ready" ready
  eval "$(python3 -c '
import json, shlex, sys
given = json.loads(sys.stdin.readline())
for name, field in {"URL": "base_url", "KEY": "api_key", "NUMBER": "phone_number_id", "PHONE": "simulator_url"}.items():
    print(f"export PARLEY_{name}={shlex.quote(given[field])}")
' <"$scratch/dev.json")"
}

ready() {
  if ! kill -0 "$parley" 2>/dev/null; then
    # When the machine stood still for a second, the database did not answer in time: try again.
    grep -q 'acquire connection' "$scratch/dev.log" || fail "parley dev ended"
    run
  fi
  [[ -s $scratch/dev.json ]]
}

quickstart() {
  local name=$1
  timeout 120 "${@:2}" >"$scratch/$name.log" 2>&1 || fail "the quickstart in $name"
  for line in '^accepted msg_' '^verified message.sent evt_' '^status (delivered|read)$' '^listed msg_.* outbound'; do
    grep -qE "$line" "$scratch/$name.log" || fail "the quickstart in $name did not print $line"
  done
  echo "sdk: the quickstart in $name sent a message and received a verified webhook"
}

# Runs the code blocks of a README, inserted into the program of sdk/testdata/readme that has their variables.
readme() {
  local name=$1 mark=$2 file=$3
  sed -n '/^```'"$mark"'$/,/^```$/{/^```/d;p}' "sdk/$name/README.md" >"$scratch/blocks"
  sed -e "/^[[:space:]]*\(#\|\/\/\) README$/{r $scratch/blocks" -e 'd}' "sdk/testdata/readme/$name.${file##*.}" >"$file"
  timeout 120 "${@:4}" >"$scratch/readme-$name.log" 2>&1 || fail "the code of sdk/$name/README.md"
  for line in '^msg_' '^resource_not_found' 'evt_1|con_1'; do
    grep -qE "$line" "$scratch/readme-$name.log" || fail "the code of sdk/$name/README.md did not print $line"
  done
  echo "sdk: the code of sdk/$name/README.md ran"
}

readmes() {
  mkdir -p sdk/go/.readme "$scratch/node_modules/@parley-chat"
  readme go go sdk/go/.readme/main.go go run -C sdk/go ./.readme/main.go
  readme python python "$scratch/readme.py" python3 "$scratch/readme.py"
  ln -s "$root/sdk/typescript" "$scratch/node_modules/@parley-chat/parley"
  echo '{ "type": "module" }' >"$scratch/package.json"
  cat >"$scratch/tsconfig.json" <<CONFIG
{
  "extends": "$root/sdk/typescript/tsconfig.json",
  "compilerOptions": { "rootDir": ".", "outDir": "out", "declaration": false },
  "include": ["readme.ts"]
}
CONFIG
  readme typescript ts "$scratch/readme.ts" bash -c "'$(scripts/tool.sh tsc)' --project '$scratch' && node '$scratch/out/readme.js'"
}

echo_bot() {
  python3 sdk/python/examples/echo_bot.py >"$scratch/bot.log" 2>&1 &
  bot=$!
  await "the bot does not listen" grep -q '^listening' "$scratch/bot.log"
  write 15550100002 'Echo this ☕'
  write 15550100003 'I hide my number'
  await "the bot did not answer" echoed
  echo "sdk: the echo bot answered"
}

# A person writes a text.
write() {
  curl -sf "$PARLEY_PHONE/sim/inbound" -H 'Content-Type: application/json' -o "$scratch/inbound.log" \
    -d '{"phone_number_id":"'"$PARLEY_NUMBER"'","from":"'"$1"'","type":"text","text":{"body":"'"$2"'"}}'
}

# Whether exactly the echoes were sent to the two people.
echoed() {
  python3 -c '
import os, sys, parley
client = parley.Parley(os.environ["PARLEY_KEY"], os.environ["PARLEY_URL"])
texts = {name: [m["text"]["body"] for contact in client.list_contacts(os.environ["PARLEY_NUMBER"], q=name)
                for m in client.list_messages(os.environ["PARLEY_NUMBER"], contact_id=contact["id"], direction="outbound")
                if m["status"] in ("sent", "delivered", "read")]
         for name in ("Grace", "Linus")}
sys.exit(texts != {"Grace": ["Echo this ☕"], "Linus": ["I hide my number"]})
'
}

cases
packages
from_clone
start
(cd sdk/go && go build -o "$scratch/quickstart" ./examples/quickstart)
quickstart go "$scratch/quickstart"
quickstart typescript node sdk/typescript/examples/quickstart.mjs
quickstart python python3 sdk/python/examples/quickstart.py
readmes
echo_bot
