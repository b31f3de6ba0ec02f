#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# --sample: one call of each N is timed, at random within the N.
# bats file_tags=bpf

# shellcheck disable=SC2154

load helpers
load stream

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# Blocks of two calls, one of 1 us and one of 9 us: of 10,000 samples 5,000 are short, with a standard
# deviation of 50; 300 are six of these. Without chance it would be all of them, or none.
@test "sample: a function that takes 1 us and 9 us in turn has as many samples of each" {
	fsn attach g rh_alternate rh_descend --lib "$FIX/rhythm" --sample 2
	capture taskset -c 0 "$FIX/rhythm" 20000
	assert_output_match '^rh_alternate 20000 '
	fsn stats g --json
	assert_json '.[0].functions[] | select(.name == "rh_alternate") | [.calls, .returns, .untimed]' '[20000,10000,10000]'
	assert_between "$(json '[.[0].functions[] | select(.name == "rh_alternate").histogram[]
		| select(.lt_ns <= 5120).count] | add')" 4700 5300 "short samples"
	fsn detach g
}

# 4,000 samples of 40,000 calls: 400 of each level, with a standard deviation of 19; 114 are six of these.
@test "sample: a recursion of exactly ten levels has as many samples of each level" {
	fsn attach g rh_descend --lib "$FIX/rhythm" --sample 10 --key arg1
	capture taskset -c 0 "$FIX/rhythm" 40000
	assert_output_match '^rh_descend 40000 '
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .returns, .untimed, (.rows | length)]' '[40000,4000,36000,10]'
	assert_json '[.[0].functions[0].rows[].returns | select(. < 286 or . > 514)]' '[]'
	assert_json '[.[0].functions[0].rows[].returns] | add' 4000
	fsn detach g
}

# The numbers (second argument) of the calls that a stream shows, 1 of 10 of 1000, to shown.
shown_numbers() {
	fsn attach g fix_add --lib "$FIX/libfix.so" --exit return
	start_stream s g --json --sample 10
	capture taskset -c 0 "$FIX/call" add 1000
	stop_stream s
	shown=$(jq -r 'select(.type == "call").args.arg2' <<<"$output" | while read -r n; do echo $((n)); done)
	fsn detach g
}

# The chance that the place is the same in all 100 blocks, or in two runs, is below 10^-90.
@test "sample: one call of each ten is shown, another one from block to block and from run to run" {
	local first shown

	shown_numbers
	first=$shown
	assert_eq "$(awk '{ print int($1 / 10) }' <<<"$first")" "$(seq 0 99)" "blocks"
	[[ $(awk '{ print $1 % 10 }' <<<"$first" | sort -u | wc -l) -gt 3 ]] || fail "places: $first"
	shown_numbers
	[[ $shown != "$first" ]] || fail "the same calls"
}
