#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Commands of other tracers are answered with a line that works here.

# shellcheck disable=SC2154,SC2086

load helpers

# The line of the hint, as words behind "funcsnoop".
hinted() { # COMMAND
	fsn -s 2 "$1"
	assert_output ""
	assert_stderr_match "^funcsnoop: unknown command '$1'$"
	line=$(sed -n "s/^hint: run 'funcsnoop \(.*\)'$/\1/p" <<<"$stderr")
	[[ -n $line ]] || fail "no line for $1"
}

@test "commands of other tracers: the error names a line that is valid usage" {
	local c line

	for c in record profile report top trace strace funccount funclatency offcputime memleak; do
		hinted "$c"
		fsn $line --usage
	done
	fsn -s 2 --json record
	assert_json 'keys' '["error"]'
}

# bats test_tags=bpf
@test "commands of other tracers: the line counts what it is for" {
	local c line

	need_bpf
	for c in trace funccount funclatency; do
		hinted "$c"
		line=${line/LIB:FUNCTION/$FIX/libfix.so:fix_add}
		fsn $line -- "$FIX/call" add 7
		assert_stderr_match '^fix_add +7 |count = 7$'
	done
}
