# SPDX-License-Identifier: BSD-2-Clause
# Statistics by process: a full table, processes that have ended, and those whose main thread has.
# bats file_tags=bpf

load helpers
load stream

LIB=$FIX/libengine.so

# A process of the case `children` has twelve records: these fill a table of 32,768.
MANY=3400

attach_dozen() { # ARG...
	need_bpf
	fsn attach g 'eng_dozen_*' --lib "$LIB" "$@"
}

# Sums over the functions of g: CALLS RETURNS of all processes, of the exited ones, and the
# number of lost ones. Functions that differ give a list.
sums() {
	"$FUNCSNOOP" stats g --all --json >"$BATS_TEST_TMPDIR/sums.json"
	jq -rc '.[0] | [([.functions[] | [.calls, .returns]] | unique[] | map(tostring) | join(" ")),
		([.functions[] | .processes[].calls] | add // 0),
		([.functions[] | .processes[].returns] | add // 0),
		([.functions[].ended | .calls] | add // 0),
		([.functions[].ended | .returns] | add // 0),
		.health.lost_processes] | map(tostring) | join(" ")' "$BATS_TEST_TMPDIR/sums.json"
}

# --- more processes than there is room for -----------------------------------------------

assert_sums() { # CALLS: of each of the twelve functions; sets $ended and $lost
	local calls returns seen back ended_back

	read -r calls returns seen back ended ended_back lost < <(sums)
	assert_eq "$calls $returns" "$1 $1" "calls and returns of each function"
	assert_eq "$((seen + ended + lost)) $((back + ended_back + lost))" \
		"$((12 * $1)) $((12 * $1))" "calls and returns by process, ended and lost"
}

@test "processes: a call dropped because the table is full counts as lost once" {
	local ended lost

	attach_dozen
	capture "$FIX/engine" children "$MANY"
	assert_sums "$MANY"
	assert_between "$lost" 1 "$((12 * MANY))"
	fsn detach g
}

@test "processes: records of exited processes are reused, those of live ones stay" {
	local ended lost before

	attach_dozen
	start_bg runs "$FIX/engine" dozen 5 --wait-end
	wait_line runs "^done "
	capture "$FIX/engine" children "$MANY"
	assert_sums "$((MANY + 5))"
	assert_between "$ended" 1 "$((12 * MANY))"
	before=$lost
	capture "$FIX/engine" children 500
	assert_sums "$((MANY + 505))"
	assert_eq "$lost" "$before" "lost"
	fsn stats g --by process --sort calls --format csv
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, 'NR == 2 { print $3, $5, $7, $16 }')" \
		"$(bg_pid runs) runs 60 12"
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, '$4 == "ended" { print $3, $5, $7, $16 }')" \
		"  $ended 12"
	assert_eq "$(awk -F, 'NR > 1 { calls += $7; returns += $8 } END { print calls, returns }' \
		<<<"$output")" "$((12 * (MANY + 505))) $((12 * (MANY + 505)))"
	fsn stats g --by process --top 1
	assert_output_match "^ *-  ended +- +$ended "
	tell runs
	wait_bg runs
	fsn detach g
}

@test "processes: a reset removes the counts of exited processes" {
	local ended lost

	attach_dozen
	for _ in 1 2; do
		capture "$FIX/engine" children "$MANY"
		assert_sums "$MANY"
		assert_between "$ended" 1 "$((12 * MANY))"
		fsn reset g
		assert_sums 0
		assert_eq "$ended $lost" "0 0"
		capture "$FIX/engine" children 10
		assert_sums 10
		assert_eq "$ended $lost" "0 0"
		fsn stats g --reset --json
		assert_json '[.[0].functions[] | [.calls, .ended]] | unique' '[[10,null]]'
	done
	fsn detach g
}

# The state after failed resets: exited processes are summed under one epoch.
@test "processes: a failed reset keeps the counts of live and exited processes" {
	local ctl=$FUNCSNOOP_BPFFS/funcsnoop/g/ctl calls=0 ended lost value i

	need_tool bpftool
	attach_dozen
	for i in 1 2; do
		capture "$FIX/engine" children "$MANY"
		calls=$((calls + MANY))
		assert_sums "$calls"
		assert_between "$ended" 1 "$((12 * calls))"
		capture bpftool -j map dump pinned "$ctl"
		read -ra value < <(json ".[0].value | .[8] = \"0x0$i\" | .[9] = \"0x${i}8\" | join(\" \")")
		capture bpftool map update pinned "$ctl" key 0 0 0 0 value "${value[@]}"
		capture -s 1 bash -c '"$0" stats g --reset --json >/dev/full' "$FUNCSNOOP"
		assert_sums "$calls"
	done
	fsn reset g
	assert_sums 0
	assert_eq "$ended $lost" "0 0"
	fsn detach g
}

# A reader sees a full table as it is, and rows that its owner has folded.
@test "processes: a reader without write permission gets the same sums" {
	local ended lost FUNCSNOOP=$FUNCSNOOP reader=$BATS_TEST_TMPDIR/reader

	need_bpf
	need_tool setpriv
	chmod o+x "${FUNCSNOOP_BPFFS%/*}" "$FUNCSNOOP_BPFFS"
	[[ ! -e $FUNCSNOOP_BPFFS/funcsnoop ]] || rmdir "$FUNCSNOOP_BPFFS/funcsnoop"
	attach_dozen --mode 444
	printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "%s" "$@"\n' \
		"$FUNCSNOOP" >"$reader"
	chmod 755 "$reader"
	capture "$FIX/engine" children "$MANY"
	FUNCSNOOP=$reader assert_sums "$MANY"
	assert_eq "$ended" 0
	fsn list
	FUNCSNOOP=$reader assert_sums "$MANY"
	assert_between "$ended" 1 "$((12 * MANY))"
	fsn detach g
}

@test "processes: stats killed at any moment loses no call and counts none twice" {
	local ended lost

	attach_dozen
	start_bg engine "$FIX/engine" children "$((3 * MANY))"
	while ! bg_ended engine; do
		killed_within 30 "$FUNCSNOOP" stats g >/dev/null
	done
	wait_bg engine
	assert_sums "$((3 * MANY))"
	assert_between "$ended" 1 "$((36 * MANY))"
	fsn detach g
}

@test "processes: intervals add up to all calls while processes are evicted" {
	attach_dozen
	start_bg stats "$FUNCSNOOP" stats g --json --interval 100ms
	poll_until test -s "$(bg_out stats)" # the first reading is made
	capture "$FIX/engine" children "$((2 * MANY))"
	poll_until adds_up
	stop_bg -INT stats
	fsn detach g
}

@test "processes: no series falls when exited processes are evicted" {
	local dir=$BATS_TEST_TMPDIR i files=()

	attach_dozen
	for i in {1..6}; do
		capture "$FIX/engine" children 500
		fsn stats g --by process --top 3 --format prometheus
		cp "$dir/.out" "$dir/$i.prom"
		files+=("$dir/$i.prom")
		assert_eq "$(awk '/^funcsnoop_(calls_total|health.*"lost_processes")/ { n += $NF }
			END { print n }' "$dir/.out")" "$((12 * 500 * i))"
	done
	assert_only_grows "${files[@]}"
	assert_output_match ',pid="others",fold="[1-9]"\} [1-9]'
	fsn detach g
}

# All documents so far, one for each interval.
adds_up() {
	[[ $(jq -cs '[.[][0] | ([.functions[].processes[].calls, .functions[].ended.calls] | add // 0)
		+ .health.lost_processes] | add' "$(bg_out stats)" 2>/dev/null) == "$((24 * MANY))" ]]
}

# --- a process whose main thread has ended -------------------------------------------------

# By a name that no other test's processes map: these would be found and counted, too.
start_headless() { # CALLS
	local file dir=$BATS_TEST_TMPDIR/own

	mkdir -p "$dir"
	for file in engine libengine.so; do
		sed 's/libengine\.so/libheadls.so/g' "$FIX/$file" >"$dir/${file/engine.so/headls.so}"
	done
	chmod +x "$dir"/*
	start_bg engine "$dir/engine" headless "$1" --wait-end
	wait_line engine "^headless "
}

headless_counts() { # MODE [--pid]
	local exit=ret pid=()

	[[ $1 != session ]] || exit=return
	need_link "$1"
	start_headless 5
	[[ -z ${2-} ]] || pid=("$2" "$(bg_pid engine)")
	fsn attach g eng_leaf eng_block --lib libheadls.so --link "$1" --exit "$exit" "${pid[@]}"
	assert_output_match ", mapped by 1 process$"
	assert_ends g "$exit" "$1"
	tell engine
	poll_until bg_says engine "^blocked "
	assert_numbers g "eng_block 5 0 0 5 0 0
eng_leaf 5 0 5 0 0 0"
	fsn list inflight g --json
	assert_json 'map(.stale) | tojson' "[false,false,false,false,false]"
	fsn stats g --by process
	assert_output_match "^ *$(bg_pid engine)  engine +runs +10 "
	tell engine
	poll_until bg_says engine "^done "
	tell engine
	wait_bg engine
	assert_numbers g "eng_block 5 0 5 0 0 0
eng_leaf 5 0 5 0 0 0"
	fsn stats g --by process
	assert_output_match "^ *[0-9]+  engine +ended +10 "
	fsn detach g
}

# Once it is found by its mappings, once it is requested by --pid.
case_headless() { # MODE
	headless_counts "$1"
	headless_counts "$1" --pid
}

# Its main thread ends when the group is there.
case_beheaded() { # MODE
	local exit=ret

	[[ $1 != session ]] || exit=return
	need_link "$1"
	start_bg engine "$FIX/engine" headless 100 --wait
	wait_ready engine
	fsn attach g eng_leaf --lib "$LIB" --link "$1" --exit "$exit" --pid "$(bg_pid engine)"
	tell engine
	poll_until bg_says engine "^headless "
	tell engine
	poll_until bg_says engine "^blocked "
	tell engine
	wait_bg engine
	assert_numbers g "eng_leaf 100 0 100 0 0 0"
	fsn detach g
}

@test "processes: a process whose main thread exited is probed and counted (session)" {
	case_headless session
}
@test "processes: a process whose main thread exited is probed and counted (multi)" {
	case_headless multi
}
@test "processes: a process whose main thread exited is probed and counted (perf)" {
	case_headless perf
}

@test "processes: calls still count after the main thread exits (session)" {
	case_beheaded session
}
@test "processes: calls still count after the main thread exits (multi)" {
	case_beheaded multi
}
@test "processes: calls still count after the main thread exits (perf)" {
	case_beheaded perf
}

# Nothing in it ends threads, so that the kernel filters.
@test "processes: perf links probe only the --pid process while its main thread lives" {
	need_link perf
	start_bg asked "$FIX/call" --wait --wait-end add 10
	start_bg other "$FIX/call" --wait --wait-end add 10
	wait_ready asked
	wait_ready other
	fsn attach g fix_add --lib "$FIX/libfix.so" --link perf --pid "$(bg_pid asked)"
	code_is_whole "$(bg_pid other)" "$(realpath "$FIX/libfix.so")"
	if code_is_whole "$(bg_pid asked)" "$(realpath "$FIX/libfix.so")"; then
		fail "no breakpoint in the process that was asked for"
	fi
	tell asked
	tell other
	wait_line asked "^done "
	wait_line other "^done "
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn detach g
	tell asked
	tell other
	wait_bg asked
	wait_bg other
}

# --- where they run ---------------------------------------------------------------------------

CONTAINER=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
POD=8c5d5d3e-0b52-4f2a-9c55-1f3a55aa0c01

# COMMAND in a cgroup below the test's own, which outlives it.
in_cgroup() { # PATH COMMAND...
	mkdir -p "$CGROUP/$1"
	# shellcheck disable=SC2016	# for the inner shell
	capture bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$CGROUP/$1" "${@:2}"
}

# Which pods come and go while others stay is for no series a reason to have less.
@test "processes: no series by cgroup falls when cgroups go and rows are evicted" {
	local dir=$BATS_TEST_TMPDIR at i files=()

	own_cgroup cgroup.procs "no cgroup v2"
	fsn attach g fix_add --lib "$FIX/libfix.so" --key cgroup --keys 16
	for i in {1..20}; do
		in_cgroup "stays" "$FIX/call" add "$i"
		in_cgroup "goes$i" "$FIX/call" add 3
		((i < 4)) || rmdir "$CGROUP/goes$((i - 3))"
		fsn stats g --by cgroup --top 2 --format prometheus
		cp "$dir/.out" "$dir/$i.prom"
		files+=("$dir/$i.prom")
	done
	assert_only_grows "${files[@]}"
	assert_output_match ',cgroup="others",fold="[2-9]",after="[0-9]+"\} [1-9]'
	fsn detach g
}

# PATH,POD,CONTAINER,JOB,UNIT,CALLS of each.
by_cgroup() { # GROUP [ARG...]
	fsn stats "$@" --by cgroup --format csv
	sed -E '1d; s/^[^,]*,[^,]*,[^,]*,[^,]*,//' <<<"$output" | cut -d , -f 1-6
}

@test "processes: shown by container, pod, job and unit, in tables and keys" {
	local group want at scope=cri-containerd-$CONTAINER.scope
	local pod=kubepods-burstable-pod${POD//-/_}.slice

	need_bpf
	own_cgroup cgroup.procs "no cgroup v2"
	at=/${CGROUP##*/}
	fsn attach --mode 0644 g fix_add --lib "$FIX/libfix.so"
	fsn attach --mode 0644 k fix_add --lib "$FIX/libfix.so" --key cgroup,result
	in_cgroup "$pod/$scope" "$FIX/call" add 7
	in_cgroup "$pod/$scope" "$FIX/call" add 2
	in_cgroup slurm/uid_0/job_42/step_0 "$FIX/call" add 3
	in_cgroup nginx.service "$FIX/call" add 4
	want="$at/$pod/$scope,$POD,$CONTAINER,,,9
$at/slurm/uid_0/job_42/step_0,,,42,,3
$at/nginx.service,,,,nginx.service,4"
	for group in g k; do
		assert_eq "$(by_cgroup "$group" | sort)" "$(sort <<<"$want")" "$group"
	done
	fsn stats g --by cgroup --top 1 --sort calls
	assert_output_match "^fix_add +$at/$pod/$scope +$POD +0123456789ab +9 "
	refute_output_match job_42

	fsn stats g --format prometheus --by cgroup
	assert_eq "$(sed -nE 's/^funcsnoop_calls_total\{.*,(cgroup=.*)\} /\1 /p' <<<"$output")" \
		"cgroup=\"others\" 0
cgroup=\"$at/$pod/$scope\",pod_uid=\"$POD\",container_id=\"$CONTAINER\" 9
cgroup=\"$at/slurm/uid_0/job_42/step_0\",slurm_job=\"42\" 3
cgroup=\"$at/nginx.service\",unit=\"nginx.service\" 4"
	capture bash -c 'printf "GET /metrics HTTP/1.0\r\n\r\n" | "$0" serve --inetd --by cgroup g' \
		"$FUNCSNOOP"
	assert_output_match ",pod_uid=\"$POD\",container_id=\"$CONTAINER\"\} 9\$"

	fsn stats g --json
	assert_json '[.[0].functions[0].processes[].cgroup.slurm_job] | map(select(.)) | join(" ")' 42
	assert_json '.[0].functions[0].processes[0].cgroup' "{\"container_id\":\"$CONTAINER\",\"path\":\"$at/$pod/$scope\",\"pod_uid\":\"$POD\",\"slurm_job\":null,\"unit\":null}"
	fsn stats k --json
	assert_json '[.[0].functions[0].rows[] | .key.cgroup.unit // empty] | unique | join(" ")' nginx.service
	start_stream seen k -n 1 --json
	in_cgroup nginx.service "$FIX/call" add 1
	wait_bg seen
	assert_eq "$(jq -r 'select(.type == "call") | .key.cgroup.unit' <<<"$output")" nginx.service

	rmdir "$CGROUP/$pod/$scope"
	for group in g k; do
		assert_eq "$(by_cgroup "$group" | grep others)" "others,,,,,9" "$group, which is gone"
	done
	find "$CGROUP" -depth -type d -exec rmdir {} +
	fsn detach g k
}
