# SPDX-License-Identifier: BSD-2-Clause
# Whether a time is the call's: what the probes themselves take is taken off, and told.
# The tests that compare times with clocks are alone.
# bats file_tags=bpf

load helpers
load stream

CALIBRATION=/run/funcsnoop/calibration

setup() {
	common_setup
	own_run
}

attach_spin() { # [OPTION...] FUNCTION
	fsn attach g --lib "$FIX/spin" --site entry "$@"
}

# By a calibration of its own, of which a single-step takes 6500 ns.
fix_calibration() {
	fsn feature --calibrate
	sed -i -E 's/:.*/: 0 500 500 0 400 1000 600 0 600 9000 8400 0 600 9100 8500 0 600 9200 8600 0 0 7000 7000 0 6000 8000 2000 0 6000 16000 10000 0 6000 8100 2100 0 6000 8200 2200 0/' \
		"$CALIBRATION"
}

# One run: the shortest time of each function is that of its own clock, within 5 % and the
# error in the manual. Disturbances only add time, so one good call in 300 is enough.
is_right() {
	capture "$FIX/spin" 300
	awk '{ print $1, $3 }' <<<"$output" | sort >"$BATS_TEST_TMPDIR/truth"
	fsn stats g --json
	assert_json '[.[0].functions[] | [.calls, .returns]] | unique' '[[300,300]]'
	json -r '.[0].functions[] | "\(.name) \(.min_ns)"' | sort >"$BATS_TEST_TMPDIR/shown"
	fsn reset g
	join "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/shown" | awk '
		{ slack = $2 * 0.05 + ($1 ~ /emulated/ ? 400 : 3000); n++ }
		$3 > $2 + slack || $3 < $2 - slack { wrong = wrong " " $0 ";" }
		END { if (n != 6 || wrong) { print n ":" wrong; exit 1 } }'
}

# Where another took the CPU during all of the calibration, it is measured again.
assert_right() {
	local try

	for try in 1 2 3 4; do
		! is_right || return 0
		fsn feature --calibrate
		fsn detach g
		attach_spin "$@" 'spin_*_*'
	done
	is_right || fail "not the time that the functions took: $*"
}

# Not of the core: an emulated machine has other times at each moment.
# bats test_tags=alone
@test "times: functions of 0, 1 and 100 us are right with each kind of link and exit" {
	local link links exit

	need_fast_probes
	read_links
	for link in "${links[@]}"; do
		for exit in return early ret; do
			attach_spin --link "$link" --exit "$exit" 'spin_*_*'
			assert_right --link "$link" --exit "$exit"
			fsn detach g
		done
	done
}

# bats test_tags=alone
@test "times: the correction is that of the function's class, and none with --raw" {
	local want raw

	need_bpf
	attach_spin --exit ret 'spin_*_0'
	capture "$FIX/spin" 50
	fsn stats g --json
	want=$(awk '/ at / { sub(/.*:/, ""); print "[" $9 "," $29 "]" }' "$CALIBRATION")
	assert_json '[.[0].functions[] | { (.name): .overhead_ns }] | add |
		[.spin_emulated_0, .spin_stepped_0]' "$want"
	fsn detach g
	attach_spin --exit ret --raw 'spin_*_0'
	capture "$FIX/spin" 50
	fsn stats g --json
	assert_json '[.[0].functions[].overhead_ns] | unique' '[0]'
	raw=$(json '[.[0].functions[] | { (.name): .min_ns }] | add |
		[.spin_emulated_0, .spin_stepped_0]')
	# The lowest tenth that was taken off is about what the shortest raw call took.
	assert_eq "$(jq -n --argjson raw "$raw" --argjson want "$want" \
		'[range(2) | $raw[.] * 2 > $want[.]] | all')" true "$raw of $want"
	fsn detach g
}

# bats test_tags=alone
@test "times: times within the noise are marked in tables, but not in CSV or with --raw" {
	need_bpf
	attach_spin --exit ret 'spin_emulated_*'
	capture "$FIX/spin" 20
	fsn stats g
	assert_output_match '^spin_emulated_0 +20 .* [~<][0-9]+ ns '
	refute_output_match '^spin_emulated_100us .*~'
	fsn stats g --hist
	assert_output_match ' ~[0-9]+ -> [0-9]+ +: [0-9]+ .*P50 [~<][0-9]+ ns'
	assert_output_match '^ +65536 -> 131071 '
	refute_output_match ' ~65536 -> |P50 ~1.. us'
	fsn stats g --format csv
	refute_output_match '~'
	fsn detach g
	attach_spin --exit ret --raw 'spin_emulated_*'
	capture "$FIX/spin" 20
	fsn stats g
	refute_output_match '^spin.*~'
	fsn detach g
}

# bats test_tags=alone
@test "times: times within the noise are marked by process and in histograms" {
	local try

	need_bpf
	attach_spin --exit ret spin_emulated_0
	# If a call lost its CPU, the average is not within the noise.
	for ((try = 0; try < 5; try++)); do
		fsn reset g
		capture "$FIX/spin" 20
		fsn stats g --json
		[[ $(json '.[0].functions[0].avg_ns < 400') != true ]] || break
	done
	fsn stats g --by process
	assert_output_match '^ *[0-9]+ +spin .* [~<][0-9]+ ns'
	fsn stats g --hist
	assert_output_match '^avg = [~<].*, total = [~<].*, count = 20$'
	fsn detach g
	attach_spin --exit ret spin_emulated_100us
	capture "$FIX/spin" 20
	fsn stats g --by process
	refute_output_match '~'
	fsn stats g --hist
	refute_output_match "^avg = ~"
	fsn detach g
}

@test "times: a stream shows the same times as stats" {
	need_bpf
	attach_spin --exit ret spin_emulated_100us spin_for
	start_stream calls g --json -n 200
	capture "$FIX/spin" 40
	wait_bg calls
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.name) | .[] | [.name, .min_ns, .max_ns, .total_ns]' \
		"$(jq -sc 'group_by(.function) | .[] | [.[0].function] + (map(.duration_ns) | [min, max, add])' \
			"$(bg_out calls)")"
	fsn detach g
}

@test "times: attach calibrates by itself once per boot and saves the result" {
	local kept

	need_bpf
	[[ ! -e $CALIBRATION ]]
	attach_spin spin_emulated_0
	kept=$(<"$CALIBRATION")
	[[ -n $kept ]]
	fsn detach g
	attach_spin spin_emulated_0
	assert_eq "$(<"$CALIBRATION")" "$kept"
	fsn detach g
}

@test "times: attach prints the expected cost of a call per class" {
	need_bpf
	fix_calibration
	attach_spin --exit ret 'spin_emulated_*'
	# The cost of ret differs between machines; the calibration here is fixed.
	assert_output_match '^g: 3 functions: 3 at about 9\.00 us a call$'
	fsn detach g
	attach_spin --exit ret 'spin_*_*'
	assert_output_match '^g: 6 functions: 3 at about 9\.00 us a call, 3 at 16\.0 us$'
	fsn detach g
	attach_spin --exit return 'spin_*_*'
	assert_output_match '^g: 6 functions: 3 at about 1\.00 us a call, 3 at 8\.00 us$'
	fsn detach g
	fsn attach -q g --lib "$FIX/spin" spin_emulated_0
	assert_output ""
	fsn detach g
}

@test "times: attach warns if another group probes the same functions" {
	need_bpf
	attach_spin --exit ret 'spin_*_0'
	refute_output_match 'probed by group'
	fsn attach h --lib "$FIX/spin" --site entry 'spin_emulated_*'
	assert_stderr_match "1 of the functions of 'h' is probed by group 'g', too"
	fsn attach i --lib "$FIX/libfix.so" fix_add
	assert_stderr ""
	fsn attach g --replace --lib "$FIX/spin" --site entry spin_stepped_0
	assert_stderr ""
	fsn detach g h i
}

# --- calls that leave by a jump ---------------------------------------------------------------

attach_tail() { # LINK EXIT
	fsn attach g 'tail_*' --lib "$FIX/libtail.so" --link "$1" --exit "$2"
}

# The shortest time of each function that has one is that of $output, NAME NS; whose names match
# REGEX can have others. In the time of those that lead to another function of the group are the
# probes of that, too: a step, which takes more when the machine is busy.
is_tail_right() { # REGEX
	sort <<<"$output" >"$BATS_TEST_TMPDIR/truth"
	fsn stats g --json
	json -r '.[0].functions[] | select(.returns > 0) | "\(.name) \(.min_ns)"' |
		sort >"$BATS_TEST_TMPDIR/shown"
	join "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/shown" | awk -v other="$1" '
		$1 ~ other { next }
		{ slack = $2 * 0.05 + 3000; n++ }
		{ inside = $1 ~ /^tail_(plt|to_target)$/ ? 20000 : 0 }
		$3 > $2 + slack + inside || $3 < $2 - slack { wrong = wrong " " $0 ";" }
		END { if (!n || wrong) { print n ":" wrong; exit 1 } }'
}

assert_tail_right() { # REGEX CASE CALLS
	local try

	for try in 1 2 3 4; do
		capture env LD_BIND_NOW=1 "$FIX/tailcall" "$2" "$3"
		! is_tail_right "$1" || return 0
		fsn reset g
	done
	fail "not the time that the functions took"
}

# NAME CALLS RETURNS UNTIMED of all that were called.
tail_counts() {
	json -r '.[0].functions[] | select(.calls > 0)
		| "\(.name) \(.calls) \(.returns) \(.untimed)"' | sort
}

# bats test_tags=alone
@test "times: a tail call has its own time or none, with each kind of link" {
	local link links

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	read_links
	for link in "${links[@]}"; do
		[[ $link != session ]] || continue
		attach_tail "$link" ret
		assert_tail_right '^$' jumps 20
		assert_eq "$(tail_counts)" "$(printf '%s\n' \
			"tail_body 20 20 0" "tail_chain 20 20 0" "tail_cond 20 20 0" \
			"tail_direct 20 20 0" "tail_even 60 20 40" "tail_forward 20 20 0" \
			"tail_indirect 20 0 20" "tail_odd 60 20 40" "tail_plt 20 20 0" \
			"tail_preempted 20 0 20" "tail_public 20 20 0" "tail_recurse 100 20 80" \
			"tail_target 40 40 0" "tail_to_target 20 20 0" "tail_virtual 20 0 20")"
		fsn stats g --reset --json
		fsn stats g --all --json
		assert_json '[.[0].functions[] | .carried, .in_flight] | unique' '[0]'
		fsn detach g
	done
}

# bats test_tags=alone
@test "times: return probes trace tail calls to any target" {
	local link links

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	read_links
	for link in "${links[@]}"; do
		attach_tail "$link" return
		assert_tail_right '^tail_(even|recurse)$' jumps 20
		assert_json '[.[0].functions[] | select(.calls != .returns)]' '[]'
		fsn detach g
	done
}

# bats test_tags=alone
@test "times: a tail call left by an exception has no time and affects no other call" {
	local link links

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	read_links
	for link in "${links[@]}"; do
		[[ $link != session ]] || continue
		attach_tail "$link" ret
		assert_tail_right '^$' throws 20
		assert_json '[.[0].functions[] | select(.calls > 0)
			| [.name, .calls, .returns, .in_flight + .abandoned, .untimed]] | sort' \
			'[["tail_nested",20,0,20,0],["tail_stepped",1,1,0,0],["tail_thrower",20,20,0,0],["tail_throws",60,0,60,0],["tail_throws_stepped",20,0,20,0],["tail_throws_too",20,20,0,0]]'
		fsn detach g
	done
}

# bats test_tags=alone
@test "times: a tail call to another file has a time after direct calls, with each kind of link" {
	local least link links more n=300 want

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	read_links
	printf -v want '%s\n' "own_before $n $n 0 0" "own_leaves $((5 * n)) $((3 * n)) $((2 * n)) 0" "own_maybe $((6 * n)) $((6 * n)) 0 0" \
		"own_throws $((2 * n)) $n 0 $n" "tail_direct $((7 * n)) $((7 * n)) 0 0"
	for link in "${links[@]}"; do
		# tail_direct, to which they jump, has the same return address.
		for more in '' "$FIX/libtail.so:tail_direct"; do
			fsn attach g "$FIX/tailcall:own_*" $more --link "$link" --exit ret --overhead none
			capture env LD_BIND_NOW=1 "$FIX/tailcall" leaves "$n"
			least=$(sed -n 's/^own_leaves //p' <<<"$output")
			fsn stats g --json
			# A single step takes from 2 to 20 us, and its mean is subtracted.
			assert_json ".[0].functions[] | select(.name == \"own_leaves\") |
				(.min_ns / $least) | . > 0.8 and . < 1.2" true
			assert_eq "$(json -r '.[0].functions[] | select(.calls > 0) |
				"\(.name) \(.calls) \(.returns) \(.untimed) \(.abandoned)"' | sort)" \
				"$([[ $more ]] && printf %s "$want" || sed '/tail_direct/d' <<<"$want")"
			assert_json '[.[0].functions[].in_flight] | unique' '[0]'
			fsn detach g
		done
	done
}

@test "times: a tail call is tracked once the linker has resolved its target" {
	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn attach g tail_plt tail_public --lib "$FIX/libtail.so" --exit ret
	capture "$FIX/tailcall" jumps 20
	assert_numbers g "tail_plt 20 0 19 0 0 1
tail_public 20 0 20 0 0 0
left_by_jump 1"
	fsn detach g
}

@test "times: a tail call interposed by another file is not tracked" {
	local link

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		[[ $link != session ]] || continue
		fsn attach g tail_preempted tail_replaced --lib "$FIX/libtail.so" --link "$link" \
			--exit ret
		capture "$FIX/tailcall" preempts 20
		assert_numbers g "tail_preempted 20 0 0 0 0 20
tail_replaced 20 0 20 0 0 0
left_by_jump 20"
		fsn detach g
	done
}

# --- calls in calls -------------------------------------------------------------------------------

attach_nest() { # [OPTION...]
	fsn attach g --lib "$FIX/nest" --site entry "$@" 'emulated_*' 'stepped_*'
}

# Runs WHAT of the fixture, which should not be interrupted, and prints all functions whose
# self time matches their clock: within 5 %, the manual's error per call, and PERCENT of the
# probes' overhead.
nest_right() { # WHAT PERCENT
	local times=10

	# A moment without anything else is short.
	[[ $1 != wide ]] || times=1
	fsn reset -q g
	capture chrt -f 1 "$FIX/nest" "$times" "$1"
	sort <<<"$output" >"$BATS_TEST_TMPDIR/truth"
	fsn stats g --json
	json -r '.[0].functions[] | "\(.name) \(.calls) \(.self_ns) \(.cost_ns)"' | sort \
		>"$BATS_TEST_TMPDIR/shown"
	join "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/shown" | awk -v percent="$2" '
		$2 != $4 { print "of", $0 > "/dev/stderr"; exit 1 }
		{ row[NR] = $0; cost[$1 ~ /emulated/] += $6 }
		END { for (i = 1; i <= NR; i++) {
			split(row[i], f)
			slack = f[3] * 0.05 + f[2] * (f[1] ~ /emulated/ ? 400 : 3000)
			slack += cost[f[1] ~ /emulated/] * percent / 100
			off = f[5] > f[3] ? f[5] - f[3] : f[3] - f[5]
			if (f[5] == "null" || off <= slack)
				print f[1]
		} }'
}

# A disturbance affects each of them at another time. If all of twenty attempts were disturbed,
# the machine is too busy.
assert_nest() { # OPTION... -- WHAT...
	local what try
	local -a options=()

	while [[ $1 != -- ]]; do options+=("$1"); shift; done
	for what in "${@:2}"; do
		: >"$BATS_TEST_TMPDIR/right"
		for try in {1..40}; do
			nest_right "$what" $((try > 20 ? 20 : 5)) >>"$BATS_TEST_TMPDIR/right"
			sort -u -o "$BATS_TEST_TMPDIR/right" "$BATS_TEST_TMPDIR/right"
			! cut -d ' ' -f 1 "$BATS_TEST_TMPDIR/truth" |
				cmp -s - "$BATS_TEST_TMPDIR/right" || continue 2
			((try % 10)) || { fsn feature --calibrate; fsn detach g; attach_nest "${options[@]}"; }
		done
		fail "not what they spent in themselves: $what ${options[*]}: $(join -v 1 \
			"$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/right")
$(<"$BATS_TEST_TMPDIR/shown")"
	done
}

# bats test_tags=alone
@test "times: self times of nested calls match the program's clock, for all links" {
	local link links exit chosen
	local -a what

	need_bpf
	read_links
	chosen=$(json -r .attach.link)
	for link in "${links[@]}"; do
		for exit in return ret; do
			what=(deep)
			# A thousand steps take as long as the machine is busy: once is enough.
			[[ $link != "$chosen" && $exit == ret ]] || what+=(wide)
			# The nesting of calls is the same for all kinds of links.
			[[ $link != "$chosen" ]] || what+=(recursive mutual)
			# No exception may pass a return probe.
			[[ $exit == return || $link != "$chosen" ]] || what+=(thrown)
			attach_nest --link "$link" --exit "$exit"
			assert_nest --link "$link" --exit "$exit" -- "${what[@]}"
			fsn detach g
		done
	done
}

# The functions of the table, those whose own time is marked behind "~".
own_marks() {
	awk '$1 ~ /^(emulated|stepped)_/ { print ($6 ~ /^[~<]/ ? "~" : "") $1 }' <<<"$output" | sort
}

# A call with a thousand inner calls is marked; one with a few is not, unless disturbed.
wide_is_marked() {
	fsn reset -q g
	capture chrt -f 1 "$FIX/nest" 1 deep wide
	fsn stats g
	[[ $(own_marks) == *'~emulated_wide'* && $'\n'$(own_marks) == *$'\n'emulated_deep1* ]]
}

# bats test_tags=alone
@test "times: self times within the noise of the correction for inner calls are marked" {
	local marks

	need_bpf
	attach_nest --exit ret
	poll_until -t 60 wide_is_marked
	marks=$(own_marks)
	fsn stats g --json
	# By the calibrated time of the probes inside: what is marked is below twice the bound, and what
	# is below half of it is marked.
	assert_eq "$(json -r --arg marks "$marks" '.[0].functions as $f | ($marks | split("\n")) as $marks | $f[]
		| (.name | capture("(?<kind>.*)_(?<what>[a-z]+)(?<level>[0-9]*)")) as $n
		| ([$f[] | select(.name | startswith($n.kind)) | (.name | capture("_(?<what>[a-z]+)(?<level>[0-9]*)$")) as $m
			| select(if $n.what == "wide" then $m.what == "tiny" else $n.what == "deep" and
				$m.what == "deep" and $m.level > $n.level end).cost_ns] | add // 0) as $inside
		| (if $n.kind == "emulated" then 400 else 3000 end) as $floor
		| ([$inside / 10, $floor * .returns] | max) as $bound
		| ($marks | index("~" + .name) != null) as $marked
		| select(if $marked then .self_ns > 2 * $bound else .self_ns < $bound / 2 end)
		| "\(.name) \(.self_ns) \($bound) \($marked)"')" "" "marks"
	fsn stats g --tree
	assert_output_match '^emulated_wide .* ~[0-9.]+ .s$'
	assert_output_match '^emulated_deep1 .* [0-9.]+ .s$'
	fsn stats g --by process
	assert_output_match '^ *[0-9]+ +nest '
	fsn detach g
}

shares_add_up() {
	awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		{ share += $at["time_percent"] }
		END { exit !(share > 99.9 && share < 100.1) }' <<<"$output" || fail "$output"
}

@test "times: shares of the time add up, and the total counts nested calls once" {
	need_bpf
	attach_nest --exit ret --key thread
	capture "$FIX/nest" 3 deep wide recursive mutual thrown
	fsn stats g --format csv
	shares_add_up
	fsn stats g --by thread --format csv
	shares_add_up
	fsn stats g
	assert_output_match '^total +[0-9]+ +100\.0 +~?([0-9.]+ [a-z]+) +~?\1 '
	fsn stats g --json
	assert_json '[.[0].functions[] | select(.self_ns > .outer_ns or .outer_ns > .total_ns)]' '[]'
	fsn stats g --sort self
	assert_output_match '^FUNCTION +CALLS +TIME% +TOTAL +SELF +AVG'
	fsn detach g
}

# An own time is a rest of two sums, of which probes inside may have taken more than is known.
@test "times: no counter of the metrics falls in functions that only call others" {
	local i files=()

	need_bpf
	fsn attach g --lib "$FIX/nest" '*_*'
	for ((i = 0; i < 12; i++)); do
		capture "$FIX/nest" 1 deep recursive mutual
		fsn stats g --format prometheus
		grep '_total{' "$BATS_TEST_TMPDIR/.out" >"$BATS_TEST_TMPDIR/$i.prom"
		files+=("$BATS_TEST_TMPDIR/$i.prom")
	done
	assert_only_grows "${files[@]}"
	assert_output_line '# TYPE funcsnoop_self_seconds gauge'
	fsn detach g
}

@test "times: recursion is in outer_ns once, and in total_ns at each level" {
	need_bpf
	attach_nest --exit ret
	capture "$FIX/nest" 1 deep recursive mutual
	fsn stats g --json
	# Ten levels of 20 us, of ping every second of 20: those inside are another 45 times as
	# long at least, however long one waited for a CPU.
	assert_json '[.[0].functions[] | select(.name == "emulated_recursive" or .name == "stepped_ping")
		| .calls == 10, .outer_ns == .max_ns, .total_ns >= .outer_ns + 45 * 18000]' \
		'[true,true,true,true,true,true]'
	assert_json '[.[0].functions[] | select(.name | test("deep")) | .outer_ns == .total_ns] | unique' \
		'[true]'
	# The table has total_ns; deep is not recursive.
	fsn stats g
	assert_stderr_match "^funcsnoop stats: TOTAL of '(emulated|stepped)_(recursive|ping|pong)' has the time of its nested calls"
	fsn reset g
	capture "$FIX/nest" 1 deep
	fsn stats g
	refute_stderr_match 'TOTAL of'
	fsn detach g
}

@test "times: a call left through a tail call leaves its inner calls to its caller" {
	need_bpf
	fsn attach g 'leave_*' --lib "$FIX/leave" --exit ret --overhead none
	capture "$FIX/leave" 20
	fsn stats g --json
	assert_json '.[0].functions | map({ (.name): . }) | add | [
		(.leave_outer, .leave_after, .leave_work | .returns), .leave_mid.returns,
		.leave_outer.total_ns - .leave_outer.self_ns >= .leave_work.total_ns]' \
		'[20,20,20,0,true]'
	fsn detach g
}

@test "times: the longest call has the error of all probes inside of it" {
	need_bpf
	fsn attach g leave_fib --lib "$FIX/leave" --overhead none
	capture "$FIX/leave" 1
	fsn stats g --json
	assert_json '.[0].functions[] | select(.name == "leave_fib") | [.calls > 100,
		.max_noise_ns >= .cost_ns / 20, .max_noise_ns >= .noise_ns * 2]' '[true,true,true]'
	fsn detach g
}

# [noise_ns, max_noise_ns] of FUNCTION, which lasts much longer.
assert_noise() { # FUNCTION WANT
	fsn stats g --json
	assert_json ".[0].functions[] | select(.name == \"$1\") | [.noise_ns, .max_noise_ns]" "$2"
}

@test "times: the first call of each process has the error of mapping a page for probes" {
	local i

	need_bpf
	fix_calibration
	attach_spin --exit return spin_emulated_100us
	capture "$FIX/spin" 20
	assert_noise spin_emulated_100us '[2025,32900]'
	for i in 1 2 3 4; do
		capture "$FIX/spin" 5
	done
	assert_noise spin_emulated_100us '[4462,32900]'
	fsn detach g
	attach_spin --exit ret spin_emulated_100us # emulated, and stepped after it is timed
	capture "$FIX/spin" 20
	assert_noise spin_emulated_100us '[400,400]'
	fsn detach g
	attach_spin --exit ret spin_stepped_100us
	capture "$FIX/spin" 20
	assert_noise spin_stepped_100us '[4625,35500]'
	fsn detach g
}

@test "times: a table has the bound for a time of 0 within the error" {
	need_bpf
	fix_calibration
	sed -i -E '/:/{h; s/.*://; s/[1-9][0-9]*/&000/g; H; x; s/:.*\n/:/}' "$CALIBRATION"
	attach_spin --exit ret spin_emulated_0
	capture "$FIX/spin" 20
	fsn stats g --json
	assert_json '.[0].functions | map([.total_ns, .p50_ns, .max_ns < .max_noise_ns])' '[[0,0,true]]'
	fsn stats g
	assert_output_match '^spin_emulated_0 +20 .* <[0-9.]+ [a-z]+ .*<'
	refute_output_match '~0 ns'
	fsn stats g --format csv
	refute_output_match '<'
	fsn detach g
}

@test "times: a stream marks durations within their error, as tables do" {
	need_bpf
	fix_calibration
	attach_spin --exit ret spin_emulated_0 spin_emulated_100us
	start_stream lines g -n 40
	start_stream calls g --json -n 40
	capture "$FIX/spin" 20
	wait_bg lines
	wait_bg calls
	# The error of a call is more in the stream that records it later.
	grep -o ' <[~0-9]' "$(bg_out lines)" | sed 's/ <//; s/[0-9]/exact/' >"$BATS_TEST_TMPDIR/marks"
	assert_eq "$(jq -r 'if .duration_ns < 400 then "~" elif .duration_ns > 2 * .noise_ns then "exact"
		else "either" end' "$(bg_out calls)" | paste "$BATS_TEST_TMPDIR/marks" - |
		awk '{ n++ } $2 != "either" && $1 != $2; END { print n }')" 40
	assert_eq "$(head -n 1 "$BATS_TEST_TMPDIR/marks")" "~"
	# The first call has the error of a page, and no call of 100 us is marked without it.
	assert_eq "$(jq -s '.[0].noise_ns > 32500, all(.[1:][]; .noise_ns < 32500 or .duration_ns < 90000)' \
		"$(bg_out calls)")" $'true\ntrue'
	fsn detach g
}

@test "times: probes of system calls are subtracted from their callers, with a larger error" {
	local calls=/run/funcsnoop/syscalls

	need_bpf
	cp "$FIX/call" "$BATS_TEST_TMPDIR/own-caller"
	fsn feature --calibrate
	sed -i 's/:.*/: 500000 1000000 0 0/' "$calls"
	fsn attach g fix_sleep_us s:clock_nanosleep --lib "$FIX/libfix.so" --if comm==own-caller
	capture env LD_LIBRARY_PATH="$FIX" "$BATS_TEST_TMPDIR/own-caller" --arg 5000 sleep_us 10
	fsn stats g --json
	assert_json '.[0].functions | map({ (.name): . }) | add | [.clock_nanosleep.calls, .fix_sleep_us.calls,
		.fix_sleep_us.total_ns < .clock_nanosleep.total_ns - 5000000, .fix_sleep_us.noise_ns > 2000000]' \
		'[10,10,true,true]'
	fsn detach g
}

@test "times: few calls of a short recursive function are marked" {
	need_bpf
	fix_calibration
	attach_nest --exit return
	capture "$FIX/nest" 1 recursive
	fsn stats g --json
	# About half of all levels are in progress when the innermost call returns.
	assert_json '.[0].functions[] | select(.name == "emulated_recursive")
		| [.calls == 10, .noise_ns > 32500 / 3, .max_noise_ns > 32900]' '[true,true,true]'
	fsn detach g
}

# Code generated by CUDA's compiler calls __cudaLaunchKernel, which since CUDA 13 tail-calls
# cudaLaunchKernel. Without a device these calls fail, but count.
@test "cuda: three launches of an nvcc program are three calls in the total" {
	local exit nvcc lib dir=$BATS_TEST_TMPDIR/cuda

	need_bpf
	need_tool jq
	nvcc=$(PATH=$PATH:/usr/local/cuda/bin type -P nvcc) || skip "needs nvcc, of CUDA"
	mkdir "$dir"
	printf '%s\n' '__global__ void kernel(int n) {}' 'int main()' '{' \
		'	for (int i = 0; i < 3; i++)' '		kernel<<<1, 1>>>(i);' '}' >"$dir/launch.cu"
	"$nvcc" -cudart shared -o "$dir/launch" "$dir/launch.cu" >"$dir/log" 2>&1 ||
		skip "nvcc does not compile here: $(head -n 1 "$dir/log")"
	lib=$(ldd "$dir/launch" | sed -n 's/.*libcudart[^ ]* => \([^ ]*\) .*/\1/p')
	[[ -n $lib ]] || lib=$(find -L "${nvcc%/bin/nvcc}" -name 'libcudart.so.*' 2>/dev/null | head -n 1)
	[[ -n $lib ]] || skip "no libcudart beside nvcc"
	cp -L "$lib" "$dir/" # whose processes are nobody else's
	for exit in auto ret; do
		fsn attach cuda --lib "$dir/${lib##*/}" --exit "$exit"
		capture -s any env LD_LIBRARY_PATH="$dir" "$dir/launch"
		fsn stats cuda
		assert_output_match '^cudaLaunchKernel +3 '
		assert_output_match '^total +3 '
		fsn stats cuda --json
		assert_json '[.[0].functions[] | select(.name | endswith("udaLaunchKernel")) | .calls == .returns] | unique' \
			'[true]'
		fsn detach cuda
	done
}

@test "times: a tail call and its target are one call in the totals" {
	local exit

	need_bpf
	for exit in return ret; do
		fsn attach g --lib "$FIX/nest" --exit "$exit" launch launch_stub
		capture "$FIX/nest" 3 launch
		fsn stats g
		assert_output_match '^launch +3 '
		assert_output_match '^launch_stub +3 '
		assert_output_match '^total +3 '
		fsn stats g --json
		assert_json '.[0].functions | map({ (.name): . }) | add |
			[.launch.self_ns >= 60000, .launch_stub.self_ns < .launch_stub.total_ns - 40000]' \
			'[true,true]'
		fsn detach g
	done
}

# "depth function calls", callers first; of those called by one, by name.
tree_of() { # GROUP
	fsn stats "$1" --tree --sort name --json
	json -r '.[0].tree[] | "\(.depth) \(.function)\(if .again then "*" else "" end) \(.calls)"'
}

@test "tree: each call is below its caller, and recursion is one row" {
	local kind

	need_bpf
	attach_nest --exit ret
	capture "$FIX/nest" 2 deep recursive mutual thrown
	assert_eq "$(tree_of g)" "$(for kind in emulated stepped; do
		sed "s/ / ${kind}_/" <<-END
		0 catcher 2
		1 passed 40
		2 deep5 40
		2 thrower 40
		1 tiny 40
		0 deep1 2
		1 deep2 2
		2 deep3 2
		3 deep4 2
		4 deep5 2
		0 ping 2
		1 pong 20
		2 ping* 18
		0 recursive 2
		1 recursive* 18
		END
	done)"
	# Own times are those of the functions, and each has in it what is below.
	fsn stats g --tree --json
	assert_json '.[0] | [.tree[] | select(.function | test("deep|ping|pong|recursive"))]
		| group_by(.function) | map([.[0].function, (map(.self_ns) | add)])' \
		"$(json '[.[0].functions[] | select(.name | test("deep|ping|pong|recursive"))
			| [.name, .self_ns]] | sort')"
	assert_json '.[0].tree as $t | [$t[] | . as $n | .total_ns // 0 | . -
		([$t[] | select(.caller == $n.id) | .total_ns // 0] | add // 0) -
		($n.self_ns // 0)] | unique' '[0]'
	fsn detach g
}

@test "tree: is shown as a table or CSV, in part with --top, and not as metrics" {
	need_bpf
	attach_nest --exit ret
	capture "$FIX/nest" 3 deep recursive
	fsn stats g --tree
	assert_output_match '^FUNCTION +CALLS +TIME% +TOTAL +SELF$'
	assert_output_match '^emulated_deep1 +3 '
	assert_output_match '^        emulated_deep5 +3 '
	assert_output_match '^  stepped_recursive \(again\) +27 '
	assert_output_match '^total +90 +100\.0 +([0-9.]+ [a-z]+) +\1$'
	fsn stats g --tree --top 1 --sort calls
	assert_output_match '^emulated_recursive +3 '
	assert_output_match '^  emulated_recursive \(again\) +27 '
	refute_output_match 'stepped|deep'
	fsn stats g --tree --format csv
	assert_output_match '^time,group,id,caller,depth,function,library,calls,time_percent,total_ns,self_ns'
	shares_add_up
	fsn -s 2 stats g --tree --format prometheus
	assert_stderr_match 'metrics are of functions, processes, cgroups and keys: no '
	fsn -s 2 stats g --tree --hist
	assert_stderr_match '--show and --diff exclude each other'
	fsn stats g --json
	assert_json '.[0] | has("tree")' false
	fsn detach g
	attach_nest --exit ret --no-nesting
	capture "$FIX/nest" 1 deep
	fsn stats g --tree
	assert_output_match '^who called whom is not known: it was attached with --without nesting, or calls are sampled$'
	fsn stats g --tree --json
	assert_json '.[0].tree' null
	fsn detach g
}

@test "times: paths beyond the table's size count as others, and none is missing" {
	need_bpf
	fsn attach g --lib "$FIX/nest" --exit ret 'way[0-5]'
	capture "$FIX/nest" 1 ways
	fsn stats g --tree --json
	assert_json '.[0].tree | [(map(.calls) | add), (map(select(.function)) | length <= 1024),
		(map(select(.function == null)) | length),
		(map(select(.function == null))[0].calls >= 932)]' '[1956,true,1,true]'
	assert_json '[.[0].tree[] | select(.function) | .calls] | unique' '[1]'
	fsn stats g --tree
	assert_output_match '^others +[0-9]+ '
	fsn detach g
}

@test "tree: each call is in exactly one reading, with resets and in intervals" {
	need_bpf
	fsn attach g --lib "$FIX/nest" launch launch_stub
	: >"$BATS_TEST_TMPDIR/all"
	start_bg nest "$FIX/nest" 3 launches
	while kill -0 "$(bg_pid nest)" 2>/dev/null; do
		fsn stats g --tree --reset --json
		printf '%s\n' "$output" >>"$BATS_TEST_TMPDIR/all"
	done
	wait_bg nest
	fsn stats g --tree --reset --json
	assert_eq "$(jq -sc --argjson last "$output" '[.[], $last] | [.[][0].tree[]] | group_by(.depth)
		| map([.[0].depth, .[0].function, (map(.calls) | add)])' <"$BATS_TEST_TMPDIR/all")" \
		'[[0,"launch_stub",7500],[1,"launch",7500]]'
	start_bg stats "$FUNCSNOOP" stats g --tree --json -i 0.05
	poll_until test -s "$(bg_out stats)"
	capture "$FIX/nest" 1 launches
	kill -INT "$(bg_pid stats)"
	wait_bg stats
	assert_eq "$(jq -sc '[.[][0].tree[]] | group_by(.depth)
		| map([.[0].depth, (map(.calls) | add)])' <"$(bg_out stats)")" \
		'[[0,2500],[1,2500]]'
	fsn detach g
}

# Preempted anywhere, and two at once.
@test "tree: callers are exact in threads and in a forked child" {
	local link links exit

	need_bpf
	read_links
	for link in "${links[@]}"; do
		for exit in return ret; do
			fsn attach g --lib "$FIX/nest" --link "$link" --exit "$exit" launch launch_stub
			capture "$FIX/nest" 1 launches
			fsn stats g
			assert_output_match '^launch +2500 '
			assert_output_match '^launch_stub +2500 '
			assert_output_match '^total +2500 '
			assert_eq "$(tree_of g)" "$(printf '%s\n' "0 launch_stub 2500" "1 launch 2500")"
			fsn detach g
		done
	done
}

@test "times: --no-nesting and --sample 2 show no self times, and shares add up" {
	local option

	need_bpf
	for option in --no-nesting --sample=1; do
		attach_nest --exit ret "$option"
		capture "$FIX/nest" 1 deep
		fsn stats g --json
		assert_json '[.[0].functions[] | .self_ns == null, .outer_ns == null] | unique' \
			"[$([[ $option == --no-nesting ]] && echo true || echo false)]"
		fsn detach g
	done
	attach_nest --exit ret --sample 2
	capture "$FIX/nest" 2 deep
	fsn stats g --format csv
	shares_add_up
	fsn stats g --sort self
	refute_output_match ' SELF '
	fsn detach g
}

# Three jumps of half a microsecond each.
# bats test_tags=alone
@test "times: the overhead of tracking a tail call is subtracted" {
	local got try

	need_bpf
	need_arch x86_64
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	for try in 1 2 3 4; do
		fsn attach g tail_chain tail_forward --lib "$FIX/libtail.so" --exit ret
		capture "$FIX/tailcall" short 500
		fsn stats g --json
		got=$(json -c '[.[0].functions[] | [.calls, .returns, .min_ns < 800]]')
		fsn detach g
		[[ $got == *false* ]] || break
		fsn feature --calibrate
	done
	assert_eq "$got" '[[500,500,true],[500,500,true]]'
}

@test "times: a jump that the kernel cannot emulate costs a single-step" {
	local step

	need_bpf
	need_arch x86_64
	fsn attach g asm_itail_rip asm_itail_mem --lib "$FIX/libinsn.so" --exit ret
	capture "$FIX/asmcall" asm_itail_rip 50
	capture "$FIX/asmcall" asm_itail_mem 50
	fsn feature --json
	step=$(json '[.calibration.classes[] | select(.end == "none").cost_ns] | max - min')
	fsn stats g --json
	assert_json '[.[0].functions[] | [.calls, .untimed]]' '[[50,50],[50,50]]'
	assert_json_true "[.[0].functions[] | .cost_ns > .calls * $step] | all"
	fsn detach g
}

@test "times: a tail call target called mostly by others is no longer tracked" {
	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn attach g tail_direct --lib "$FIX/libtail.so" --exit ret
	capture "$FIX/tailcall" others 100
	assert_numbers g "tail_direct 5 0 5 0 0 0"
	capture "$FIX/tailcall" others 2000
	assert_numbers g "tail_direct 10 0 5 0 0 5
left_by_jump 5"
	fsn detach g
}
