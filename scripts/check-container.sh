#!/usr/bin/env bash
# Checks the Dockerfile and compose.yaml without Docker and without pulling images:
#
# 1. tools/container parses and checks both files. Its tests prove that broken files are refused.
# 2. The RUN commands of the Dockerfile make the image's files in a scratch directory. The binary must be static.
# 3. The blocks of docs/operations.md below `<!-- containers: … -->` are run as they are printed. The function
#    `docker` below stands in for Docker: it runs the services of compose.yaml with their commands and environments,
#    as the image's user, on these files, mounted read-only.
#
# Part 3 needs root and the right to make namespaces, because its processes get a network of their own, in which the ports are free, and mounts of
# their own. They end when the script ends.
set -euo pipefail

cd "$(dirname "$0")/.."
export CGO_ENABLED=0
tool=$(scripts/tool.sh container)

if [[ ${1:-} != --isolated ]]; then
  "$tool" check
  (cd tools/container && go test ./...)

  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  chmod 755 "$scratch"
  # Without -trimpath the packages that other checks have compiled are used again.
  "$tool" steps | grep -vx 'go mod download' | sed -E "s#/(image|writable)#$scratch&#g; s/ -trimpath//" >"$scratch/steps"
  bash -euo pipefail "$scratch/steps"
  ! ldd "$scratch/image/parley" 2>/dev/null || { echo 'check-container: the binary is not static' >&2 && exit 1; }
  echo "the image's files: $(du -sh "$scratch/image" | cut -f1), a static binary"

  [[ $(id -u) == 0 ]] && unshare --net --mount-proc --pid --fork true 2>/dev/null ||
    { echo 'check-container: compose.yaml was not run, because this needs root and namespaces' && exit; }
  PARLEY_TEST_PORT=5432 PARLEY_TEST_DATABASE_URL='' unshare --net --mount-proc --pid --fork --kill-child \
    bash -c "ip link set lo up && scripts/test-postgres.sh scripts/check-container.sh --isolated '$scratch'"
  exit
fi

scratch=$2 image=$2/image log=$2/log
# Docker writes /etc/hosts, mounts the root read-only, and gives a new volume the owner of its directory.
echo '127.0.0.1 localhost postgres redis' >"$image/etc/hosts"
mv "$scratch/writable" "$image/data"
mount --bind "$image" "$image"
mount -t tmpfs -o uid=65532,gid=65532,mode=700 media "$image/data/media"
mount -o remount,bind,ro "$image"
! touch "$image/written" 2>/dev/null || { echo 'check-container: the root is not read-only' >&2 && exit 1; }
: >"$log"
redis-server --bind 127.0.0.1 --save '' --appendonly no >/dev/null &
redis=$!
declare -A running=() # the process of each service

# Stops all services, as Docker does. Fails if one had ended before, or does not end well.
stop() {
  local service status=0
  for service in "${!running[@]}"; do
    kill "${running[$service]}" 2>/dev/null || true
    wait "${running[$service]}" || { echo "check-container: $service did not end well" >&2 && status=1; }
    unset "running[$service]"
  done
  return "$status"
}

# Prints the logs if a step failed, and ends everything.
cleanup() {
  local status=$?
  [[ $status == 0 ]] || tail -n 50 "$log" >&2
  stop || true
  kill "$redis"
  wait "$redis" || true
  exit "$status"
}
trap cleanup EXIT

# Stands in for `docker compose up` and `docker compose exec`.
docker() {
  local service named=()
  case "$1 $2" in
    'compose up')
      for service in "${@:3}"; do [[ $service == --* ]] || named+=("$service"); done
      for service in $("$tool" services "${named[@]}"); do
        known_settings "$service"
        if [[ $service == migrate ]]; then
          "$tool" run "$image" "$service"
        else
          "$tool" run "$image" "$service" >>"$log" 2>&1 &
          running[$service]=$!
        fi
      done
      ;;
    'compose exec')
      shift 2
      [[ $1 != -T ]] || shift
      "$tool" run "$image" "$@"
      ;;
    *) echo "check-container: no stand-in for docker $*" >&2 && return 1 ;;
  esac
}

# Fails if the service has a setting that the program does not know. A value that it does not accept is noticed
# by the start of the service.
known_settings() {
  local unknown
  unknown=$({ "$tool" run "$image" "$1" /parley doctor || true; } 2>/dev/null | grep 'is not a setting') || return 0
  printf 'compose.yaml, %s: %s\n' "$1" "$unknown" >&2
  return 1
}

# Runs the block below a mark on an empty database, then stops its services.
run_block() {
  local code
  code=$(scripts/block.sh docs/operations.md "containers: $1")
  PGOPTIONS='-c client_min_messages=warning' \
    psql -qd "$PARLEY_TEST_DATABASE_URL" -c 'DROP DATABASE IF EXISTS parley' -c 'CREATE DATABASE parley OWNER parley'
  echo "== docs/operations.md, containers: $1"
  : >"$log"
  cd "$scratch/project"
  eval "$code"
  cd "$OLDPWD"
  stop
}

mkdir "$scratch/project" "$scratch/misspelled"
ln -s "$PWD/Dockerfile" "$PWD/compose.yaml" "$scratch/project"
ln -s "$PWD/Dockerfile" "$scratch/misspelled"
sed 's/PARLEY_LISTEN:/PARLEY_LISTENS:/' compose.yaml >"$scratch/misspelled/compose.yaml"
if (cd "$scratch/misspelled" && PARLEY_MASTER_KEY=x POSTGRES_PASSWORD=x known_settings serve 2>/dev/null); then
  echo 'check-container: a misspelled setting is not found' >&2 && exit 1
fi

psql -qd "$PARLEY_TEST_DATABASE_URL" -c 'CREATE ROLE parley SUPERUSER LOGIN'
run_block start
run_block simulator
