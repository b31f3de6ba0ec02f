# SPDX-License-Identifier: BSD-2-Clause
# set: filters of a running group change at once, or not at all.
# bats file_tags=bpf

load helpers

TOO_LONG=a-name-of-more-than-fifteen

calls_of() { # GROUP: all calls
	fsn stats "$1" --json
	json '[.[].functions[].calls] | add // 0'
}

# Counts what `call` makes under the name NAME, and with the pid that it has.
counted() { # GROUP NAME CALLS
	local before

	before=$(calls_of "$1")
	capture "$FIX/call" --comm "$2" add "$3"
	echo $(($(calls_of "$1") - before))
}

# A slow set: each step between two states takes long enough to be observed.
slow_set() { # ARG...
	capture strace -f -qq -o /dev/null -e trace=bpf -e inject=bpf:delay_exit=8000 \
		"$FUNCSNOOP" set "$@"
}

setup() {
	common_setup
	need_bpf
}

@test "set: lists of processes and commands replace each other, and 'all' removes them" {
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn set g --comm one --comm two
	assert_eq "$(counted g one 10) $(counted g two 20) $(counted g three 30)" "10 20 0"
	fsn set g --comm three --comm two
	assert_eq "$(counted g one 10) $(counted g two 20) $(counted g three 30)" "0 20 30"
	fsn set g --pid 1
	assert_eq "$(counted g two 20)" 0 "not the process"
	fsn set g --pid all
	assert_eq "$(counted g one 10) $(counted g two 20)" "0 20"
	fsn set g --comm all
	assert_eq "$(counted g one 10)" 10
	fsn detach g
}

@test "set: counts all calls that pass both the old and the new filter" {
	local pid args

	need_tool strace
	need_no_sanitizer
	fsn attach g fix_add --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --wait --until-line --comm both add
	wait_ready call
	pid=$(bg_pid call)
	fsn set g --pid "$pid" --comm both
	tell call
	wait_line call "^running "
	for args in "--pid $pid --pid 1" "--pid 2 --pid $pid" "--comm both --comm other" \
		"--comm more --comm both --pid $pid" "--pid all" "--pid $pid" "--comm all" \
		"--comm both --pid all"; do
		# shellcheck disable=SC2086	# several words
		slow_set g $args
	done
	tell call
	wait_bg call
	assert_eq "$(calls_of g)" \
		"$(sed -n 's/^result .* calls=\([0-9]*\).*/\1/p' <<<"$output")" "calls"
	fsn detach g
}

@test "set: the maximum number of command names replaces as many others" {
	local i first=() second=()

	fsn attach g fix_add --lib "$FIX/libfix.so"
	for ((i = 0; i < 63; i++)); do
		first+=(--comm "first$i")
		second+=(--comm "second$i")
	done
	fsn set g --comm both "${first[@]}"
	fsn set g "${second[@]}" --comm both
	assert_eq "$(counted g both 5) $(counted g first7 5) $(counted g second62 5)" "5 0 5"
	fsn detach g
}

@test "set: an error changes neither filters nor thresholds" {
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn set g --comm one
	fsn -s 1 set g --slow 0ns --comm two --comm "$TOO_LONG"
	assert_stderr "funcsnoop set: command '$TOO_LONG' has not 1 to 15 bytes"
	assert_eq "$(counted g one 10) $(counted g two 10)" "10 0"
	fsn -s 1 set g --pid 1 --comm "$TOO_LONG"
	assert_eq "$(counted g one 10)" 10
	fsn stats g --json
	assert_json '.[0].functions | map(.slow)' '[0]'
	fsn attach p fix_add --lib "$FIX/libfix.so" --pid $$ --link perf
	fsn -s 1 set p --slow 0ns --pid 1
	assert_stderr_match "^funcsnoop set: group 'p' has probes in the processes of --pid only\$"
	fsn detach g p
}

# After any failure the filter is the old or the new one. Its calls come last.
@test "set: if any step fails, the filter is the old or the new one" {
	local i got calls trace=$BATS_TEST_TMPDIR/trace

	need_tool strace
	need_no_sanitizer
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn set g --comm both --comm old
	capture strace -f -qq -o "$trace" -e trace=bpf "$FUNCSNOOP" set g --comm new --comm both
	grep -q BPF_MAP_DELETE_ELEM "$trace" || fail "nothing is deleted: $(tail "$trace")"
	calls=$(grep -c 'bpf(' "$trace")
	for ((i = calls; i > calls - 12; i--)); do
		fsn set g --comm both --comm old
		capture -s any strace -f -qq -o "$trace" -e trace=bpf \
			-e "inject=bpf:error=EPERM:when=$i" \
			"$FUNCSNOOP" set g --comm new --comm both
		grep -q INJECTED "$trace" || fail "nothing failed: $i of $calls"
		got="$status: $(counted g both 1) $(counted g old 1) $(counted g new 1)"
		[[ $got == "1: 1 1 0" || $got == "0: 1 0 1" ]] ||
			fail "status, then both, old and new: $got: $(grep INJECTED "$trace")"
	done
	fsn detach g
}
