# SPDX-License-Identifier: BSD-2-Clause
# Whether a time is the call's: what the probes themselves take is taken off, and told.
# bats file_tags=bpf

load helpers
load stream

CALIBRATION=/run/funcsnoop/calibration

# The tests have a mount namespace of their own, and here a /run/funcsnoop of their own.
setup() {
	common_setup
	[[ $EUID == 0 && -z ${FSN_NO_BPF-} ]] || return 0
	[[ -d /run/funcsnoop ]] || mkdir -m 700 /run/funcsnoop
	mount -t tmpfs -o mode=700 funcsnoop-test /run/funcsnoop
}

teardown() {
	[[ $EUID != 0 || -n ${FSN_NO_BPF-} ]] || umount /run/funcsnoop
	common_teardown
}

attach_spin() { # [OPTION...] FUNCTION
	fsn attach g --lib "$FIX/spin" --site entry "$@"
}

# One run: the shortest time of each function is what it took by its own clock, with 5 % and
# what the manual allows. What disturbs only ever adds, so that one call in 300 is enough.
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
@test "functions of no time, 1 us and 100 us show that, by each kind of link and of end" {
	local link exit

	need_bpf
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		for exit in return ret; do
			attach_spin --link "$link" --exit "$exit" 'spin_*_*'
			assert_right --link "$link" --exit "$exit"
			fsn detach g
		done
	done
}

@test "what is taken off is that of the function's class, and nothing with --raw" {
	local want raw

	need_bpf
	attach_spin --exit ret 'spin_*_0'
	capture "$FIX/spin" 50
	fsn stats g --json
	want=$(awk '/ at / { sub(/.*:/, ""); print "[" $5 "," $13 "]" }' "$CALIBRATION")
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

@test "times within the noise are marked in tables, others and raw ones are not" {
	need_bpf
	attach_spin --exit ret 'spin_emulated_*'
	capture "$FIX/spin" 20
	fsn stats g
	assert_output_match '^spin_emulated_0 +20 .* ~[0-9]+ ns '
	refute_output_match '^spin_emulated_100us .*~'
	fsn stats g --format csv
	refute_output_match '~'
	fsn detach g
	attach_spin --exit ret --raw 'spin_emulated_*'
	capture "$FIX/spin" 20
	fsn stats g
	refute_output_match '^spin.*~'
	fsn detach g
}

@test "streams show the same times as the statistics" {
	need_bpf
	attach_spin --exit ret spin_emulated_1us
	start_stream calls g --json -n 40
	capture "$FIX/spin" 40
	wait_bg calls
	fsn stats g --json
	assert_json '.[0].functions[0] | [.min_ns, .max_ns, .total_ns]' \
		"$(jq -sc 'map(.duration_ns) | [min, max, add]' "$(bg_out calls)")"
	fsn detach g
}

@test "attach measures by itself, once after each boot, and keeps it" {
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

@test "attach says what a call will take, of each class of functions" {
	need_bpf
	fsn feature --calibrate
	sed -i -E 's/:.*/: 0 500 400 1000 600 9000 600 9100 0 7000 6000 8000 6000 16000 6000 8100/' \
		"$CALIBRATION"
	attach_spin --exit ret 'spin_emulated_*'
	# What ret takes is not the same on all machines, what was measured is.
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

@test "that another group probes the same functions is told at the attach" {
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
# REGEX can have others.
is_tail_right() { # REGEX
	sort <<<"$output" >"$BATS_TEST_TMPDIR/truth"
	fsn stats g --json
	json -r '.[0].functions[] | select(.returns > 0) | "\(.name) \(.min_ns)"' |
		sort >"$BATS_TEST_TMPDIR/shown"
	join "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/shown" | awk -v other="$1" '
		$1 ~ other { next }
		{ slack = $2 * 0.05 + 3000; n++ }
		$3 > $2 + slack || $3 < $2 - slack { wrong = wrong " " $0 ";" }
		END { if (!n || wrong) { print n ":" wrong; exit 1 } }'
}

assert_tail_right() { # REGEX CASE CALLS
	local try

	for try in 1 2 3 4; do
		capture "$FIX/tailcall" "$2" "$3"
		! is_tail_right "$1" || return 0
		fsn reset g
	done
	fail "not the time that the functions took"
}

# NAME CALLS RETURNS OTHERS of all that were called. A call whose jump led astray is found to be
# untimed when the next one begins.
tail_counts() {
	json -r '.[0].functions[] | select(.calls > 0)
		| "\(.name) \(.calls) \(.returns) \(.untimed + .in_flight)"' | sort
}

@test "calls that leave by a jump have their own time or none, by each kind of link" {
	local link

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		[[ $link != session ]] || continue
		attach_tail "$link" ret
		assert_tail_right '^$' jumps 20
		assert_eq "$(tail_counts)" "$(printf '%s\n' \
			"tail_body 20 20 0" "tail_chain 20 20 0" "tail_cond 20 20 0" \
			"tail_direct 20 20 0" "tail_even 60 20 40" "tail_forward 20 20 0" \
			"tail_indirect 20 0 20" "tail_odd 60 20 40" "tail_plt 20 20 0" \
			"tail_preempted 20 0 20" "tail_public 20 20 0" "tail_recurse 100 20 80" \
			"tail_target 40 40 0" "tail_to_target 20 20 0" "tail_virtual 20 0 20")"
		assert_json '.[0].functions[] | select(.name == "tail_preempted")
			| [.untimed >= 19, .abandoned]' '[true,0]'
		fsn detach g
	done
}

@test "return probes see the ends of calls that leave by a jump, whatever it leads to" {
	local link

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		attach_tail "$link" return
		assert_tail_right '^tail_(even|recurse)$' jumps 20
		assert_json '[.[0].functions[] | select(.calls != .returns)]' '[]'
		fsn detach g
	done
}

@test "what an exception leaves behind a jump has no time, and gives others none" {
	local link

	need_bpf
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		[[ $link != session ]] || continue
		attach_tail "$link" ret
		assert_tail_right '^$' throws 20
		assert_json '[.[0].functions[] | select(.calls > 0)
			| [.name, .calls, .returns, .in_flight + .abandoned, .untimed]] | sort' \
			'[["tail_nested",20,0,20,0],["tail_stepped",1,1,0,0],["tail_thrower",20,20,0,0],["tail_throws",60,0,60,0],["tail_throws_stepped",20,0,20,0],["tail_throws_too",20,20,0,0]]'
		fsn detach g
	done
}
