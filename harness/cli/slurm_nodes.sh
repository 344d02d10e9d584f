# Ray's head is on the first node, where this script runs. Only this job knows the token, so nobody else can use
# its Ray.
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0 RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
cpus=${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}
port=$((20000 + SLURM_JOB_ID % 10000))
ip=$("$PYTHON" - "${nodes[1]}" <<'END'
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
    link.connect((sys.argv[1], 9))  # It sends nothing, and finds the address by which the other node sees this one.
    print(link.getsockname()[0])
END
)

ray_on() {  # ray_on COUNT SRUN_OPTION RAY_OPTION...: start Ray on some nodes
  exec srun --overlap --nodes="$1" --ntasks="$1" --ntasks-per-node=1 --cpus-per-task="$cpus" "$2" \
    "$PYTHON" -m ray.scripts.scripts start --block --num-cpus="$cpus" "${@:3}"
}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT  # This stops Ray.
ray_on 1 --nodelist="${nodes[0]}" --head --node-ip-address="$ip" --port="$port" \
  --include-dashboard=false --temp-dir="/tmp/ray-$SLURM_JOB_ID" &
until (exec 3<>"/dev/tcp/$ip/$port") 2>/dev/null; do
  kill -0 $! || { echo "Ray did not start on ${nodes[0]}." >&2; exit 1; }
  sleep 1
done
ray_on $((${#nodes[@]} - 1)) --exclude="${nodes[0]}" --address="$ip:$port" &
"$PYTHON" - "$ip:$port" "${#nodes[@]}" <<'END'
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
count, end = int(sys.argv[2]), time.monotonic() + 300
while (joined := sum(node["Alive"] for node in ray.nodes())) < count and time.monotonic() < end:
    time.sleep(1)
print(f"{joined} of {count} nodes joined Ray.", file=sys.stderr)
END

"$PYTHON" -m prmcal run ARGUMENTS --executor ray --address "$ip:$port" &
run=$!
trap 'kill -TERM "$run" 2>/dev/null || true' TERM
code=0
wait "$run" || code=$?
while kill -0 "$run" 2>/dev/null; do  # A signal interrupts `wait`, and the run is still recording what is done.
  code=0
  wait "$run" || code=$?
done
exit "$code"
