# SPDX-License-Identifier: BSD-2-Clause
# Faults: killed and concurrent commands, full tables, changing libraries and CPUs, failing
# system calls and allocations, and very large numbers.
#
#	FSN_KILLS=100	 how often each command is killed (3)
#	FSN_SEED=N	 at which moments (57)
#	FSN_HOTPLUG=1	 also with FSN_SHARED=1 a processor goes and comes back
#	FSN_STEP=1	 every allocation fails once, not one of nine
#	FSN_GROUPS=1000	 how many groups at once, where memory is free (24)
#
# bats file_tags=bpf

load helpers

FOLDER=$FUNCSNOOP_BPFFS/funcsnoop
KILLS=${FSN_KILLS:-3}
BOTH=(fix_add fix_ret --lib "$FIX/libfix.so")

calls_of() { # FUNCTION: calls and returns now
	fsn stats g --json
	json --arg f "$1" '[.[0].functions[] | select(.name == $f)]
		| "\(map(.calls) | add // 0) \(map(.returns) | add // 0)"'
}

counts() { # calls and returns of fix_add and fix_ret, with so many ADDed, RETurned
	fsn stats g --json
	json --argjson add "${1-0}" --argjson ret "${2-0}" '[.[0].functions[]
		| {(.name): [.calls, .returns]}] | add
		| [(.fix_add // [0, 0])[] + $add, (.fix_ret // [0, 0])[] + $ret]'
}

# The group g has both functions, and counts them.
whole() {
	local want

	assert_eq "$(groups)" "g"
	want=$(counts 10 5)
	capture "$FIX/call" add 10
	capture "$FIX/call" ret 5
	assert_eq "$(counts)" "$want" "calls and returns of fix_add and fix_ret"
}

nothing() { # is left
	poll_until holds_only ""
}

whole_or_nothing() {
	if [[ -n $(groups) ]]; then whole; else nothing; fi
}

all_gone() {
	fsn detach --all
	nothing
	[[ -n ${FSN_SHARED-} ]] || poll_until no_new_objects
}

have_group() {
	[[ -d $FOLDER/g ]] || fsn attach g "${BOTH[@]}"
}

have_none() {
	[[ ! -d $FOLDER/g ]] || fsn detach g
}

# --- killed ---------------------------------------------------------------------------

# Runs the command as often as asked for, each time killed at another moment.
killed() { # BEFORE AFTER ARG...
	local i span

	need_bpf
	"$1"
	span=$(ms_of "$FUNCSNOOP" "${@:3}")
	RANDOM=${FSN_SEED:-57}
	for ((i = 0; i < KILLS; i++)); do
		"$1"
		killed_within "$span" "$FUNCSNOOP" "${@:3}" >"$BATS_TEST_TMPDIR/said"
		"$2" || fail "round $i"
	done
	all_gone
}

@test "attach: killed at any moment, it leaves a complete group or none" {
	killed have_none whole_or_nothing attach g "${BOTH[@]}"
}

have_old_group() {
	have_none
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 3
}

# The old group still has its counters.
old_or_new() {
	fsn list functions g --json
	if [[ $(json '.[0].functions | length') == 2 ]]; then
		whole
	else
		assert_eq "$(calls_of fix_add)" "3 3"
		capture "$FIX/call" add 10
		assert_eq "$(calls_of fix_add)" "13 13"
	fi
	poll_until holds_only g
}

@test "attach --replace: killed at any moment, it leaves the old or the new group" {
	killed have_old_group old_or_new attach g --replace "${BOTH[@]}"
}

holds_nothing() {
	[[ -z $(find "$FOLDER" -mindepth 1) ]]
}

# One that died while the kernel puts its probes into running processes would leave them.
@test "attach: killed while it probes, it leaves no probe in running processes" {
	local lib=$BATS_TEST_TMPDIR/libstdc++.so.6 i

	need_bpf
	cp "$(realpath "$(c++ -print-file-name=libstdc++.so.6)")" "$lib"
	LD_PRELOAD=$lib start_bg call "$FIX/call" --wait-end add 1
	wait_line call "^done "
	for ((i = 0; i < 6; i++)); do
		start_bg attach "$FUNCSNOOP" attach g '*' --lib "$lib"
		while code_is_whole "$(bg_pid call)" "$lib" >/dev/null; do :; done
		# It may have been quicker.
		kill -KILL "$(bg_pid attach)" 2>/dev/null || true
		wait_bg -s any attach
		have_none
		poll_until holds_nothing
		# Not at once: who lists links (others may) holds each for a moment.
		poll_until code_is_whole "$(bg_pid call)" "$lib" >/dev/null ||
			fail "probes are left in round $i"
	done
	tell call
	wait_bg call
}

# The processes of that name that have MARK in their environment.
helpers_of() { # COMM MARK
	local file

	for file in $(grep -lx "$1" /proc/[0-9]*/comm 2>/dev/null); do
		! grep -qz "^MARK=$2\$" "${file%comm}environ" 2>/dev/null || echo "$file" | cut -d/ -f3
	done
}

has_helper() { # COMM MARK
	[[ -n $(helpers_of "$@") ]]
}

@test "attach: a killed helper process does not end it" {
	local mark=$BATS_TEST_TMPDIR/mark helper

	need_bpf
	need_tool strace
	for helper in funcsnoop-for funcsnoop-bound; do
		start_bg attach env -u FUNCSNOOP_GUARD MARK="$mark" strace -qq -o /dev/null -e trace=bpf \
			-e inject=bpf:delay_enter=40000 "$FUNCSNOOP" attach g "${BOTH[@]}" --duration 100
		poll_until -t 60 has_helper "$helper" "$mark"
		kill -KILL "$(helpers_of "$helper" "$mark")"
		wait_bg attach
		whole
		all_gone
	done
}

@test "detach: killed at any moment, it leaves a complete group or none" {
	killed have_group whole_or_nothing detach g
}

have_calls() {
	have_group
	fsn reset g
	capture "$FIX/call" add 20
	capture "$FIX/call" ret 20
}

# Both functions or none are reset, and the group is complete.
reset_or_not() {
	[[ $(counts) =~ ^\[(0,0,0,0|20,20,20,20)\]$ ]] || fail "$(counts)"
	whole
}

@test "reset: killed at any moment, it resets all functions or none" {
	killed have_calls reset_or_not reset g
}

@test "stats --reset: killed at any moment, it resets all functions or none" {
	killed have_calls reset_or_not stats g --reset --json
}

have_no_slow() {
	have_group
	fsn set g --slow off
	fsn reset g
}

# Settings are written function by function: each is the old or the new one.
slow_or_not() {
	capture "$FIX/call" add 20
	fsn stats g --json
	[[ $(json '.[0].functions[0].slow') =~ ^(0|20)$ ]] || fail "$output"
	fsn set g --slow 0ns
	fsn reset g
	capture "$FIX/call" add 20
	capture "$FIX/call" ret 20
	fsn stats g --json
	assert_json '.[0].functions | map(.slow)' '[20,20]'
}

@test "set: killed at any moment, it leaves settings that can be changed again" {
	killed have_no_slow slow_or_not set g --slow 0ns
}

@test "stream: killed at any moment, it leaves a group that counts and can be streamed" {
	local i

	need_tool bpftool
	killed have_group whole stream g --json -d 0.3
	have_group
	for i in 1 2 3 4 5 6 7 8; do
		start_bg "dead$i" "$FUNCSNOOP" stream g --json
		poll_until grep -q watching "$(bg_err "dead$i")"
		stop_bg -KILL "dead$i"
	done
	# All places were taken; their leases run out.
	poll_until "$FUNCSNOOP" stream g --quiet -d 0.01
	start_bg alive "$FUNCSNOOP" stream g --json -n 15
	poll_until grep -q watching "$(bg_err alive)"
	whole
	wait_bg alive
	assert_eq "$(jq -r .function <<<"$output" | sort | uniq -c | xargs)" "10 fix_add 5 fix_ret"
	poll_until nobody_streams
	all_gone
}

# The first call after a lease has run out sees it: struct fsn_ctl, the fourth word.
nobody_streams() {
	"$FIX/call" add 1 >/dev/null
	bpftool -j map dump pinned "$FOLDER/g/ctl" |
		jq -e '.[0].value[12:16] | unique == ["0x00"]' >/dev/null
}

@test "list: killed at any moment, it changes nothing" {
	killed have_group whole list
}

@test "stats: killed at any moment, it changes nothing" {
	killed have_group whole stats --json
}

# Experiments run in children, with probes and pins of their own.
@test "feature: killed at any moment, it leaves no probe and no process" {
	feature_gone() {
		poll_until no_test_processes
		whole
	}
	killed have_group feature_gone feature
}

# --- several at once ------------------------------------------------------------------

@test "detach: one of several detaches of one group succeeds" {
	local i good=0

	need_bpf
	have_group
	for i in 1 2 3 4; do
		start_bg "detach$i" "$FUNCSNOOP" detach g
	done
	for i in 1 2 3 4; do
		wait_bg -s any "detach$i"
		if ((status)); then
			assert_stderr_match "^funcsnoop detach: no group 'g' is attached$"
		else
			((++good))
		fi
	done
	assert_eq "$good" 1
	nothing
}

@test "attach: all of several replacements succeed, and the last one is complete" {
	local i

	need_bpf
	have_group
	for i in 1 2 3 4; do
		start_bg "attach$i" "$FUNCSNOOP" attach g --replace "${BOTH[@]}"
	done
	for i in 1 2 3 4; do
		wait_bg "attach$i"
	done
	whole
	poll_until holds_only g
	all_gone
}

@test "reset: concurrent resets and readings have each call in exactly one reading" {
	local i made

	need_bpf
	have_group
	start_bg call "$FIX/call" --threads 2 --until-line add
	wait_line call "^running "
	for i in 1 2 3 4 5 6; do
		start_bg "reset$i" "$FUNCSNOOP" stats g --reset --json
	done
	for i in 1 2 3 4 5 6; do
		wait_bg "reset$i"
		assert_sound
		printf '%s\n' "$output" >>"$BATS_TEST_TMPDIR/readings"
	done
	tell call
	wait_bg call
	made=$(sed -n 's/^result .* calls=\([0-9]*\).*/\1/p' <<<"$output")
	fsn stats g --json
	printf '%s\n' "$output" >>"$BATS_TEST_TMPDIR/readings"
	assert_eq "$(jq -s '[.[][].functions[].calls] | add' "$BATS_TEST_TMPDIR/readings")" "$made"
	all_gone
}

@test "set: concurrent commands leave the setting of one for all functions" {
	local i

	need_bpf
	have_none
	# Where a probe is slow, its correction can leave less than 2 ns of a call.
	fsn attach g "${BOTH[@]}" --without correction
	for i in 0ns 2ns 10s 11s; do
		start_bg "set$i" "$FUNCSNOOP" set g --slow "$i"
	done
	for i in 0ns 2ns 10s 11s; do
		wait_bg "set$i"
	done
	fsn reset g
	capture "$FIX/call" add 20
	capture "$FIX/call" ret 20
	fsn stats g --json
	json '.[0].functions | map(.slow) | unique' | grep -qxE '\[(0|20)\]' || fail "$output"
	all_gone
}

# A command may fail because the group is gone; all others work, and finally it is complete.
@test "faults: concurrent commands of all kinds leave a complete group or none" {
	local i names=(replace detach reset set stats list stream)
	local -A cmd=(
		[replace]="attach g --replace ${BOTH[*]}" [detach]="detach g" [reset]="reset g"
		[set]="set g --slow 1ms" [stats]="stats g --json" [list]="list --json"
		[stream]="stream g --json -d 0.2"
	)

	need_bpf
	for _ in 1 2; do
		have_group
		for i in "${names[@]}"; do
			# shellcheck disable=SC2086	# several words
			start_bg "$i" "$FUNCSNOOP" ${cmd[$i]}
		done
		capture "$FIX/call" add 50
		for i in "${names[@]}"; do
			wait_bg -s any "$i"
			((status < 2)) || fail "'$i' ended with $status"
			((status == 0)) || assert_stderr_match \
				"^funcsnoop (detach|reset|set|stats|stream): (no group 'g' is attached|group 'g' (is|was) (gone|detached|replaced))"
		done
		whole_or_nothing
		fsn detach --all
		nothing
	done
}

# --- no room --------------------------------------------------------------------------

# A bpffs takes no size; one that is read-only can't be pinned into, either.
@test "attach: an error if nothing can be pinned; attached groups stay intact" {
	local bpffs=$BATS_TEST_TMPDIR/ro

	need_bpf
	mkdir "$bpffs"
	mount -t bpf bpf "$bpffs"
	export FUNCSNOOP_BPFFS=$bpffs
	fsn attach g "${BOTH[@]}"
	mount -o remount,ro "$bpffs"
	fsn -s 1 attach h "${BOTH[@]}"
	assert_stderr_match "^funcsnoop attach: .*: Read-only file system$"
	fsn -s 1 attach g --replace "${BOTH[@]}"
	assert_stderr_match ": Read-only file system$"
	fsn -s 1 detach g
	assert_stderr_match "^funcsnoop detach: .*: Read-only file system$"
	mount -o remount,rw "$bpffs"
	whole
	fsn detach g
	assert_eq "$(find "$bpffs/funcsnoop" -mindepth 1)" ""
	umount "$bpffs"
}

@test "faults: groups of an unmounted bpffs are gone, and later commands say so" {
	local bpffs=$BATS_TEST_TMPDIR/gone

	need_bpf
	mkdir "$bpffs"
	mount -t bpf bpf "$bpffs"
	export FUNCSNOOP_BPFFS=$bpffs
	fsn attach g "${BOTH[@]}"
	start_bg stream "$FUNCSNOOP" stream g --json
	poll_until grep -q watching "$(bg_err stream)"
	start_bg watch "$FUNCSNOOP" stats g -i 0.2
	umount -l "$bpffs"
	# A command with open maps continues with them, or reports that the group is gone.
	capture "$FIX/call" add 10
	stop_bg -INT stream
	[[ $status == [01] ]] || fail "stream: $status"
	stop_bg -INT watch
	[[ $status == [01] ]] || fail "stats: $status"
	fsn -s 1 stats g
	assert_stderr_match "^funcsnoop stats: '$bpffs' is not a bpffs$"
	fsn -s 1 attach g "${BOTH[@]}"
	fsn -s 1 detach --all
	assert_eq "$(find "$bpffs")" "$bpffs"
	mount -t bpf bpf "$bpffs"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn attach g "${BOTH[@]}"
	whole
	fsn detach g
	umount "$bpffs"
}

@test "faults: with few descriptors or little memory, results are right or an error" {
	local n limit bad=0

	need_bpf
	need_no_sanitizer
	need_tool prlimit
	have_group
	capture "$FIX/call" add 20
	for limit in nofile={5,8,12,24} as={24,32,40,48}000000; do
		capture -s any prlimit "--$limit" "$FUNCSNOOP" stats g --json
		# Without memory the program is not even loaded.
		((status != 127)) || continue
		case $status in
		0) assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",20]]' ;;
		1) assert_stderr_match "^funcsnoop" && ((++bad)) ;;
		*) fail "$limit: status $status" ;;
		esac
		capture -s any prlimit "--$limit" "$FUNCSNOOP" attach h "${BOTH[@]}"
		[[ $status == [01] ]] || fail "$limit: status $status"
		if ((status)); then
			assert_stderr_match "^funcsnoop"
			assert_eq "$(groups)" "g"
		else
			assert_eq "$(groups)" "g h"
			capture -s any prlimit "--$limit" "$FUNCSNOOP" detach h
			[[ $status == [01] ]] || fail "$limit: status $status"
			[[ ! -d $FOLDER/h ]] || fsn detach h
		fi
	done
	((bad > 2)) || fail "only $bad limits were too low: they test nothing"
	whole
	all_gone
}

# The maps of a group are charged to the cgroup that attaches it.
@test "attach: fails or is killed if its cgroup lacks memory, and leaves nothing" {
	need_bpf
	own_cgroup memory.max "no memory controller in cgroup v2"
	echo 6000000 >"$CGROUP/memory.max"
	echo 0 >"$CGROUP/memory.swap.max" 2>/dev/null || true
	capture -s any "${IN_CGROUP[@]}" "$FUNCSNOOP" attach g "${BOTH[@]}"
	rmdir "$CGROUP"
	[[ $status != 0 ]] || fail "6 MB are enough: this tests nothing"
	[[ $status == 137 ]] || assert_stderr_match "^funcsnoop( attach: .*|: )Cannot allocate memory$"
	nothing
	have_group
	whole
	all_gone
}

# --- the library changes ----------------------------------------------------------------

# A copy of the library and the program, in $dir.
private_copy() {
	dir=$BATS_TEST_TMPDIR/copy
	mkdir "$dir"
	cp "$FIX/call" "$FIX/libfix.so.1" "$dir"
}

stale() {
	fsn list --json
	json '.[0].stale'
}

@test "attach: calls of a replaced library count, and its group is stale" {
	local dir

	need_bpf
	private_copy
	fsn attach g fix_add fix_ret --lib "$dir/libfix.so.1"
	start_bg old "$dir/call" --wait add 20
	wait_ready old
	cp "$dir/libfix.so.1" "$dir/new"
	mv "$dir/new" "$dir/libfix.so.1"
	assert_eq "$(stale)" true
	capture "$dir/call" add 7
	tell old
	wait_bg old
	assert_eq "$(calls_of fix_add)" "20 20"
	# Again attached it is the new file that is probed.
	fsn attach g fix_add fix_ret --lib "$dir/libfix.so.1" --replace
	assert_eq "$(stale)" false
	capture "$dir/call" add 7
	assert_eq "$(calls_of fix_add)" "7 7"
	all_gone
}

@test "faults: processes of a deleted library still count, and detach works" {
	local dir

	need_bpf
	private_copy
	fsn attach g fix_add fix_ret --lib "$dir/libfix.so.1"
	start_bg old "$dir/call" --wait --wait-end add 20
	wait_ready old
	rm "$dir/libfix.so.1"
	assert_eq "$(stale)" true
	tell old
	wait_line old "^done "
	assert_eq "$(calls_of fix_add)" "20 20"
	fsn detach g
	tell old
	wait_bg old
	nothing
}

@test "faults: numbers stay if the library is truncated or overwritten; detach works" {
	local dir

	need_bpf
	private_copy
	fsn attach g fix_add fix_ret --lib "$dir/libfix.so.1"
	capture "$dir/call" add 20
	truncate -s 0 "$dir/libfix.so.1"
	assert_eq "$(stale)" true
	assert_eq "$(calls_of fix_add)" "20 20"
	fsn reset g
	fsn -s 1 attach h fix_add --lib "$dir/libfix.so.1"
	fsn -s 1 attach g fix_add --lib "$dir/libfix.so.1" --replace
	assert_eq "$(groups)" "g"
	# The same inode with other content: the probes are still at the same places.
	cat "$FIX/libfix.so.1" >"$dir/libfix.so.1"
	assert_eq "$(stale)" true
	capture "$dir/call" add 20
	fsn stats g --json
	assert_sound
	all_gone
}

@test "faults: a group is stale after overlayfs copies up its library" {
	local dir merged=$BATS_TEST_TMPDIR/merged

	need_bpf
	private_copy
	mkdir "$BATS_TEST_TMPDIR"/{over,upper,work,merged}
	mount -t tmpfs tmpfs "$BATS_TEST_TMPDIR/over"
	mkdir "$BATS_TEST_TMPDIR"/over/{upper,work}
	mount -t overlay overlay -o "lowerdir=$dir,upperdir=$BATS_TEST_TMPDIR/over/upper,workdir=$BATS_TEST_TMPDIR/over/work" \
		"$merged" || skip "no overlayfs"
	fsn attach g fix_add fix_ret --lib "$merged/libfix.so.1"
	capture "$merged/call" add 20
	assert_eq "$(calls_of fix_add)" "20 20"
	touch "$merged/libfix.so.1"
	assert_eq "$(stale)" true
	fsn attach g fix_add fix_ret --lib "$merged/libfix.so.1" --replace
	capture "$merged/call" add 7
	assert_eq "$(calls_of fix_add)" "7 7"
	all_gone
	umount -l "$merged" "$BATS_TEST_TMPDIR/over"
}

@test "faults: numbers stay if the library's mount namespace is gone; detach works" {
	local dir mnt=$BATS_TEST_TMPDIR/mnt

	need_bpf
	private_copy
	mkdir "$mnt"
	# shellcheck disable=SC2016	# for the inner shell
	start_bg other unshare --mount --propagation private bash -c '
		mount -t tmpfs tmpfs "$1" && cp "$0"/* "$1" && exec "$1/call" --wait --wait-end add 20
	' "$dir" "$mnt"
	wait_ready other
	fsn attach g fix_add fix_ret --lib libfix.so.1 --pid "$(bg_pid other)"
	tell other
	wait_line other "^done "
	tell other
	wait_bg other
	assert_eq "$(calls_of fix_add)" "20 20"
	fsn list --json
	all_gone
}

# --- processes and processors -----------------------------------------------------------

@test "faults: a process killed during calls leaves no call in flight" {
	local i

	need_bpf
	have_group
	RANDOM=${FSN_SEED:-57}
	for i in 1 2 3; do
		start_bg call "$FIX/call" --threads 8 --until-line add
		wait_line call "^running "
		sleep "0.0$((RANDOM % 10))"
		stop_bg -KILL call
		fsn stats g --json
		assert_sound
		assert_json '[.[0].functions[] | .in_flight] | add' 0
		assert_json_true '.[0].functions[0] | .calls == .returns + .abandoned'
	done
	fsn list inflight --all --json
	assert_output '{"version":1,"calls":[]}'
	all_gone
}

ONLINE=/sys/devices/system/cpu/cpu1/online

teardown() {
	[[ ! -e $BATS_TEST_TMPDIR/offline ]] || echo 1 >$ONLINE
	common_teardown
}

# Alone: a processor goes and comes back.
# bats test_tags=alone
@test "faults: a CPU that goes offline and online loses no count" {
	need_bpf
	[[ -z ${FSN_SHARED-} || -n ${FSN_HOTPLUG-} ]] || skip "others use this machine"
	[[ -w $ONLINE && $(<$ONLINE) == 1 ]] || skip "cpu1 can't be switched off: no $ONLINE"
	have_group
	fsn attach cpu
	capture "$FIX/call" --cpu 1 add 20
	touch "$BATS_TEST_TMPDIR/offline"
	echo 0 >$ONLINE 2>/dev/null || skip "this machine does not let cpu1 go"
	fsn attach h "${BOTH[@]}"
	capture "$FIX/call" add 20
	assert_eq "$(calls_of fix_add)" "40 40"
	fsn reset g
	echo 1 >$ONLINE
	rm "$BATS_TEST_TMPDIR/offline"
	capture "$FIX/call" --cpu 1 add 20
	assert_eq "$(calls_of fix_add)" "20 20"
	fsn stats cpu
	assert_stderr_match "1 CPU was switched off since the attach, and not sampled, also when back: attach again"
	fsn stats cpu --json
	assert_json '.[0].health.cpus_off' 1
	fsn detach cpu
	fsn stats h --json
	assert_json '.[0].functions | map(.calls)' '[40]'
	all_gone
}

# --- many groups --------------------------------------------------------------------------

# A group takes about 9 MB of the kernel's memory.
@test "faults: list, stats and detach work with many groups" {
	local i n=${FSN_GROUPS:-24} free dir

	need_bpf
	free=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
	((n * 12 < free / 2)) || n=$((free / 24))
	((n > 2)) || skip "only $free MB of memory are free"
	private_copy
	# A configuration has at most 256.
	for ((i = 0; i < n; i += 200)); do
		jq -n --argjson from "$i" --argjson to "$((i + 200 < n ? i + 200 : n))" \
			'[range($from; $to) | {"m\(.)_sym": {"a": "fix_add"}}] | add' \
			>"$BATS_TEST_TMPDIR/many.json"
		fsn -t 900 attach --config "$BATS_TEST_TMPDIR/many.json" --lib "$dir/libfix.so.1" --quiet
	done
	capture "$dir/call" add 20
	echo "# $n groups: list $(ms_of "$FUNCSNOOP" list) ms, stats $(ms_of "$FUNCSNOOP" stats) ms" >&3
	fsn -t 600 list --json
	assert_json 'length' "$n"
	assert_json 'map(.calls) | unique' '[20]'
	fsn -t 600 stats --json
	assert_json 'map(.functions[].calls) | [length, add]' "[$n,$((20 * n))]"
	echo "# detach --all $(ms_of "$FUNCSNOOP" detach --all) ms" >&3
	nothing
}

# --- other layouts, parts ---------------------------------------------------------------

@test "faults: a group of an older layout can only be listed and detached" {
	local bytes command

	need_bpf
	need_tool bpftool
	have_group
	capture bpftool -j map dump pinned "$FOLDER/g/meta"
	read -ra bytes < <(json '.[0].value | .[0] = "0x01" | join(" ")')
	capture bpftool map update pinned "$FOLDER/g/meta" key 0 0 0 0 value "${bytes[@]}"
	for command in "stats g" "stats g --reset" "reset g" "reset" "set g --slow 1ms" "stream g -d 1" \
		"list inflight g" "list functions g"; do
		# shellcheck disable=SC2086	# several words
		fsn -s 1 $command
		assert_output ""
		assert_stderr_match "^funcsnoop [a-z]+: group 'g' has layout 1, this command reads layout [0-9]+$"
	done
	fsn list --json
	assert_json '.[0] | [.name, .calls, (.error | test("layout 1"))]' '["g",null,true]'
	all_gone
}

@test "faults: the error of a damaged group names the missing map; detach works" {
	local part

	need_bpf
	have_group
	for part in ctl stats procs text pids link_0; do
		have_group
		rm "$FOLDER/g/$part"
		fsn -t 20 list --json
		assert_json 'map(.name)' '["g"]'
		if [[ $part != link_* ]]; then
			assert_json_true ".[0].error | test(\"$part\")"
			fsn -s 1 stats g
			assert_stderr_match "'$part'"
			fsn -s 1 reset g
			fsn -s 1 stream g -d 1
		fi
		fsn detach g
		nothing
	done
}

@test "list: shows the error of a group with keys if a map is missing" {
	local part

	need_bpf
	fsn attach g "${BOTH[@]}" --key arg1 --sum arg2
	for part in args funcs text libs; do
		mv "$FOLDER/g/$part" "$FOLDER/away"
		fsn list --json
		assert_json '[.[] | [.name, (.error | test("'"'$part'"'"))]]' '[["g",true]]'
		fsn list -v
		fsn -s 1 stats g
		mv "$FOLDER/away" "$FOLDER/g/$part"
	done
	fsn detach g
	nothing
}

# --- what fails inside --------------------------------------------------------------------

# A selection: `tests/inject` alone tries every call.
@test "faults: failing system calls give right numbers or a clear error" {
	need_bpf
	need_no_sanitizer
	need_tool strace
	capture -t 500 tests/inject -O "$O" --every 127 --errors ENOMEM,EINTR attach replace
	assert_output_match "^[1-9][0-9]* injections, 0 failed$"
	capture -t 500 tests/inject -O "$O" --every 61 --errors EPERM detach set reset \
		stats stats-reset list stream
	assert_output_match "^[1-9][0-9]* injections, 0 failed$"
	capture -t 500 tests/inject -O "$O" --every 67 --errors KILL attach replace detach
	assert_output_match "^[1-9][0-9]* injections, 0 failed$"
}

# The calls that change a group; opening and closing surround them.
@test "set: changes both of two filters or none if any call fails" {
	need_bpf
	need_no_sanitizer
	need_tool strace
	capture -t 500 tests/inject -O "$O" --only bpf,mmap --every 9 --errors EPERM set-filters
	assert_output_match "^[1-9][0-9]* injections, 0 failed$"
}

# Fails each STEPth allocation of a command: it prints the same as without faults, or fails
# with a message. FILTER reads its output.
allocations() { # STEP FILTER ARG...
	local n count right

	capture env FAIL_COUNT="$BATS_TEST_TMPDIR/count" LD_PRELOAD="$FIX/failalloc.so" \
		"$FUNCSNOOP" "${@:3}"
	count=$(<"$BATS_TEST_TMPDIR/count")
	((count > 10)) || fail "$count allocations"
	right=$(json "$2")
	for ((n = 1 + RANDOM % $1; n <= count; n += $1)); do
		capture -s any env FAIL_AT="$n" LD_PRELOAD="$FIX/failalloc.so" "$FUNCSNOOP" "${@:3}"
		case $status in
		0) assert_eq "$(json "$2")" "$right" "allocation $n of $count" ;;
		1) assert_stderr_match "^funcsnoop" ;;
		*) fail "allocation $n of $count: status $status" ;;
		esac
	done
}

@test "faults: failing allocations give right numbers or a clear error" {
	local functions='.[0].functions | map([.name, .calls])'

	need_bpf
	need_no_sanitizer
	need_fixture failalloc.so
	RANDOM=${FSN_SEED:-57}
	have_group
	capture "$FIX/call" add 20
	allocations "${FSN_STEP:-9}" "$functions" attach h "${BOTH[@]}" --dry-run --json
	allocations "${FSN_STEP:-9}" "$functions" stats g --json
	# A group that can't be read is a row that says why.
	allocations "${FSN_STEP:-9}" 'map([.name, if .error then 20 else .calls end])' list --json
	allocations "${FSN_STEP:-9}" . list functions g --json
	allocations "${FSN_STEP:-9}" . list inflight --json
	allocations "${FSN_STEP:-9}" . stream g --json -d 0.01
	whole
	all_gone
}

# --- large numbers --------------------------------------------------------------------------

# Adds to the first record of a map: python's words at those places.
add_words() { # PIN PLACE=NUMBER...
	local bytes

	capture bpftool -j map dump pinned "$FOLDER/g/$1"
	bytes=$(python3 -c '
import json, struct, sys
value = bytes(int(b, 16) for b in json.load(sys.stdin)[0]["value"])
words = list(struct.unpack("<%dQ" % (len(value) // 8), value))
for arg in sys.argv[1:]:
    place, number = map(int, arg.split("="))
    words[place] += number
print(*struct.pack("<%dQ" % len(words), *words))' "${@:2}" <<<"$output")
	# shellcheck disable=SC2086	# one word a byte
	capture bpftool map update pinned "$FOLDER/g/$1" key 0 0 0 0 value $bytes
}

# `jq` rounds numbers beyond 2^53.
exact() { # EXPRESSION of the document d
	python3 -c 'import json, sys; d = json.load(sys.stdin)["groups"]; print(eval(sys.argv[1]))' "$1" <<<"$output"
}

@test "stats: calls, times and histogram counts near 2^63 are exact" {
	local calls=9223372036854775700 bucket=5000000007 most

	need_bpf
	need_tool bpftool python3
	fsn attach g fix_add --lib "$FIX/libfix.so"
	# struct fsn_stat: total_ns inner_ns recursed_ns errors slow returns sampled_out calls
	add_words stats 0=$((calls / 1000000 * 1000000)) 5=$calls 7=$calls
	# The bucket of 4,096 ns: octave 12, its first step.
	add_words hists 80=$bucket 72=$((calls - bucket))
	fsn stats g --save "$BATS_TEST_TMPDIR/before" --json
	assert_eq "$(exact '[d[0]["functions"][0][k] for k in ("calls", "returns", "total_ns")]')" \
		"[$calls, $calls, $((calls / 1000000 * 1000000))]"
	assert_eq "$(exact '[b["count"] for b in d[0]["functions"][0]["histogram"]]')" \
		"[$((calls - bucket)), $bucket]"
	capture "$FIX/call" --cpu 0 add 20
	most=$((calls + 20))
	fsn stats g --json
	assert_eq "$(exact '[d[0]["functions"][0][k] for k in ("calls", "returns")]')" "[$most, $most]"
	assert_eq "$(exact 'sum(b["count"] for b in d[0]["functions"][0]["histogram"])')" "$most"
	fsn stats g --format csv
	assert_output_match ",$most,"
	fsn stats g --format prometheus
	assert_output_match "^funcsnoop_calls_total\{.*\} $most$"
	fsn stats g
	fsn stats g --diff "$BATS_TEST_TMPDIR/before" --json
	assert_eq "$(exact 'd[0]["functions"][0]["calls"]["before"], d[0]["functions"][0]["calls"]["after"]')" \
		"($calls, $most)"
	# After a reset the next numbers are small ones, and exact.
	fsn stats g --reset --json
	assert_eq "$(exact 'd[0]["functions"][0]["calls"]')" "$most"
	capture "$FIX/call" add 20
	assert_numbers g "fix_add 20 0 20 0 0 0"
	all_gone
}
