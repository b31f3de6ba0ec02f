# SPDX-License-Identifier: BSD-2-Clause
# Resets lose no call and count none twice, at any load, and when they are killed.
# bats file_tags=bpf

load helpers

calls_of() { # FILE...: sum over readings
	jq -s '[.[][].functions[].calls] | add // 0' "$@"
}

raw_base() { # [GROUP]: which baseline is used, and from which epoch (struct fsn_ctl)
	bpftool -j map dump pinned "$FUNCSNOOP_BPFFS/funcsnoop/${1:-g}/ctl" |
		jq -ec '.[0].value[16:20] | select(length == 4)' || echo "not read" >>"$BATS_TEST_TMPDIR/unread"
}

result_calls() { # of the last fixture's $output
	sed -nE 's/^result .* calls=([0-9]+) .* wrong=0$/\1/p' <<<"$output"
}

# --- at rest ------------------------------------------------------------------------

@test "reset: sets all statistics to zero" {
	need_bpf
	fsn attach g fix_add fix_fail --lib "$FIX/libfix.so" --slow 0ns
	capture "$FIX/call" add 100
	capture "$FIX/call" --arg 0,-1 fail 10
	assert_numbers g "fix_add 100 0 100 0 0 0
fix_fail 10 0 10 0 0 0"
	fsn reset g
	assert_output ""
	assert_stderr ""
	fsn stats g --slow --all --json
	assert_json '.[0].slow_calls' "[]"
	assert_json '.[0].functions[] | [.calls, .carried, .returns, .slow, .total_ns, .min_ns,
		.max_ns, .p50_ns, .return_codes, .histogram, .processes] | tojson' \
		'[0,0,0,0,null,null,null,null,[],[],[]]
[0,0,0,0,null,null,null,null,[],[],[]]'
	fsn stats g
	assert_output_line "no calls yet"
	capture "$FIX/call" add 7
	assert_numbers g "fix_add 7 0 7 0 0 0"
	fsn detach g
}

@test "reset: changes 'since' and keeps 'attached_at'" {
	local before after

	need_bpf
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn stats g --json
	before=$(json '.[0] | [.attached_at, .since]')
	assert_json '.[0] | .attached_at == .since' true
	since_moves() {
		fsn reset g
		fsn stats g --json
		after=$(json '.[0] | [.attached_at, .since]')
		[[ $after != "$before" ]]
	}
	poll_until since_moves # times are in seconds
	assert_json ".[0].attached_at" "$(jq -r '.[0]' <<<"$before")"
	assert_json '.[0] | .since > .attached_at' true
	fsn detach g
}

@test "reset: resets only the named group, or without a name all groups" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 10
	fsn reset a --json
	assert_output '{"version":1}'
	assert_numbers a ""
	assert_numbers b "fix_add 10 0 10 0 0 0"
	capture "$FIX/call" add 5
	fsn reset
	assert_numbers a ""
	assert_numbers b ""
	fsn detach a b
}

@test "reset: an unknown group is an error and resets no group" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 10
	fsn -s 1 reset a nosuch
	assert_stderr "funcsnoop reset: no group 'nosuch' is attached
hint: 'funcsnoop list' shows what is attached"
	assert_numbers a "fix_add 10 0 10 0 0 0"
	fsn detach a
}

@test "reset: stats --reset shows the statistics that it resets, for all groups" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b fix_add fix_ret --lib "$FIX/libfix.so"
	capture "$FIX/call" add 10
	capture "$FIX/call" ret 3
	fsn stats --reset --json
	assert_json '.[] | [.group, (.functions | sort_by(.name)[] | .name, .calls)] | tojson' \
		'["a","fix_add",10]
["b","fix_add",10,"fix_ret",3]'
	fsn stats --reset --json
	assert_json '[.[] | .functions] | tojson' '[[],[]]'
	fsn detach a b
}

@test "reset: waits once for all groups' BPF programs, and a failed group is unchanged" {
	local trace=$BATS_TEST_TMPDIR/trace nth group

	need_bpf
	need_tool strace
	for group in a b c; do
		fsn attach "$group" fix_add --lib "$FIX/libfix.so"
	done
	capture "$FIX/call" add 3
	capture strace -f -qq -o "$trace" -e trace=bpf "$FUNCSNOOP" reset
	assert_eq "$(grep -c '"fsn_sync"' "$trace")" 1 "waits"
	capture "$FIX/call" add 5
	mapfile -t nth < <(grep -n BPF_MAP_UPDATE_BATCH "$trace" | cut -d: -f1)
	((${#nth[@]} % 3 == 0)) || fail "${#nth[@]} writes of three groups"
	capture -s 1 strace -f -qq -o "$trace" -e trace=bpf \
		-e "inject=bpf:error=EPERM:when=${nth[${#nth[@]} / 3]}" "$FUNCSNOOP" reset
	assert_stderr "funcsnoop reset: cannot reset group 'b': Operation not permitted"
	assert_numbers a ""
	assert_numbers b "fix_add 5 0 5 0 0 0"
	assert_numbers c ""
	capture "$FIX/call" add 2
	capture strace -f -qq -o "$trace" -e trace=bpf "$FUNCSNOOP" stats --reset --json
	assert_json '.[] | [.group, .functions[].calls] | tojson' '["a",2]
["b",7]
["c",2]'
	assert_eq "$(grep -c '"fsn_sync"' "$trace")" 2 "waits, where a reset had failed"
	for group in a b c; do
		assert_numbers "$group" ""
	done
	fsn detach a b c
}

@test "reset: a group that is named twice is read and reset once" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 10
	fsn stats a a --json
	assert_json 'map(.group)' '["a"]'
	fsn stats a a --reset --json
	assert_json '[.[] | .group, .functions[].calls]' '["a",10]'
	capture "$FIX/call" add 5
	fsn reset a a
	assert_numbers a ""
	fsn detach a
}

pipe_is_full() { # NAME: of a command that says its pid
	grep -q pipe_write "/proc/$(sed -n 's/^pid //p' "$(bg_err "$1")")/wchan" 2>/dev/null
}

@test "reset: a slow reader of stats --reset does not block other commands" {
	local lib=$BATS_TEST_TMPDIR/libstdc++.so.6

	need_bpf
	cp "$(realpath "$(c++ -print-file-name=libstdc++.so.6)")" "$lib"
	fsn attach big '*' --lib "$lib" --exit none
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 7
	# More than a pipe takes.
	# shellcheck disable=SC2016	# the inner shell's
	start_bg slow bash -c 'exec 5<&0; (echo "pid $BASHPID" >&2
		exec "$0" stats --reset --all --json) | { read -r _ <&5; cat; }' "$FUNCSNOOP"
	poll_until pipe_is_full slow
	fsn set g --slow 1s
	fsn stats g --reset --json
	assert_json '[.[].functions[].calls]' '[]'
	capture "$FIX/call" add 2
	tell slow
	wait_bg slow
	assert_json '[.[] | select(.group == "g") | .functions[].calls]' '[7]'
	fsn stats g --json
	assert_json '[.[].functions[].calls]' '[2]'
	fsn detach --all
}

@test "reset: stats --reset resets no group if its output cannot be written" {
	local base

	need_bpf
	need_tool bpftool
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b fix_add --lib "$FIX/libfix.so"
	base=$(raw_base a)
	capture "$FIX/call" add 10
	capture -s 1 bash -c '"$0" stats --reset --json >/dev/full' "$FUNCSNOOP"
	assert_stderr_match 'No space left on device'
	capture -s 1 bash -c '"$0" stats --reset >/dev/full' "$FUNCSNOOP"
	assert_eq "$(raw_base a)" "$base" "where numbers begin"
	assert_numbers a "fix_add 10 0 10 0 0 0"
	assert_numbers b "fix_add 10 0 10 0 0 0"
	fsn detach a b
}

# The switch between baselines goes to and fro, and epochs are numbered in 16 bits.
@test "reset: readings are right when epoch numbers wrap around" {
	local ctl i

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	ctl=$FUNCSNOOP_BPFFS/funcsnoop/g/ctl
	capture bpftool -j map dump pinned "$ctl"
	# Epoch and base (bpf/shared/layout.h, struct fsn_ctl) are 0xfffd.
	read -ra i < <(json '.[0].value | .[8] = "0xfd" | .[9] = "0xff" | .[16] = "0xfd"
		| .[17] = "0xff" | join(" ")')
	capture bpftool map update pinned "$ctl" key 0 0 0 0 value "${i[@]}"
	for i in 1 2 3 4 5 6 7; do
		capture "$FIX/call" add "$i"
		assert_numbers g "fix_add $i 0 $i 0 0 0"
		assert_json '.[0].functions[0] | .min_ns != null and .max_ns >= .min_ns' true
		fsn reset g
		assert_numbers g ""
	done
	fsn detach g
}

@test "reset: failed resets use up no epochs" {
	local ctl calls=0 i

	need_bpf
	need_tool bpftool
	cat >"$BATS_TEST_TMPDIR/g.json" <<-END
	{ "g_sym": { "fix_fail": { "symbol": "fix_fail", "ret": "cudaError_t" } },
	  "lib": "$FIX/libfix.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/g.json"
	capture "$FIX/call" --arg 2 fail 5
	calls=5
	ctl=$FUNCSNOOP_BPFFS/funcsnoop/g/ctl
	capture bpftool -j map dump pinned "$ctl"
	# The state after many failed resets: the epoch is 0xfffb, the base is unchanged.
	read -ra i < <(json '.[0].value | .[8] = "0xfb" | .[9] = "0xff" | join(" ")')
	capture bpftool map update pinned "$ctl" key 0 0 0 0 value "${i[@]}"
	for i in 1 2 3 4 5 6 7 8 9; do
		capture "$FIX/call" --arg 2 fail "$i"
		calls=$((calls + i))
		capture -s 1 bash -c '"$0" stats g --reset --json >/dev/full' "$FUNCSNOOP"
		fsn stats g --json
		assert_json '.[0].functions[0] | [.calls, ([.return_codes[].count] | add),
			([.processes[].calls] | add)]' "[$calls,$calls,$calls]"
		assert_json '.[0].functions[0] | .min_ns != null and .max_ns >= .min_ns' true
	done
	fsn stats g --reset --json
	assert_json '.[0].functions[0] | [.calls, ([.return_codes[].count] | add),
		([.processes[].calls] | add)]' "[$calls,$calls,$calls]"
	assert_numbers g ""
	capture "$FIX/call" --arg 2 fail 3
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, ([.return_codes[].count] | add),
		([.processes[].calls] | add)]' "[3,3,3]"
	fsn detach g
}

# A fold of processes that is killed leaves marks on records, which count as before.
@test "reset: failed resets keep processes that a killed command was removing" {
	local folder=$FUNCSNOOP_BPFFS/funcsnoop/g key value records

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 5
	capture bpftool -j map dump pinned "$folder/procs"
	records=$(json '.[] | select(.value[:8] | unique != ["0x00"])
		| .value[7] |= (ltrimstr("0x") | {"0": "c", "1": "d", "2": "e", "3": "f"}[.[:1]]
			+ .[1:] | "0x" + .)
		| (.key | join(" ")) + "," + (.value | join(" "))')
	[[ -n $records ]] || fail "no record of a process"
	while IFS=, read -ra key; do
		read -ra value <<<"${key[1]}"
		read -ra key <<<"${key[0]}"
		capture bpftool map update pinned "$folder/procs" \
			key "${key[@]}" value "${value[@]}"
	done <<<"$records"
	fsn stats g --json
	assert_json '[.[0].functions[0].processes[].calls] | add' 5
	# The state after many failed resets: the epoch is 0x0801, the base is unchanged.
	capture bpftool -j map dump pinned "$folder/ctl"
	read -ra value < <(json '.[0].value | .[8] = "0x01" | .[9] = "0x08" | join(" ")')
	capture bpftool map update pinned "$folder/ctl" key 0 0 0 0 value "${value[@]}"
	capture -s 1 bash -c '"$0" stats g --reset --json >/dev/full' "$FUNCSNOOP"
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, ([.processes[].calls] | add)]' "[5,5]"
	fsn stats g --reset --json
	assert_json '.[0].functions[0] | [.calls, ([.processes[].calls] | add)]' "[5,5]"
	assert_numbers g ""
	fsn detach g
}

# --- under load -----------------------------------------------------------------------

# Eight threads call until told; meanwhile COUNT readings reset.
readings_add_up() { # MODE EXIT COUNT
	local i calls readings=()

	need_link "$1"
	fsn attach g fix_add --lib "$FIX/libfix.so" --link "$1" --exit "$2"
	start_bg call "$FIX/call" --threads 8 --until-line add
	wait_line call "^running "
	for ((i = 0; i <= $3; i++)); do
		if ((i == $3)); then
			tell call
			wait_bg call
			calls=$(result_calls)
		fi
		fsn stats g --reset --json
		readings+=("$BATS_TEST_TMPDIR/reading.$i")
		cp "$BATS_TEST_TMPDIR/.out" "${readings[i]}"
	done
	assert_eq "$(calls_of "${readings[@]}")" "$calls" "calls made, and counted"
	assert_eq "$(jq -cr "$SOUND unsound" "${readings[@]}")" ""
	# Calls in flight at one reading are carried in the next.
	assert_eq "$(jq -sc 'map(.[0].functions[0] // {carried: 0, in_flight: 0}) as $f
		| [range(1; length) | select($f[.].carried != $f[. - 1].in_flight)]' \
		"${readings[@]}")" "[]" "in_flight of a reading, and carried of the next"
	# Each call is in one bucket of one reading; extremes are in the outermost buckets.
	assert_eq "$(jq -s --argjson calls "$calls" '
		[.[][0].functions[]] as $f | [$f[].histogram[]] as $h
		| ([$f[].min_ns | values] | min) as $min | ([$f[].max_ns | values] | max) as $max
		| [([$h[].count] | add) == $calls, ([$f[].returns] | add) == $calls,
		  $min >= ([$h[].ge_ns] | min), $min < ([$h[].lt_ns] | min),
		  $max >= ([$h[].ge_ns] | max), $max < ([$h[].lt_ns] | max)] | all' \
		"${readings[@]}")" true "buckets and extremes"
	fsn detach g
}

# bats test_tags=bpf,slow
@test "eight threads and 30 resets: each call is in one reading (session, return)" {
	readings_add_up session return 30
}

# bats test_tags=bpf,slow
@test "eight threads and 10 resets: each call is in one reading (multi, return)" {
	readings_add_up multi return 10
}

# bats test_tags=bpf,slow
@test "eight threads and 10 resets: each call is in one reading (perf, return)" {
	readings_add_up perf return 10
}

# bats test_tags=bpf,slow
@test "eight threads and 30 resets: each call is in one reading (multi, ret)" {
	readings_add_up multi ret 30
}

# bats test_tags=bpf,slow
@test "eight threads and 10 resets: each call is in one reading (perf, ret)" {
	readings_add_up perf ret 10
}

# Eleven of twelve functions end in a tail call; the last one returns.
jumps_add_up() { # MODE
	local i readings=()

	need_link "$1"
	fsn attach g 'eng_tail_*' --lib "$FIX/libengine.so" --link "$1" --exit ret
	start_bg chain "$FIX/engine" chain 20000 --wait --wait-end
	wait_line chain "^ready "
	tell chain
	for ((i = 0; i <= 10; i++)); do
		((i < 10)) || wait_line chain "^done "
		fsn stats g --reset --json
		readings+=("$BATS_TEST_TMPDIR/reading.$i")
		cp "$BATS_TEST_TMPDIR/.out" "${readings[i]}"
	done
	tell chain
	wait_bg chain
	assert_eq "$(jq -cr "$SOUND unsound" "${readings[@]}")" ""
	assert_eq "$(jq -rs '[.[][].functions[]] | group_by(.name)[]
		| [.[0].name, ([.[].calls] | add), ([.[].returns] | add), ([.[].untimed] | add)]
		| join(" ")' "${readings[@]}")" "$(for i in 1 10 11 12 2 3 4 5 6 7 8 9; do
			((i < 9)) && echo "eng_tail_$i 20000 20000 0" || echo "eng_tail_$i 20000 0 20000"
		done)"
	assert_eq "$(jq -s '[.[][].health.no_slot] | add' "${readings[@]}")" 80000
	fsn detach g
}

@test "reset: tail calls are in exactly one reading (multi)" {
	jumps_add_up multi
}

@test "reset: tail calls are in exactly one reading (perf)" {
	jumps_add_up perf
}

# Threads sleep 50 ms all the time. One call is much longer and one much shorter: they are
# exactly the extremes of the following reading, and of no other. Their processes have their
# times.
@test "reset: the longest and the shortest call are in one reading each" {
	local round long short

	need_bpf
	fsn attach g fix_sleep_us --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --threads 4 --until-line --arg 50000 sleep_us
	wait_line call "^running "
	fsn reset g
	for round in 1 2 3 4; do
		capture "$FIX/call" --comm long --arg 500000 sleep_us 1
		fsn stats g --reset --json
		long=$(json '.[0].functions[0].processes[] | select(.comm == "long").max_ns')
		assert_json_true ".[0].functions[0] | .min_ns >= 50000000 and (.max_ns == $long
			or .max_ns > $long and any(.processes[]; .max_ns > $long))"
		capture "$FIX/call" --comm short --arg 1 sleep_us 1
		fsn stats g --reset --json
		short=$(json '.[0].functions[0].processes[] | select(.comm == "short").max_ns')
		assert_json_true ".[0].functions[0] | .max_ns != $long
			and (.min_ns == $short or $short > 50000000)"
		fsn stats g --reset --all --json
		assert_json_true ".[0].functions[0] | .max_ns != $long and .min_ns != $short"
	done
	tell call
	wait_bg call
	fsn detach g
}

@test "reset: concurrent readers see consistent numbers" {
	local i

	need_bpf
	fsn attach g fix_add fix_ret --lib "$FIX/libfix.so"
	start_bg add "$FIX/call" --threads 4 --until-line add
	start_bg ret "$FIX/call" --threads 4 --until-line ret
	wait_line add "^running "
	wait_line ret "^running "
	start_bg resets bash -c 'for i in {1..15}; do "$0" reset g || exit; done' "$FUNCSNOOP"
	while ! bg_ended resets; do
		fsn stats g --json
		cat "$BATS_TEST_TMPDIR/.out" >>"$BATS_TEST_TMPDIR/readings"
	done
	wait_bg resets
	assert_eq "$(jq -cr "$SOUND unsound" "$BATS_TEST_TMPDIR/readings")" ""
	tell add
	tell ret
	wait_bg add
	wait_bg ret
	fsn detach g
}

# --- killed ---------------------------------------------------------------------------

@test "reset: killed at any moment, it resets all statistics or none" {
	local i before pending=0 span

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	span=$(ms_of "$FUNCSNOOP" reset g)
	for ((i = 1; i <= 20; i++)); do
		capture "$FIX/call" add "$i"
		((pending += i))
		before=$(raw_base)
		killed_within "$span" "$FUNCSNOOP" reset g
		[[ $(raw_base) == "$before" ]] || pending=0
		fsn stats g --json
		assert_sound
		assert_eq "$(json '[.[].functions[] | .calls, .returns, ([.histogram[].count] | add),
			([.processes[].calls] | add), (.max_ns != null)]')" \
			"$( ((pending == 0)) && echo "[]" ||
				echo "[$pending,$pending,$pending,$pending,true]")" "round $i"
	done
	fsn detach g
}

@test "reset: readings add up to all calls, also if 'stats --reset' is killed" {
	local i before span

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn attach h fix_add --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --threads 4 --until-line add
	wait_line call "^running "
	span=$(ms_of "$FUNCSNOOP" reset h)
	for ((i = 0; i < 20; i++)); do
		before=$(raw_base)
		killed_within "$span" "$FUNCSNOOP" stats g --reset --json \
			>"$BATS_TEST_TMPDIR/reading.$i"
		# A reset that did not happen does not count, although it may have printed
		# something.
		[[ $(raw_base) != "$before" ]] || rm "$BATS_TEST_TMPDIR/reading.$i"
	done
	[[ ! -e $BATS_TEST_TMPDIR/unread ]] || fail "bpftool could not say whether a reset happened"
	tell call
	wait_bg call
	i=$(result_calls)
	fsn stats g --json
	assert_sound
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/reading.end"
	assert_eq "$(calls_of "$BATS_TEST_TMPDIR"/reading.*)" "$i" "calls made, and counted"
	fsn detach g h
}

@test "reset: killed at any moment, it loses no failed call that its table dropped" {
	local i before pending=8256 span

	need_bpf
	need_tool bpftool
	cat >"$BATS_TEST_TMPDIR/g.json" <<-END
	{ "g_sym": { "fix_ret": { "symbol": "fix_ret", "ret": "long", "error": "negative" } },
	  "lib": "$FIX/libfix.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/g.json"
	fill_codes
	span=$(ms_of "$FUNCSNOOP" reset g)
	fill_codes
	for ((i = 1; i <= 8; i++)); do
		capture "$FIX/call" --arg -9001,-1,-9002 ret "$((3 * i))"
		((pending += 3 * i))
		before=$(raw_base)
		killed_within "$span" "$FUNCSNOOP" reset g
		if [[ $(raw_base) != "$before" ]]; then
			fill_codes
			pending=8256
		fi
		assert_eq "$("$FUNCSNOOP" stats g --format prometheus |
			awk '/^funcsnoop_errors_total\{/ { n += $2 } END { print n }')" "$pending" "round $i"
	done
	fsn detach g
}
