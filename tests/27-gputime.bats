# SPDX-License-Identifier: BSD-2-Clause
# Time on the GPU. There is none here: a mock of libcupti plays back what one would have done, and
# a program loads the library as CUDA's driver does.
# bats file_tags=bpf

load helpers
load stream

GPU=$O/libfuncsnoop-gpu.so
CUPTI=$FIX/libcuptimock.so

setup() {
	common_setup
	need_bpf
	need_tool jq
}

job() { # CASE...
	capture env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" "$@"
}

# bats test_tags=arch
@test "gpu: GPU times are by kernel, device and stream, for any order of buffers" {
	fsn attach gpu
	job heard 10 known
	# Half of the calls took no more than 3 us, say, which is [2816, 3072) ns: its middle.
	assert_eq "$(rows gpu kernel "function kernel calls returns total_ns avg_ns p50_ns p90_ns p99_ns max_ns" | sort)" \
		"kernels add<float> 5 5 100000 20000 2944 86016 86016 90000
kernels ns::scale 11 10 50000 5000 4864 4864 4864 5000
kernels plain 1 1 700 700 672 672 672 700"
	assert_eq "$(rows gpu device,stream "device stream calls total_ns" | sort)" \
		"0 7 6 100700
1 8 11 50000"
	fsn stats gpu
	assert_output_match '^FUNCTION +KERNEL +CALLS +CALLS/S +TIME% +TOTAL +AVG +P50 +P99 +MAX$'
	assert_output_match '^kernels +add<float> +5 +[0-9.k]+ +66\.4 +100 us +20\.0 us +2\.94 us +86\.0 us +90\.0 us$'
	assert_output_match '^kernels +ns::scale +11 +[0-9.k]+ +33\.2 +>50\.0 us +5\.00 us '
	fsn stats gpu --json
	assert_json '.[0].functions[0] | [.name, .calls, .returns, .untimed, .in_flight, .total_ns,
		.min_ns, .max_ns, (.histogram | map(.count) | add)]' \
		'["kernels",17,16,1,0,150700,700,90000,16]'
	assert_json '[.[0].functions[0].processes[] | [.comm, .calls, .returns, .total_ns, .max_ns]]' \
		'[["gpujob",17,16,150700,90000]]'
	# By device kernels are together: the third of six took 2 us.
	assert_eq "$(rows gpu device "device p50_ns p99_ns" | sort)" "0 1984 86016
1 4864 4864"
	assert_json '[.[0].functions[0].rows[] | [.key.kernel.name, .p50_ns, .p99_ns]] | sort' \
		'[["add<float>",2944,86016],["ns::scale",4864,4864],["plain",672,672]]'
	fsn reset gpu
	job heard 10 known known
	assert_eq "$(rows gpu kernel "kernel calls total_ns p50_ns max_ns" | sort)" \
		"add<float> 10 200000 2944 90000
ns::scale 22 100000 4864 5000
plain 2 1400 672 700"
	fsn attach gpu --key kernel,log2:ns --replace
	job heard 10 known
	assert_eq "$(rows gpu kernel,ns "kernel ns calls returns" | sort)" "add<float> 1024 1 1
add<float> 2048 2 2
add<float> 512 1 1
add<float> 65536 1 1
ns::scale 0 1 0
ns::scale 4096 10 10
plain 512 1 1"
	fsn detach gpu
}

@test "gpu: --fail-if has conditions on percentiles by kernel, over all processes" {
	fsn attach gpu
	job heard 10 known
	fsn stats gpu --fail-if 'p50[kernel=add<float>]>3us' --fail-if 'p99[kernel=plain]>700ns'
	fsn -s 3 stats gpu --fail-if 'p99[kernel=add<float>]>80us'
	assert_stderr_match \
		'^funcsnoop stats: kernels\[kernel=add<float>\] of gpu: p99 is 86.0 us \(p99\[kernel=add<float>\]>80us\)$'
	fsn stats gpu --save "$BATS_TEST_TMPDIR/saved"
	# Five of 25 are those of before, which are in a row of their own.
	job heard 10 slow
	assert_eq "$(rows gpu kernel "kernel calls p50_ns p90_ns" | sort | head -n 1)" \
		"add<float> 25 86016 86016"
	fsn -s 3 stats gpu --fail-if 'p50[kernel=add<float>]>80us' --fail-if 'p50[kernel=add<float>,device=1]>0ns'
	assert_stderr_match '^funcsnoop stats: kernels\[kernel=add<float>\] of gpu: p50 is 86.0 us '
	assert_eq "$(grep -c 'p50 is' <<<"$stderr")" 1
	fsn -s 3 stats gpu --diff "$BATS_TEST_TMPDIR/saved" --fail-if 'p50[kernel=add<float>]>100%' \
		--fail-if 'p50[kernel=plain]>100%'
	assert_stderr_match 'p50 was 2.94 us, is 86.0 us, \+'
	assert_eq "$(grep -c 'p50 was' <<<"$stderr")" 1
	fsn -s 2 stats gpu --fail-if 'p999[kernel=plain]>1ns'
	assert_stderr_match ": p999 is not known by key\$"
	fsn detach gpu
}

@test "gpu: memcpy and memset are recorded on request, with bytes by direction" {
	fsn attach gpu-copies --lib "$GPU"
	job heard 1 heard 2 quiet 10 copies
	assert_output_match '^recorded 0$'
	assert_eq "$(rows gpu-copies kernel "function kernel calls sum_bytes total_ns" | sort)" \
		"copies [copy device to host] 1 100 1000
copies [copy host to device] 3 12288 6000
sets [set] 2 1024 600"
	# 100 bytes in a microsecond.
	assert_eq "$(rows gpu-copies kernel "kernel bytes_per_s" | sort | head -n 1)" \
		"[copy device to host] 100000000.000"
	fsn stats gpu-copies
	assert_output_match '^FUNCTION +KERNEL +BYTES +BYTES/S +CALLS '
	fsn detach gpu-copies
}

@test "gpu: records buffered at exit are reported, and children have none of them" {
	fsn attach gpu
	job heard 10 fork known left
	assert_eq "$(rows gpu kernel "kernel calls total_ns" | sort)" "add<float> 5 100000
ns::scale 11 50000
plain 3 2100"
	fsn detach gpu
}

@test "gpu: a child that inherits buffers neither blocks nor reports them" {
	fsn attach gpu
	job heard 10 storm heirs 300
	assert_eq "$(rows gpu kernel "kernel" | sort -u)" "gust"
	fsn detach gpu
}

@test "gpu: recording starts with the first group and stops with the last" {
	job quiet 10
	assert_output_match '^recorded 0$'
	fsn attach gpu
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" heard 10 \
		left say unheard 10 --wait-end
	wait_line job '^said '
	fsn detach gpu
	wait_line job '^done '
	tell job
	wait_bg job
}

said() { # COUNT
	fsn stats gpu --json
	jq -e ".[0].gpu_processes | length == $1" <<<"$output" >/dev/null
}

@test "gpu: reports why a process has no records: libcupti refuses, is missing or used" {
	local dir=$BATS_TEST_TMPDIR

	need_no_sanitizer # one does not follow another library into a process
	fsn attach gpu
	# The job continues for any answer of libcupti.
	start_bg refused env CUPTIMOCK=999 CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" --wait-end
	start_bg without env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI=/nowhere \
		"$FIX/gpujob" --wait-end
	ln -s "$CUPTI" "$dir/libToolsInjection64.so"
	start_bg taken env LD_PRELOAD="$dir/libToolsInjection64.so" CUDA_INJECTION64_PATH="$GPU" \
		FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" --wait-end
	poll_until said 3
	assert_json '[.[0].gpu_processes[] | [.state, .code, .library]] | sort' \
		'[["no library",0,"libcupti"],["refused",999,"libcuptimock.so"],["taken",0,"libToolsInjection"]]'
	fsn stats gpu
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: \
libcuptimock.so refuses with 999\$"
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: there is \
no libcupti\$"
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: \
libToolsInjection has libcupti\$"
	for job in refused without taken; do
		tell "$job"
		wait_bg "$job"
	done
	fsn detach gpu
}

@test "gpu: reports lost times and records that libcupti dropped" {
	fsn attach gpu
	job heard 10 known say
	fsn stats gpu
	assert_output_match '^kernels +add<float> +5 '
	assert_stderr_match '^funcsnoop stats: 1 of these was counted but not timed: the driver has lost its times$'
	assert_stderr_match '^funcsnoop stats: process [0-9]+: libcuptimock.so dropped 3 records$'
	fsn detach gpu
}

@test "gpu: ten million records use as much memory as thousands, and each counts" {
	local grown

	fsn attach gpu
	job heard 10 many 10000 many 10000000
	mapfile -t grown < <(sed -n 's/^grown //p' <<<"$output")
	((${#grown[@]} == 2 && grown[0] < 8192 && grown[1] < 512)) ||
		fail "grown by ${grown[*]} KiB"
	fsn stats gpu --json
	assert_json '.[0].functions[0] | [.calls, .returns, .total_ns]' \
		'[10010000,10010000,1001000000]'
	assert_json '[.[0].functions[0].rows[] | [.key.kernel.name, .calls]] | sort' \
		"$(for name in a b c d e f g h; do echo "[\"$name\",1251250]"; done | jq -sc)"
	fsn detach gpu
}

# Only NVIDIA's runtime shows what it requests of a driver, and only libcupti how it answers.
@test "gpu: the real driver loads the library, and errors of libcupti are reported" {
	local cupti

	need_cuda
	cupti=$(find "${CUDART%/*}" -maxdepth 1 -name "libcupti.so.*" | head -n 1)
	[[ $cupti ]] || skip "no libcupti beside libcudart"
	fsn attach gpu
	start_bg real env LD_LIBRARY_PATH="$FIX/driver" CUDA_INJECTION64_PATH="$GPU" \
		FUNCSNOOP_CUPTI="$cupti" "$FIX/cudacall" "$CUDART" 3 --wait-end
	wait_line real '^initialized 1'
	wait_line real '^cudaMalloc 100 x3'
	poll_until said 1
	assert_json '.[0].gpu_processes[0] | [.state, .code, (.library | startswith("libcupti.so"))]' \
		'["refused",999,true]'
	tell real
	wait_bg real
	fsn stats gpu --json
	assert_json '.[0].functions' '[]'
	fsn detach gpu
}

# Builds the library, a libcupti and a job in the test's directory, or skips.
build_sanitized() { # WHAT: of -fsanitize=
	local dir=$BATS_TEST_TMPDIR src=$BATS_TEST_DIRNAME/.. flags=(-g -O1 "-fsanitize=$1"
		-std=gnu11 -D_GNU_SOURCE -fPIC)

	need_tool cc
	echo 'int main(void) { return 0; }' >"$dir/none.c"
	cc "${flags[@]}" -o "$dir/none" "$dir/none.c" 2>/dev/null && "$dir/none" ||
		skip "no sanitizer of $1"
	capture -t 60 cc "${flags[@]}" -fvisibility=hidden -I"$src/bpf" -I"$src/lib" -shared -o "$dir/gpu.so" \
		"$src"/lib/gpu/*.c -ldl -lpthread
	capture -t 60 cc "${flags[@]}" -shared -o "$dir/cupti.so" "$src/tests/fixtures/cuptimock.c" \
		-lpthread
	capture -t 60 cc "${flags[@]}" -o "$dir/gpujob" "$src/tests/fixtures/gpujob.c" -ldl
}

@test "gpu: the library has no error under ASan, with children, losses and long names" {
	local dir=$BATS_TEST_TMPDIR

	build_sanitized address,undefined
	fsn attach gpu --lib "$dir/gpu.so" --lib "$FIX/libcudamock.so" --stacks all
	# Memory that its thread still uses is not a leak.
	capture -t 60 env ASAN_OPTIONS=detect_leaks=0 CUDA_INJECTION64_PATH="$dir/gpu.so" FUNCSNOOP_CUPTI="$dir/cupti.so" \
		"$dir/gpujob" heard 10 heard 4 launches "$FIX/libcudamock.so" known names 500 many 20000 fork foreign 100 left storm
	assert_stderr ""
	fsn stats gpu --json
	assert_json '[.[0].functions[0].rows[] | select(.key.kernel.name != "gust").calls] | add' 20878
	# Long names with the same start are different names.
	assert_json '[.[0].functions[0].rows[].key.kernel.name | select(. and startswith("long_"))]
		| [length, (unique | length)]' '[250,250]'
	fsn detach gpu
}

@test "gpu: threads of the library have no data race while groups come and go" {
	local dir=$BATS_TEST_TMPDIR

	build_sanitized thread
	fsn attach gpu --lib "$dir/gpu.so" --lib "$FIX/libcudamock.so" --stacks all
	start_bg job env TSAN_OPTIONS=exitcode=66 CUDA_INJECTION64_PATH="$dir/gpu.so" \
		FUNCSNOOP_CUPTI="$dir/cupti.so" "$dir/gpujob" heard 10 heard 4 storm \
		launches "$FIX/libcudamock.so" wait unheard 10 unheard 4 say heard 10 unheard 10 --wait-end
	wait_line job '^waits '
	fsn stats gpu --json
	assert_json '[.[0].functions[0].rows[] | select(.key.stack.value != 0).calls] | add' 252
	fsn detach gpu
	tell job
	wait_line job '^said '
	fsn attach gpu --lib "$dir/gpu.so" --duty 1/2
	wait_line job '^done '
	fsn detach gpu
	tell job
	# A race that it has seen is its status.
	wait_bg job
}

# Five more calls each time; with those before it half of them would have taken longer.
spreads_in() { # NAME
	tell job
	told=$((told + 1))
	grep -qE ',add<float>,[0-9]+,[0-9]+,.*,2944,86016,86016,' "$(bg_out "$1")"
}

# Calls, their time, and that as a sum: of all intervals together.
came_in() { # NAME
	tr -d '\r' <"$(bg_out "$1")" | awk -F, '
		/^time,/ { for (i = 1; i <= NF; i++) col[$i] = i; next }
		$col["kernel"] == "add<float>" {
			calls += $col["calls"]; ns += $col["total_ns"]; sum += $col["sum_ns"]
		}
		END { printf "%d %d %d", calls, ns, sum }'
}

all_came_in() { # NAME
	[[ $(came_in "$1") == "$((told * 5)) $((told * 100000)) $((told * 100000))" ]]
}

@test "gpu: intervals show their own records, percentiles and sums by kernel" {
	local again=() told=0

	for _ in {1..10}; do again+=(wait known); done
	fsn attach gpu --lib "$GPU" --key kernel --sum ns
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" heard 10 \
		slow "${again[@]}" --wait-end
	wait_line job '^waits '
	start_bg interval "$FUNCSNOOP" stats gpu --by kernel --format csv -i 0.1
	poll_until grep -q '^time,' "$(bg_out interval)"
	poll_until spreads_in interval
	poll_until all_came_in interval
	stop_bg -INT interval
	stop_bg job
	fsn detach gpu
}

@test "gpu: graphs are recorded by kernel, or as one on request" {
	fsn attach gpu --lib "$GPU"
	job heard 10 graph
	assert_eq "$(rows gpu kernel "kernel calls total_ns" | sort)" "first 2 800
then 2 3000"
	fsn reset gpu
	fsn attach gpu-graphs --lib "$GPU"
	job heard 10 heard 51 graph known
	assert_eq "$(rows gpu-graphs kernel "function kernel calls total_ns p50_ns")" \
		"graphs [graph 5] 2 4000 1984"
	assert_eq "$(rows gpu kernel "kernel calls" | sort)" "add<float> 5
ns::scale 11
plain 1"
	fsn detach gpu gpu-graphs
}

@test "gpu: a job runs and exits as without the library, with buffers at any moment" {
	local -A ends=([_exit]=0 [kill]=137 [exec]=0)

	fsn attach gpu
	for how in "${!ends[@]}"; do
		capture -s "${ends[$how]}" env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
			"$FIX/gpujob" heard 10 storm children 40 end "$how"
	done
	# Also at exit(); and buffers of an earlier user of CUPTI.
	job heard 10 storm children 40
	job heard 10 foreign 100 known
	# None was counted twice, or by a child.
	fsn stats gpu --json
	assert_json '[.[0].functions[0].rows[] | select(.key.kernel.name == "gust" and
		(.calls != .returns or .total_ns != 100 * .calls))]' '[]'
	assert_json '.[0].functions[0].processes | map(.comm) | unique' '["gpujob"]'
	assert_json '.[0].functions[0].processes | length' 5
	assert_eq "$(rows gpu kernel "kernel calls total_ns" | sort | sed '/^gust/d')" "add<float> 5 100000
ns::scale 11 50000
plain 1 700
theirs 100 5000"
	fsn detach gpu
}

idle() {
	fsn stats gpu
	[[ $stderr == *"no record for "*" s: its GPU does nothing, or another profiler has them"* ]]
}

@test "gpu: processes dropped because the table is full are reported" {
	fsn attach gpu --lib "$GPU"
	job tell 1000
	fsn stats gpu
	refute_stderr_match 'table full$'
	job tell 1100
	fsn stats gpu
	assert_stderr_match '^funcsnoop stats: the state of other processes than these 1024 is not known: table full$'
	fsn detach gpu
}

@test "gpu: a job whose threads have small stacks is recorded" {
	fsn attach gpu --lib "$GPU"
	capture env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" bash -c \
		'ulimit -Ss 20 && exec "$@"' - "$FIX/gpujob" heard 10 known
	assert_eq "$(rows gpu device "device calls" | sort)" "0 6
1 11"
	fsn detach gpu
}

@test "gpu: reports long silence, such as another profiler with the buffers" {
	fsn attach gpu
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" heard 10 \
		known say later 30 --wait-end
	wait_line job '^said '
	poll_until idle
	tell job
	wait_bg job
	fsn detach gpu
}

@test "gpu: collectives have bandwidth by kernel time, as in nccl-tests" {
	local at="function communicator calls bytes kernels gpu_ns algbw_bytes_per_s busbw_bytes_per_s"

	fsn attach gpu --lib "$GPU"
	fsn attach nccl --lib "$FIX/libncclstub.so"
	job heard 10 collectives "$FIX/libncclstub.so"
	fsn stats nccl gpu --by bandwidth --format csv
	# 4 MiB in 400 us, of that 2 * 7/8 over each link; 8 times 2000 bytes in 2 us, 7/8.
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, -v fields="$at" '
		NR == 1 { for (i = 1; i <= NF; i++) col[$i] = i; n = split(fields, want, " "); next }
		{ for (i = 1; i <= n; i++) printf "%s%s", $col[want[i]], i < n ? "|" : "\n" }' | sort)" \
		"ncclAllGather|fa93daea854b060b 3/8|2|2000|2|2000|8000000000.000|7000000000.000
ncclAllReduce|1 0/2|1|1000|2|2000||
ncclAllReduce|2 0/2|1|1000|2|2000||
ncclAllReduce|fa93daea854b060b 3/8|4|4194304|4|400000|10485760000.000|18350080000.000
ncclBroadcast|fa93daea854b060b 3/8|1|1000|2|2000||"
	fsn stats nccl gpu --by bandwidth
	assert_output_match '^FUNCTION +PID +COMMUNICATOR +CALLS +BYTES +KERNELS +ON GPU +ALGBW BYTES/S +BUSBW BYTES/S *$'
	assert_output_match '^ncclAllReduce +[0-9]+ +fa93daea854b060b 3/8 +4 +4194304 +4 +400 us +10485760000 +18350080000$'
	assert_output_match 'its device has other communicators: whose kernels are whose is not known'
	assert_output_match 'more kernels than calls: those of graphs, or from before, have no bytes'
	fsn stats nccl --by bandwidth
	assert_output_match 'none of its kernels was seen: attach gpu as well, before the job begins'
	fsn detach gpu nccl
}

@test "feature: reports whether GPU times are available, or why not" {
	local env said

	while IFS='|' read -r env said; do
		capture env "${env% *}" "${env#* }" "$FUNCSNOOP" feature --json
		assert_json '.gpu_times | [.seen, .why] | tostring' "$said"
	done <<-EOF
		CUPTIMOCK=0 FUNCSNOOP_CUPTI=$CUPTI|[true,"of jobs that load libfuncsnoop-gpu.so; by libcuptimock.so"]
		CUPTIMOCK=999 FUNCSNOOP_CUPTI=$CUPTI|[false,"libcuptimock.so refuses with 999"]
		CUPTIMOCK=0 FUNCSNOOP_CUPTI=/nowhere|[false,"there is no libcupti; a job may bring its own"]
	EOF
	capture env CUPTIMOCK=999 FUNCSNOOP_CUPTI="$CUPTI" "$FUNCSNOOP" feature
	assert_output_match '^times of GPUs +not seen +libcuptimock.so refuses with 999$'
}

@test "gpu: a stream shows kernels with host times, in a track for each GPU stream" {
	local before after

	fsn attach gpu
	start_stream c gpu --format chrome
	before=$(date +%s%N)
	# Others have no times of this clock: they are shown when they come.
	job heard 10 now known
	after=$(date +%s%N)
	stop_stream c
	assert_eq "$(jq -c '[.[] | select(.ph == "X") | .name] | group_by(.) | map([.[0], length])' <<<"$output")" \
		'[["add<float>",5],["now",1],["ns::scale",10],["plain",1]]'
	assert_eq "$(jq -c '[.[] | select(.ph == "i") | [.name, .args.key.kernel.name]]' <<<"$output")" \
		'[["ns::scale","ns::scale"]]'
	assert_eq "$(jq -c '[.[] | select(.name == "thread_name") | .args.name] | unique' <<<"$output")" \
		'["GPU 0 stream 7","GPU 1 stream 8","GPU 1 stream 9"]'
	assert_eq "$(jq -c '. as $all | [.[] | select(.name == "thread_name")] | group_by(.tid) | length' \
		<<<"$output")" 3
	assert_eq "$(jq '.[] | select(.name == "now") | .dur + 0' <<<"$output")" 2000
	assert_between "$(jq '.[] | select(.name == "now") | .ts * 1000 | floor' <<<"$output")" \
		$((before - 2000000)) "$after"
	assert_between "$(jq '[.[] | select(.ph == "X").ts] | min * 1000 | floor' <<<"$output")" \
		$((before - 2000000)) "$after"
	fsn detach gpu
}

@test "gpu: a trace for Perfetto has kernels in a track for each GPU stream" {
	need_tool python3
	fsn attach gpu
	start_stream p gpu --format perfetto -o "$BATS_TEST_TMPDIR/trace"
	job heard 10 now known
	stop_stream p
	assert_eq "$("$BATS_TEST_DIRNAME/perfetto.py" <"$BATS_TEST_TMPDIR/trace" | jq -c '. as $all |
		[(.tracks[] | select(.process).process.name), (.slices, .instants | length),
		([.slices[].dur] | max), ([.slices[].track as $t | $all.tracks[] | select(.uuid == $t).name] | unique)]')" \
		'["gpujob",17,1,2000000,["GPU 0 stream 7","GPU 1 stream 8","GPU 1 stream 9"]]'
	fsn detach gpu
}

@test "gpu: --gpu-duty records part of the time, and counts are marked as partial" {
	local pid

	fsn attach gpu
	start_bg job env FUNCSNOOP_GPU_DUTY=1/2 CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" heard 10 known unheard 10 heard 10 known say --wait-end
	wait_line job '^said '
	pid=$(bg_pid job)
	fsn stats gpu
	assert_stderr_match "^funcsnoop stats: process $pid: counts are of windows: 1 s of each 2 s are recorded\$"
	fsn stats gpu --json
	assert_json '.[0].gpu_processes[0] | [.state, .window_s, .period_s]' '["recorded",1,2]'
	assert_json '.[0].functions[0].calls' 34
	tell job
	wait_bg job
	# The job's own setting overrides groups; a job without the variable is not affected.
	capture env FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" quiet 10
	assert_output_match '^recorded 0$'
	fsn stats gpu --json
	assert_json '.[0].functions[0].calls' 34
	fsn detach gpu
}

windows() { # WINDOW PERIOD: of the job
	fsn stats gpu --json
	[[ $(jq -c --argjson pid "$(bg_pid job)" '.[0].gpu_processes[] | select(.pid == $pid)
		| [.window_s, .period_s]' <<<"$output") == "[$1,$2]" ]]
}

@test "gpu: a group with --duty also gets the records that others request" {
	fsn attach gpu --duty 1/2
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" heard 10 known unheard 10 heard 10 known say --wait-end
	wait_line job '^said '
	poll_until windows 1 2
	assert_json '.[0].functions[0].calls' 34
	fsn stats gpu
	assert_stderr_match \
		"^funcsnoop stats: process $(bg_pid job): counts are of windows: 1 s of each 2 s are recorded\$"
	fsn list gpu --json
	assert_json '.[0].options.duty_period_s' 2
	# Copies are a matter of their own.
	fsn attach gpu-copies --lib "$GPU"
	fsn attach gpu --name seldom --lib "$GPU" --duty 1/600
	fsn detach gpu
	fsn attach gpu --lib "$GPU" --duty 1/120
	poll_until windows 1 120
	fsn attach gpu --name whole --lib "$GPU"
	fsn list whole --json
	assert_json '.[0].options.duty_period_s' null
	poll_until windows null null
	fsn detach whole
	poll_until windows 1 120
	tell job
	wait_bg job
	# With the job's own word that of groups is none.
	start_bg job env FUNCSNOOP_GPU_DUTY=2/5 CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" heard 10 say --wait-end
	wait_line job '^said '
	poll_until windows 2 5
	tell job
	wait_bg job
	fsn detach gpu gpu-copies seldom
}

@test "gpu: --gpu-duty N records one second in N, for all GPU activity" {
	local args said

	while IFS='|' read -r args said; do
		# shellcheck disable=SC2086 # words
		fsn -s 2 attach $args
		assert_stderr_match "^funcsnoop attach: --duty$said"
	done <<-EOF
		gpu --duty 1/7|: '1/7' is not 1/N with N one of 1 2 3 .* 300 600\$
		gpu --duty 2/3|: '2/3' is not 1/N with N one of 1 2
		gpu --duty 30|: '30' is not 1/N
		t --lib $FIX/libfix.so.1 fix_add --duty 1/30| is only for GPU activity: not in group 't'\$
	EOF
	fsn list
	assert_output ""
	# An older library is reported if a request exceeds its abilities.
	sed 's/funcsnoop_gpu_duty/funcsnoop_gpu_none/g' "$GPU" >"$BATS_TEST_TMPDIR/old.so"
	fsn -s 1 attach gpu --lib "$BATS_TEST_TMPDIR/old.so" --duty 1/30
	assert_stderr_match "'.*/old.so' is of a version without --sample\$"
	fsn attach gpu --lib "$BATS_TEST_TMPDIR/old.so"
	fsn detach gpu
}

@test "gpu: stacks and keys of callers are rejected for GPU activity" {
	local args said

	while IFS='|' read -r args said; do
		# shellcheck disable=SC2086 # words
		fsn -s 2 attach $args --lib "$GPU" --lib "$FIX/libcudamock.so"
		assert_stderr_match "^funcsnoop attach: $said: not known for GPU activity\$"
	done <<-'EOF'
		gpu --stacks slow|--by stack
		gpu-copies --stacks 10|--by stack
		gpu-graphs --stacks all|--by stack
		gpu --key kernel,thread|--by thread
		gpu --key caller|--by caller
		gpu --key comm|--by comm
	EOF
	fsn list
	assert_output ""
}

# Time in us by kernel and caller of the launching function.
by_launcher() {
	awk '{ us = $NF; sub(/ [0-9]+$/, ""); n = split($0, f, ";"); at[f[n - 2] " " f[n - 1] " " f[n]] += us }
		END { for (i in at) print i, at[i] }' <<<"$output" | sort
}

# bats test_tags=core,arch
@test "gpu: each kernel has the stack of its launch, and unknown ones are reported" {
	local functions

	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" wait \
		heard 10 heard 4 launches "$FIX/libcudamock.so"
	wait_line job '^waits '
	fsn attach gpu --lib "$GPU" --lib "$FIX/libcudamock.so" --stacks all
	assert_stderr ""
	tell job
	wait_bg job
	fsn stats gpu --format folded
	assert_eq "$(by_launcher)" "launch_first launch_one add<float> 100
launch_first launch_one more 6
launch_second launch_one add<float> 300
launch_second launch_one ns::scale 100"
	assert_eq "$(rows gpu kernel "kernel calls total_ns" | sort)" "add<float> 200 400000
lost 7 700
more 2 6000
ns::scale 50 100000"
	fsn stats gpu
	assert_stderr_match '^funcsnoop stats: of 259 kernels the launches of 252 have a stack$'
	fsn stats gpu --by stack
	assert_output_match '^ 59\.3 .*launch_more > launch_second > launch_one > add<float> +100 .* 300 us '
	assert_output_match '^ 20\.9 +launch_first > launch_one +102 .* 106 us '
	assert_output_match '^ 19\.8 +add<float> +100 .* 100 us '
	fsn stats gpu --json
	# Rows of no stack are those whose launch is not known.
	assert_json '[.[0].functions[0].rows[] | select(.key.stack.value == 0) | .calls] | add' 7
	functions='[.[0].functions[] | [.name, .calls, .returns]]'
	assert_json "$functions" '[["kernels",259,259],["cuLaunchKernel",250,null]]'
	fsn stats gpu --format flame -o "$BATS_TEST_TMPDIR/f.html"
	grep -q '"ns::scale"' "$BATS_TEST_TMPDIR/f.html"
	grep -q '{"name":"kernels","unit":"count"}' "$BATS_TEST_TMPDIR/f.html"
	fsn detach gpu
}

# No process of another test maps a file of that name.
# bats test_tags=alone
@test "gpu: stacks of launches are recorded if run has to wait for the driver" {
	local dir=$BATS_TEST_TMPDIR

	ldconfig -p | grep -q libcuda.so.1 && skip "there is a driver"
	cp "$FIX/libcudamock.so" "$dir/libcuda.so.1"
	fsn run gpu --stacks all --format folded -o "$dir/folded" -- env LD_PRELOAD="$dir/libcuda.so.1" \
		CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" heard 10 heard 4 launches "$dir/libcuda.so.1"
	assert_stderr_match "'libcuda\.so\.1' yet: waiting for it"
	assert_eq "$(sed 's/.*;//' "$dir/folded" | awk '{ us[$1] += $2 } END { for (k in us) print k, us[k] }' |
		sort)" "add<float> 400
more 6
ns::scale 100"
}

@test "gpu: without --stacks, launches are not probed" {
	fsn attach gpu --lib "$GPU"
	job heard 10 quiet 4 quiet 5
	assert_eq "$(grep -c '^recorded 0$' <<<"$output")" 2
	fsn attach gpu --name launched --lib "$GPU" --lib "$FIX/libcudamock.so" --stacks 1000000
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" heard 10 \
		heard 5 heard 4 wait unheard 4 unheard 5 quiet 10 --wait-end
	wait_line job '^waits '
	fsn detach launched
	tell job
	# Kernels are recorded on, for the other.
	wait_line job '^recorded 1'
	tell job
	wait_bg job
	fsn detach gpu
}

@test "gpu: stacks of launches require CUDA's driver and an up-to-date library" {
	fsn -s 1 attach gpu --lib "$GPU" --lib "$FIX/libfix.so.1" --stacks all
	assert_stderr_match '--by stack needs the functions that launch kernels: name libcuda\.so\.1 with --lib$'
	sed 's/funcsnoop_gpu_ask/funcsnoop_gpu_non/g' "$GPU" >"$BATS_TEST_TMPDIR/old.so"
	fsn -s 1 attach gpu --lib "$BATS_TEST_TMPDIR/old.so" --lib "$FIX/libcudamock.so" --stacks all
	assert_stderr_match "'.*/old.so' is of a version without stacks\$"
	fsn list
	assert_output ""
}
