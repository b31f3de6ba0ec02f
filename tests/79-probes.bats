#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Times without the probes inside: those of other callers' tail calls, and those in which a thread
# loses its CPU.
# bats file_tags=bpf
# alone: times are compared

load helpers

setup() {
	common_setup
	need_bpf
	need_arch x86_64
	need_tool jq
}

avg_now() { # FUNCTION
	"$FUNCSNOOP" stats g --json | jq ".[0].functions[] | select(.name == \"$1\").avg_ns"
}

avg_of() { # FUNCTION
	json ".[0].functions[] | select(.name == \"$1\").avg_ns"
}

# ty_outer() takes some nanoseconds. The `ret` of ty_helper() is single-stepped for ty_tail()'s sake:
# three steps of 10 us in each call, of which what is taken off is right to a tenth.
@test "tail calls: probes of a tail-called function are not time of its other callers" {
	fsn attach g ty_outer ty_tail --lib "$FIX/tiny" --exit ret
	capture "$FIX/tiny" 1 3000
	fsn stats g --json
	assert_json '[.[0].functions[] | [.name, .calls]]' '[["ty_outer",3000],["ty_tail",3000]]'
	assert_between "$(avg_of ty_outer)" 0 3000 "ns a call"
	assert_json '.[0].functions[] | select(.name == "ty_outer") | .self_ns <= 3000 * .returns' true
	# More than the bound of its own probe is marked.
	fsn stats g
	if (($(avg_now ty_outer) > 400)); then
		assert_output_match '^ty_outer .* ~[0-9.]+ [mun]?s '
	fi
	fsn detach g
}

# More hits by others than tracked calls: tracking ends, and with the next command the breakpoints.
@test "tail calls: breakpoints of a tail-called function are removed when tracking is given up" {
	local before after pins

	fsn attach g ty_outer ty_tail --lib "$FIX/tiny" --exit ret
	pins=$(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -name 'link_*' | wc -l)
	capture "$FIX/tiny" 1 3000
	fsn stats g --json
	before=$(json '.[0].functions[] | select(.name == "ty_tail") | .returns')
	assert_between "$before" 1 2999 "tracked tail calls"
	[[ $(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -name 'link_*' | wc -l) -lt $pins ]] || fail "no link went"
	capture "$FIX/tiny" 1 3000
	fsn stats g --json
	after=$(json '.[0].functions[] | select(.name == "ty_tail") | [.calls, .returns, .untimed]')
	assert_eq "$after" "[6000,$before,$((6000 - before))]"
	assert_json '.[0].functions[] | select(.name == "ty_outer") | [.calls, .returns]' '[6000,6000]'
	fsn detach g
}

@test "preemption: with more threads than CPUs a nanosecond function takes none of the lost time" {
	local five threads

	for threads in 4 8; do
		fsn attach g ty_push ty_step ty_five --lib "$FIX/tiny"
		capture "$FIX/tiny" "$threads" 10000
		five=${output##* }
		fsn stats g --json
		assert_json '[.[0].functions[] | .calls, .returns] | unique' "[$((threads * 10000))]"
		assert_between "$(avg_of ty_push)" 0 400 "ns a call of ty_push with $threads threads"
		assert_between "$(avg_of ty_step)" 0 3000 "ns a call of ty_step with $threads threads"
		# What is left out of those is not put into this: by its own clock, which has no probe inside.
		assert_between "$(json '.[0].functions[] | select(.name == "ty_five").total_ns')" \
			$((five * 85 / 100)) $((five * 115 / 100)) "ns in ty_five with $threads threads"
		fsn detach g
	done
}
