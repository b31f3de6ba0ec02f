# SPDX-License-Identifier: BSD-2-Clause
# NVTX ranges: a program with a clock of its own makes ranges of known times, and hands its table to
# the library as NVTX's headers do.
# bats file_tags=bpf

load helpers
load stream

GPU=$O/libfuncsnoop-gpu.so

setup() {
	common_setup
	need_bpf
	need_tool jq
	cd "$BATS_TEST_TMPDIR" || return
}

job() { # CASE...
	capture env NVTX_INJECTION64_PATH="$GPU" "$FIX/nvtxjob" "$@"
	assert_stderr ""
}

ranges() { # FIELDS
	rows nvtx range "$1" | sort
}

# bats test_tags=arch
@test "nvtx: times are by range, nested, with self time, from push to pop" {
	fsn attach nvtx
	job nested
	assert_eq "$(ranges "function range calls returns total_ns avg_ns p50_ns max_ns sum_self_ns")" \
		"ranges forward 6 6 600000 100000 100000 100000 600000
ranges step 3 3 750000 250000 250000 250000 150000"
	fsn stats nvtx
	assert_output_match '^FUNCTION +RANGE +SELF +CALLS +CALLS/S +TIME% +TOTAL +AVG +P50 +P99 +MAX$'
	assert_output_match '^ranges +step +150 us +3 +[0-9.k]+ +55\.6 +750 us +250 us '
	assert_output_match '^ranges +forward +600 us +6 +[0-9.k]+ +44\.4 +600 us +100 us '
	fsn stats nvtx --json
	assert_json '.[0].functions[0] | [.total_ns, .outer_ns, .self_ns]' '[1350000,750000,750000]'
	assert_json '[.[0].functions[0].rows[] | [.key.range.name, .calls, .sums.self_ns]] | sort' \
		'[["forward",6,600000],["step",3,150000]]'
	job wide
	fsn stats nvtx --json
	assert_json '.[0].functions[0].rows[].key.range.name | select(startswith("z"))' "zurück €😀"
	fsn detach nvtx
}

@test "nvtx: ranges of domains end in any order, those by number in any thread" {
	fsn attach nvtx
	job domains numbers
	# The time of lib:a includes that of b, which has not ended yet.
	assert_eq "$(ranges "range calls total_ns sum_self_ns")" "b 1 30000 30000
lib:a 1 20000 20000
numbered 40 280000 280000"
	fsn detach nvtx
}

@test "nvtx: no range is recorded without a group, or that began before it" {
	start_bg job env NVTX_INJECTION64_PATH="$GPU" "$FIX/nvtxjob" nested begin outer begin inner wait \
		inside wait end wait end end --wait-end
	wait_line job '^waits '
	fsn attach nvtx
	tell job
	wait_line job '^waits '
	fsn detach nvtx
	fsn attach nvtx
	tell job
	wait_line job '^waits '
	tell job
	wait_line job '^done '
	tell job
	wait_bg job
	fsn stats nvtx --json --all
	assert_json '.[0].functions[0].calls' 0
	fsn detach nvtx
}

@test "nvtx: ranges are by thread and process, and a trace has them in their threads" {
	fsn attach nvtx --by range,tid --sum self_ns
	job threads 8 nested
	fsn stats nvtx --json
	assert_json '[.[0].functions[0].rows[] | select(.key.range.name == "thread") | [.calls, .sums.self_ns]] |
		[length, unique]' '[8,[[1000,1000000]]]'
	assert_json '[.[0].functions[0].processes[] | [.comm, .calls, .total_ns]]' '[["nvtxjob",8009,9350000]]'
	start_stream s nvtx --format chrome -o trace.json
	job nested
	stop_stream s
	jq -c '[.[] | select(.ph == "X")] | [(map(.name) | unique), (map(.tid == .pid) | all), length]' \
		trace.json >seen
	assert_eq "$(<seen)" '[["forward","step"],true,9]'
	fsn detach nvtx
}

# bats test_tags=core,arch
@test "nvtx: all ended ranges count, however the process ends; open ones do not" {
	local how

	fsn attach nvtx
	for how in exit _exit exec term kill; do
		fsn reset nvtx
		env NVTX_INJECTION64_PATH="$GPU" "$FIX/nvtxjob" threads 6 begin a begin b inside leave "$how" || :
		assert_eq "$how: $(ranges "range calls total_ns" | paste -sd ,)" \
			"$how: forward 6 600000,step 3 750000,thread 6000 6000000"
	done
	fsn detach nvtx
}

@test "nvtx: deep ranges, many at once and many names are counted" {
	fsn attach nvtx
	job deep 70
	# The outermost 64 have times.
	assert_eq "$(ranges "range calls total_ns sum_self_ns")" "deep 64 64000 1000"
	fsn reset nvtx
	job many 200000
	assert_eq "$(ranges "range calls total_ns")" "many 200000 20000000"
	# The oldest of those by number, if more than 4096 are open.
	job open 5000 leave _exit
	fsn stats nvtx
	assert_stderr_match '^funcsnoop stats: process [0-9]+: libfuncsnoop-gpu.so dropped 904 records$'
	fsn reset nvtx
	job names 20000
	fsn stats nvtx --json
	assert_json '.[0].functions[0] | .calls' 20000
	fsn detach nvtx
}

# A trap for each would cost more than ten times the CPU time of the job.
@test "nvtx: the cost of ranges is the run time of their program, not a trap for each" {
	local percent

	fsn run nvtx --json -o run.json -- env NVTX_INJECTION64_PATH="$GPU" "$FIX/nvtxjob" many 2000000
	percent=$(sed -nE 's/.*the probes cost ([0-9]+) % .*/\1/p' <<<"$stderr")
	assert_between "${percent:-0}" 0 200
}

@test "nvtx: a forked child has no ranges, and its parent keeps its own" {
	fsn attach nvtx
	job fork
	assert_eq "$(ranges "range calls total_ns")" "parent 1 1000"
	fsn detach nvtx
}

# bats test_tags=arch
@test "nvtx: calls are by the innermost range of their thread" {
	fsn attach own --lib "$FIX/nvtxjob" own_work --by range
	job call 3 begin outer call 5 begin inner call 7 end call 2 end call 1 threads 8 call 2
	assert_eq "$(rows own range "function range calls" | sort)" "own_work [none] 6
own_work inner 7
own_work outer 7
own_work thread 8000
ranges inner 1
ranges outer 1
ranges thread 8000"
	# The child's are not known.
	fsn run --lib "$FIX/nvtxjob" own_work --by range --json -o run.json -- env NVTX_INJECTION64_PATH="$GPU" \
		"$FIX/nvtxjob" call 3 threads 2
	output=$(<run.json)
	assert_json '[.[0].functions[] | .name as $f | .rows[] | [$f, .key.range.name, .calls]] | sort' \
		'[["own_work","[none]",3],["own_work","thread",2000],["ranges","thread",2000]]'
	fsn reset own
	job fork
	assert_eq "$(rows own range "function range calls" | sort)" "own_work [none] 10
ranges parent 1"
	fsn reset own
	job ends
	assert_eq "$(rows own range "function range calls" | sort)" "own_work [none] 2
own_work left 1"
	fsn detach own
}

@test "nvtx: a job that runs has ranges as a key from the attach on, next to other keys" {
	start_bg job env NVTX_INJECTION64_PATH="$GPU" "$FIX/nvtxjob" begin before call 4 wait call 4 begin outer \
		call 3 end call 2 --wait-end
	wait_line job '^waits '
	fsn attach own --lib "$FIX/nvtxjob" own_work --by range,caller,n
	fsn attach calls s:read --by range -p "$(bg_pid job)"
	sleep 0.5
	tell job
	wait_line job '^done '
	fsn stats own --json
	assert_json '[.[0].functions[0].rows[] | [.key.range.name, .calls]] | group_by(.[0]) |
		map([.[0][0], (map(.[1]) | add)])' '[["[none]",6],["outer",3]]'
	assert_json '[.[0].functions[0].rows[].key.caller.name] | unique | map(startswith("main"))' '[true]'
	fsn stats calls --json
	assert_json '[.[0].functions[] | select(.name == "read").rows[].key.range.name] | unique' '["[none]"]'
	fsn detach own calls
	tell job
	wait_bg job
}

@test "nvtx: the headers of NVTX load the library" {
	local inc

	need_tool cc
	inc=$(find /usr/local/cuda*/include -maxdepth 1 -name nvtx3 2>/dev/null | head -n 1)
	[[ $inc ]] || skip "no headers of NVTX"
	cat >real.c <<-'END'
		#include <nvtx3/nvToolsExt.h>
		int main(void)
		{
			nvtxDomainHandle_t lib = nvtxDomainCreateA("lib");
			nvtxEventAttributes_t a = { .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
				.messageType = NVTX_MESSAGE_TYPE_REGISTERED };
			nvtxRangeId_t id = nvtxRangeStartA("whole");

			a.message.registered = nvtxDomainRegisterStringW(lib, L"wide");
			for (int i = 0; i < 10; i++) {
				nvtxRangePushA("step");
				nvtxDomainRangePushEx(lib, &a);
				nvtxDomainRangePop(lib);
				nvtxRangePop();
			}
			nvtxRangeEnd(id);
			return 0;
		}
	END
	cc -O1 -I"${inc%/*}" -o real real.c -ldl
	fsn attach nvtx
	./real
	capture env NVTX_INJECTION64_PATH="$GPU" ./real
	assert_eq "$(ranges "range calls")" "lib:wide 10
step 10
whole 1"
	fsn detach nvtx
}

@test "nvtx: other activity has no ranges, and ranges have no kernels" {
	fsn -s 2 attach gpu --by range
	assert_stderr_match ": --by range: not known for 'kernels'\$"
	fsn -s 2 attach off-cpu --by range
	assert_stderr_match ": --by range: not known for 'off-cpu'\$"
	fsn -s 2 attach nvtx --by kernel
	assert_stderr_match ": --by 'kernel': no function is known to launch kernels\$"
	fsn -s 2 attach nvtx --by stack
	assert_stderr_match ": --by stack: not known for GPU activity\$"
}
